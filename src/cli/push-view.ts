/**
 * What a push shows while it runs and when it is over: JSON lines, or for people the trouble as it comes, a line that moves
 * on a terminal (elsewhere one every 10 s), and a summary.
 */
import type { DeliveryLine, PushLine, PushReporter, SummaryLine } from '../push/reporter.ts'
import type { Log } from './log.ts'
import { bytes, count, isLively, paint, plural, seconds, writeFacts, writeJson, writeLine, writeNow } from './output.ts'

const plainProgressMs = 10_000
const livelyProgressMs = 200
export interface PushView {
  reporter: PushReporter
  /** `held`: the guard held something back. */
  end(summary: SummaryLine, held: boolean): Promise<void>
  stop(): void
}

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

class Progress {
  private total = 0
  private done = 0
  private trouble = 0
  private readonly startedAt = performance.now()
  private timer: NodeJS.Timeout | undefined
  private spinner: import('ora').Ora | undefined

  async start(log: Log, json: boolean): Promise<void> {
    if (isLively() && log.format === 'pretty' && !(json && process.stdout.isTTY)) {
      const { default: ora } = await import('ora')
      this.spinner = ora({ text: this.text(), stream: process.stderr, discardStdin: false }).start()
      this.timer = setInterval(() => {
        if (this.spinner) this.spinner.text = this.text()
      }, livelyProgressMs)
    } else {
      this.timer = setInterval(() => log.info(this.text()), plainProgressMs)
    }
    this.timer.unref()
  }

  setTotal(users: number): void {
    this.total = users
  }

  add(line: PushLine): void {
    if (line.type !== 'delivery' || line.status === 'pending') return
    if (line.part === line.parts) this.done++
    if (line.status !== 'delivered') this.trouble++
  }

  private text(): string {
    const elapsed = (performance.now() - this.startedAt) / 1_000
    const rate = this.done / Math.max(elapsed, 0.001)
    const left = this.total > this.done && rate > 0 ? `, ${seconds((this.total - this.done) / rate)} left` : ''
    const trouble = this.trouble > 0 ? `, ${count(this.trouble)} not delivered` : ''
    return `${count(this.done)} of ${plural(Math.max(this.total, this.done), 'user')}, ${rate.toFixed(rate < 10 ? 1 : 0)}/s${left}${trouble}`
  }

  /** Runs `print` with the moving line out of the way. */
  aside(print: () => void): void {
    this.spinner?.clear()
    print()
    this.spinner?.render()
  }

  stop(): void {
    clearInterval(this.timer)
    this.spinner?.stop()
    this.spinner = undefined
  }
}

export async function createPushView(
  log: Log,
  { json, single }: { json: boolean; single: boolean },
): Promise<PushView> {
  const progress = new Progress()
  await progress.start(log, json)
  const show = (line: PushLine): string | undefined => {
    if (json) return JSON.stringify(line)
    if (line.type === 'skip') return `${line.user ?? 'all users'}  ${paint('yellow', 'skipped')}  ${line.reason}`
    if (line.type === 'warning') return `${line.user}  ${paint('yellow', 'warning')}  ${line.href}: ${line.message}`
    if (line.type === 'delivery' && (single || line.status !== 'delivered')) return describeDelivery(line)
    return undefined
  }
  const reporter: PushReporter = {
    line(line) {
      progress.add(line)
      if (line.type === 'summary') return
      const text = show(line)
      if (text !== undefined) progress.aside(() => void writeNow(`${text}\n`))
    },
    note: (text) => log.warn(text),
    total: (users) => progress.setTotal(users),
    attempt: ({ runId, idempotencyKey, attempt, durationMs, httpStatus, error }) =>
      log.detail(error === null ? 'attempt succeeded' : 'attempt failed', {
        run: runId,
        delivery: idempotencyKey,
        attempt: `${idempotencyKey}#${attempt}`,
        durationMs: Math.round(durationMs),
        httpStatus,
        error,
      }),
  }
  return {
    reporter,
    async end(summary, held) {
      progress.stop()
      if (json) await writeJson(summary)
      else await writeSummary(summary, held)
    },
    stop: () => progress.stop(),
  }
}

async function writeSummary(summary: SummaryLine, held: boolean): Promise<void> {
  const facts: [string, string][] = [
    ['period', summary.period],
    ['users', count(summary.users)],
    ['delivered', paint('green', count(summary.delivered))],
  ]
  if (summary.failed > 0) facts.push(['failed', paint('red', count(summary.failed))])
  if (summary.unknown > 0) facts.push(['unknown', paint('yellow', count(summary.unknown))])
  const pending = summary.deliveries - summary.delivered - summary.failed - summary.unknown
  if (pending > 0) facts.push(['pending', `${count(pending)} with an attempt to come`])
  if (summary.skipped > 0) facts.push(['skipped', count(summary.skipped)])
  if (summary.already > 0) facts.push(['had theirs', count(summary.already)])
  if (summary.elsewhere > 0) facts.push(['elsewhere', `${count(summary.elsewhere)} in the hands of another process`])
  if (summary.owed > 0) facts.push(['owed', `${count(summary.owed)} not served by this run`])
  facts.push(['leads', count(summary.leads)], ['bytes', bytes(summary.bytes)], ['took', seconds(summary.seconds)])
  await writeFacts(facts)
  if (pending > 0) await writeLine('To go on: leadpush push --resume')
  if (held) await writeLine('If what is held back is right: leadpush push --all --accept')
  if (summary.failed > 0) await writeLine('Once the cause is mended: leadpush push --failed')
  if (summary.unknown > 0) await writeLine('To send again what may have arrived: leadpush push --failed --unknown')
}
