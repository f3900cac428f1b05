/**
 * The figures of a push in Prometheus' text format, for node exporter's textfile collector: of this run so far, and of the last run
 * that ended. prom-client is not used, since it renders asynchronously, which a process that is exiting cannot wait for.
 */

import { packageVersion } from '../../base/package-root.ts'
import type { RunCommand } from '../../deliveries/runs.ts'
import type { PushLine } from '../../index.ts'
import type { PushReporter } from '../../push/reporter.ts'
import { Tally } from '../../push/reporter.ts'
import type { PushEnd } from '../../push/run-push.ts'

/** Figures of the last run that ended: a run that does not end keeps those of the run before. */
const lasting = {
  leadpush_push_success: 'Whether the last run that ended exited 0.',
  leadpush_push_exit_code: 'What the last run that ended exited with.',
  leadpush_push_last_end_timestamp_seconds: 'When a run ended last, however it did.',
  leadpush_push_last_completion_timestamp_seconds:
    'When a run came to its end last: it was not stopped, held back or without its database, and did not give up.',
  leadpush_push_last_success_timestamp_seconds: 'When a run exited 0 last.',
} as const
type Lasting = Partial<Record<keyof typeof lasting, number>>

const bucketsSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]

type Labels = Record<string, string>

const escapeLabel = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

/** Renders metrics, each with the label `command`: several crontab lines have a file each, and a collector refuses equal samples. */
class Exposition {
  private readonly command: RunCommand
  private text = ''

  constructor(command: RunCommand) {
    this.command = command
  }

  gauge(name: string, help: string, value: number | undefined | readonly (readonly [Labels, number])[]): void {
    if (value === undefined) return
    this.head(name, help, 'gauge')
    for (const [labels, sample] of typeof value === 'number' ? [[{}, value] as const] : value) {
      this.sample(name, labels, sample)
    }
  }

  histogram(name: string, help: string, { buckets, sum, count }: Durations): void {
    this.head(name, help, 'histogram')
    for (const [at, le] of bucketsSeconds.entries()) this.sample(`${name}_bucket`, { le: `${le}` }, buckets[at] ?? 0)
    this.sample(`${name}_bucket`, { le: '+Inf' }, count)
    this.sample(`${name}_sum`, {}, sum)
    this.sample(`${name}_count`, {}, count)
  }

  private head(name: string, help: string, type: string): void {
    this.text += `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`
  }

  private sample(name: string, labels: Labels, value: number): void {
    const shown = Object.entries({ command: this.command, ...labels }).map(
      ([key, text]) => `${key}="${escapeLabel(text)}"`,
    )
    this.text += `${name}{${shown.join(',')}} ${value}\n`
  }

  toString(): string {
    return this.text
  }
}

/** A histogram; its buckets are cumulative, as in Prometheus. */
class Durations {
  readonly buckets: number[] = bucketsSeconds.map(() => 0)
  sum = 0
  count = 0

  add(seconds: number): void {
    this.sum += seconds
    this.count++
    for (const [at, le] of bucketsSeconds.entries()) if (seconds <= le) this.buckets[at] = (this.buckets[at] ?? 0) + 1
  }
}

export class PushMetrics implements PushReporter {
  private readonly command: RunCommand
  private readonly before: Lasting
  private readonly startMs: number
  private readonly tally = new Tally()
  private readonly attempts = new Map<string, number>()
  private readonly durations = new Durations()
  private users: number | undefined
  private held = false
  private allowedRate: number | undefined
  private end: Omit<PushEnd, 'toldBefore'> | undefined

  /** `before` is the old text of the file: its figures of this command's earlier runs are kept. */
  constructor(command: RunCommand, before: string, nowMs: number) {
    this.command = command
    this.startMs = nowMs
    this.before = readLasting(command, before)
  }

  line(line: PushLine): void {
    this.tally.add(line)
    if (line.type === 'skip' && line.reason.startsWith('held: ')) this.held = true
  }

  pace(ratePerSecond: number | undefined): void {
    this.allowedRate = ratePerSecond
  }

  total(users: number): void {
    this.users = users
  }

  attempt({ httpStatus, durationMs }: { httpStatus: number | null; durationMs: number }): void {
    const status = httpStatus === null ? 'none' : String(httpStatus)
    this.attempts.set(status, (this.attempts.get(status) ?? 0) + 1)
    this.durations.add(durationMs / 1_000)
  }

