/**
 * What a push shows while it runs and when it is over: JSON lines, or for people the trouble as it comes, how far it is, a
 * summary, and why what did not arrive did not.
 */

import { bytes, count, plural, seconds } from '../../base/amounts.ts'
import type { DeliveryLine, PushLine, SummaryLine } from '../../index.ts'
import { CauseTally } from '../../inspect/status/causes.ts'
import type { PushReporter } from '../../push/reporter.ts'
import { writeCauses } from '../causes-view.ts'
import type { Log } from '../log.ts'
import { toJsonLine, wrap, writeFacts, writeJson, writeLine, writeLineSoon, writeSoon } from '../output.ts'
import { paint, paintStatus } from '../painted.ts'
import { Progress } from './progress.ts'

/** So many lines of each type are shown to a person; the rest are counted. */
const shownMax = 20
const causesShown = 5
/** Of each cause. */
const usersShown = 3

export interface PushView {
  reporter: PushReporter
  /** `held`: the guard held something back; `toldBefore`: there is nothing to say that was not said. */
  end(summary: SummaryLine, end: { held: boolean; toldBefore: boolean }): Promise<void>
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
    async end(summary, { held, toldBefore }) {
      progress.stop()
      if (json) return await writeJson(summary)
      if (toldBefore) return
      const unshown = Object.values(shown).reduce((sum, lines) => sum + Math.max(0, lines - shownMax), 0)
      if (unshown > 0) await writeLine(`… and ${count(unshown)} more; --json lists all`)
      await writeSummary(summary)
      // of one user the line above says it all
      if (!single) {
        const title = 'Not delivered, by cause'
        await writeCauses(causes.top(), { title, causesShown, usersShown, arrived: summary.delivered })
      }
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
    ['delivered', paint('green', plural(summary.delivered, 'delivery'))],
  ]
  if (summary.failed > 0) facts.push(['failed', paint('red', plural(summary.failed, 'delivery'))])
  if (summary.unknown > 0) facts.push(['unknown', paint('yellow', plural(summary.unknown, 'delivery'))])
  const pending = pendingOf(summary)
  if (pending > 0) facts.push(['pending', `${plural(pending, 'delivery')} with an attempt to come`])
  if (summary.skipped > 0) facts.push(['skipped', plural(summary.skipped, 'user')])
  if (summary.already > 0) facts.push(['had theirs', plural(summary.already, 'user')])
  if (summary.elsewhere > 0) facts.push(['elsewhere', `${count(summary.elsewhere)} in the hands of another process`])
  if (summary.owed > 0) facts.push(['owed', `${plural(summary.owed, 'user')} not served by this run`])
  facts.push(['leads', count(summary.leads)], ['bytes', bytes(summary.bytes)], ['took', seconds(summary.seconds)])
  await writeFacts(facts)
}

async function writeAdvice(summary: SummaryLine, held: boolean): Promise<void> {
  const advice: string[] = []
  if (pendingOf(summary) > 0) advice.push('To go on: leadpush push --resume')
  if (held) advice.push('If what is held back is right: leadpush push --all --accept')
  if (summary.failed > 0) advice.push('Once the cause is mended: leadpush push --failed')
  if (summary.unknown > 0) advice.push('To send again what may have arrived: leadpush push --failed --unknown')
  if (advice.length > 0) await writeLine('', ...advice.map((sentence) => wrap(sentence, 0)))
}
