/**
 * What a push shows while it runs and when it is over: JSON lines, or for people the trouble as it comes, how far it is, a
 * summary, and why what did not arrive did not.
 */
import type { DeliveryLine, PushLine, PushReporter, SummaryLine } from '../push/reporter.ts'
import { type CauseGroup, CauseTally } from '../report/causes.ts'
import type { Log } from './log.ts'
import {
  bytes,
  count,
  paint,
  plural,
  seconds,
  toJsonLine,
  wrap,
  writeFacts,
  writeJson,
  writeLine,
  writeLineSoon,
  writeSoon,
} from './output.ts'
import { Progress } from './push-progress.ts'

/** So many lines of each type are shown to a person; the rest are counted. */
const shownMax = 20
const causesShown = 5
/** Of each cause. */
const usersShown = 3

export interface PushView {
  reporter: PushReporter
  /** `held`: the guard held something back. */
  end(summary: SummaryLine, held: boolean): Promise<void>
  stop(): void
}

const isTrouble = ({ status }: DeliveryLine) => status === 'failed' || status === 'unknown'

function describeDelivery(line: DeliveryLine): string {
  const part = line.parts > 1 ? `, part ${line.part} of ${line.parts}` : ''
  const what = `${plural(line.leads, 'lead')}, ${bytes(line.bytes)}${part}`
  const how = line.attempts > 1 ? `, ${line.attempts} attempts` : ''
  const why = line.error === null ? '' : `: ${line.error}`
  return `${line.user ?? '(removed user)'}  ${paintStatus(line.status)}  ${line.kind}, ${what}${how}${why}`
}

function paintStatus(status: DeliveryLine['status']): string {
  return paint(status === 'delivered' ? 'green' : status === 'failed' ? 'red' : 'yellow', status)
}

function describeLine(line: Exclude<PushLine, SummaryLine>): string {
  if (line.type === 'skip') return `${line.user ?? 'all users'}  ${paint('yellow', 'skipped')}  ${line.reason}`
  if (line.type === 'warning') return `${line.user}  ${paint('yellow', 'warning')}  ${line.href}: ${line.message}`
  return describeDelivery(line)
}

export async function createPushView(
  log: Log,
  { json, single }: { json: boolean; single: boolean },
): Promise<PushView> {
  const progress = new Progress()
  const causes = new CauseTally(usersShown)
  const shown = { delivery: 0, skip: 0, warning: 0 }
  await progress.start(log, json)
  const show = (line: Exclude<PushLine, SummaryLine>): void => {
    if (json) writeSoon(toJsonLine(line))
    else if (line.type === 'delivery' && !isTrouble(line) && !single) return
    else if (++shown[line.type] <= shownMax) writeLineSoon(describeLine(line))
  }
  const reporter: PushReporter = {
    line(line) {
      if (line.type === 'summary') return
      progress.count.add(line)
      if (line.type === 'delivery' && isTrouble(line)) causes.add(line)
      show(line)
    },
    note: (text) => log.warn(text),
    waits: (what) => progress.count.waits(what),
    total: (users) => progress.count.setTotal(users),
    attempt(attempt) {
      progress.count.noteAttempt(attempt)
      const { runId, idempotencyKey, durationMs, httpStatus, error } = attempt
      log.detail(error === null ? 'attempt succeeded' : 'attempt failed', {
        run: runId,
        delivery: idempotencyKey,
        attempt: `${idempotencyKey}#${attempt.attempt}`,
        durationMs: Math.round(durationMs),
        httpStatus,
        error,
      })
    },
  }
  return {
    reporter,
    async end(summary, held) {
      progress.stop()
      if (json) return await writeJson(summary)
      const unshown = Object.values(shown).reduce((sum, lines) => sum + Math.max(0, lines - shownMax), 0)
      if (unshown > 0) await writeLine(`… and ${count(unshown)} more; --json lists all`)
      await writeSummary(summary)
      // of one user the line above says it all
      if (!single) await writeCauses(causes)
      await writeAdvice(summary, held)
    },
    stop: () => progress.stop(),
  }
}

const pendingOf = ({ deliveries, delivered, failed, unknown }: SummaryLine) => deliveries - delivered - failed - unknown

async function writeSummary(summary: SummaryLine): Promise<void> {
  const facts: [string, string][] = [
    ['period', summary.period],
    ['users', count(summary.users)],
    ['delivered', paint('green', count(summary.delivered))],
  ]
  if (summary.failed > 0) facts.push(['failed', paint('red', count(summary.failed))])
  if (summary.unknown > 0) facts.push(['unknown', paint('yellow', count(summary.unknown))])
  const pending = pendingOf(summary)
  if (pending > 0) facts.push(['pending', `${count(pending)} with an attempt to come`])
  if (summary.skipped > 0) facts.push(['skipped', count(summary.skipped)])
  if (summary.already > 0) facts.push(['had theirs', count(summary.already)])
  if (summary.elsewhere > 0) facts.push(['elsewhere', `${count(summary.elsewhere)} in the hands of another process`])
  if (summary.owed > 0) facts.push(['owed', `${count(summary.owed)} not served by this run`])
  facts.push(['leads', count(summary.leads)], ['bytes', bytes(summary.bytes)], ['took', seconds(summary.seconds)])
  await writeFacts(facts)
}

async function writeCauses(causes: CauseTally): Promise<void> {
  const groups = causes.top()
  if (groups.length === 0) return
  await writeLine('', paint('bold', 'Not delivered, by cause'))
  const width = Math.max(...groups.map(({ deliveries }) => count(deliveries).length))
  for (const group of groups.slice(0, causesShown)) await writeCause(group, width)
  const more = groups.length - causesShown
  if (more > 0) await writeLine(wrap(`… and ${count(more)} more; each delivery: leadpush status`, 0))
  await writeLine('')
}

async function writeCause({ cause, remedy, deliveries, users }: CauseGroup, width: number): Promise<void> {
  const margin = ' '.repeat(width + 2)
  await writeLine(`${count(deliveries).padStart(width)}  ${wrap(cause, width + 2)}`)
  const others = users.length === usersShown && deliveries > users.length ? [...users, '…'] : users
  if (users.length > 0) await writeLine(`${margin}${paint('dim', wrap(others.join(', '), width + 2))}`)
  await writeLine(`${margin}${wrap(remedy, width + 2)}`)
}

async function writeAdvice(summary: SummaryLine, held: boolean): Promise<void> {
  const advice: string[] = []
  if (pendingOf(summary) > 0) advice.push('To go on: leadpush push --resume')
  if (held) advice.push('If what is held back is right: leadpush push --all --accept')
  if (summary.failed > 0) advice.push('Once the cause is mended: leadpush push --failed')
  if (summary.unknown > 0) advice.push('To send again what may have arrived: leadpush push --failed --unknown')
  for (const sentence of advice) await writeLine(wrap(sentence, 0))
}