  note(): void {}

  waits(): void {}

  /** Notes how the run ended; a run without it broke off. */
  noteEnd(end: Omit<PushEnd, 'toldBefore'>): void {
    this.end = end
  }

  /** The text of the file at `nowMs`; `exitCode` is undefined while the run goes on. */
  render(nowMs: number, exitCode: number | undefined): string {
    const { tally, end } = this
    const summary = end?.summary
    const nowSeconds = nowMs / 1_000
    const all = new Exposition(this.command)
    all.gauge('leadpush_build_info', 'The version that wrote this.', [[{ version: packageVersion }, 1]])
    all.gauge(
      'leadpush_push_running',
      'Whether the run goes on; the figures of a run are those so far then.',
      exitCode === undefined ? 1 : 0,
    )
    all.gauge('leadpush_push_start_timestamp_seconds', 'When the run began.', this.startMs / 1_000)
    all.gauge(
      'leadpush_push_update_timestamp_seconds',
      'When this was written: twice a minute while a run goes on.',
      nowSeconds,
    )
    all.gauge('leadpush_push_duration_seconds', 'How long the run took so far.', (nowMs - this.startMs) / 1_000)
    const last = { ...this.before, ...(exitCode !== undefined && this.lastingNow(nowSeconds, exitCode)) }
    for (const [name, help] of Object.entries(lasting)) all.gauge(name, help, last[name as keyof Lasting])
    all.gauge('leadpush_push_held', 'Whether the guard held back users of the run, or all of it.', this.held ? 1 : 0)
    all.gauge(
      'leadpush_push_allowed_attempts_per_second',
      'About how many attempts a second the receiver allows, since it asked for less.',
      this.allowedRate,
    )
    all.gauge('leadpush_push_users', 'Users whom the run set out to serve.', summary?.users ?? this.users)
    all.gauge(
      'leadpush_push_skipped_users',
      'Users whom the run skipped: without queries, or held back.',
      tally.skipped,
    )
    all.gauge('leadpush_push_already_served_users', 'Users who had their weekly delivery before.', summary?.already)
    all.gauge(
      'leadpush_push_owed_users',
      'Users whom the run did not serve, and who are owed their delivery.',
      summary?.owed,
    )
    all.gauge('leadpush_push_elsewhere', 'What another process had claimed when the run ended.', summary?.elsewhere)
    all.gauge(
      'leadpush_push_deliveries',
      'Deliveries of the run, by how they ended; `pending`: with an attempt to come.',
      (['delivered', 'failed', 'unknown', 'pending'] as const).map((status) => [{ status }, tally[status]]),
    )
    all.gauge('leadpush_push_leads', 'Leads in these deliveries.', tally.leads)
    all.gauge('leadpush_push_body_bytes', 'Bytes of the bodies of these deliveries.', tally.bytes)
    all.gauge(
      'leadpush_push_attempts',
      'Attempts of the run, by the status of the answer; `none`: no complete answer came.',
      [...this.attempts].map(([http_status, attempts]) => [{ http_status }, attempts]),
    )
    all.histogram(
      'leadpush_push_attempt_duration_seconds',
      'Attempts of the run, from connecting to the end of the answer.',
      this.durations,
    )
    return all.toString()
  }

  private lastingNow(nowSeconds: number, exitCode: number): Lasting {
    return {
      leadpush_push_success: exitCode === 0 ? 1 : 0,
      leadpush_push_exit_code: exitCode,
      leadpush_push_last_end_timestamp_seconds: nowSeconds,
      ...(this.end?.cameToEnd && { leadpush_push_last_completion_timestamp_seconds: nowSeconds }),
      ...(exitCode === 0 && { leadpush_push_last_success_timestamp_seconds: nowSeconds }),
    }
  }
}

function readLasting(command: RunCommand, text: string): Lasting {
  const found: Lasting = {}
  for (const [, name, value] of text.matchAll(new RegExp(`^(\\w+)\\{command="${command}"\\} ([\\d.e+]+)$`, 'gm'))) {
    if (name !== undefined && name in lasting) found[name as keyof Lasting] = Number(value)
  }
  return found
}
