/** The figures of a push for `--metrics-file`. */
import type { RunCommand } from '../../deliveries/runs.ts'
import type { PushLine } from '../../index.ts'
import type { Hold } from '../../push/hold.ts'
import type { PushReporter } from '../../push/reporter.ts'
import { Tally } from '../../push/reporter.ts'
import type { PushEnd } from '../../push/run-push.ts'
import { type CountedAttempt, RunFigures } from '../run-figures.ts'

export class PushMetrics implements PushReporter {
  private readonly figures: RunFigures
  private readonly tally = new Tally()
  private users: number | undefined
  private held = false
  private allowedRate: number | undefined
  private end: Omit<PushEnd, 'toldBefore'> | undefined

  /** `before` is the old text of the file: its figures of this command's earlier runs are kept. */
  constructor(command: RunCommand, before: string, nowMs: number) {
    this.figures = new RunFigures('leadpush_push', command, before, nowMs)
  }

  line(line: PushLine, hold?: Hold): void {
    this.tally.add(line)
    if (hold && hold.by !== 'slowness') this.held = true
  }

  pace(ratePerSecond: number | undefined): void {
    this.allowedRate = ratePerSecond
  }

  total(users: number): void {
    this.users = users
  }

  attempt(attempt: CountedAttempt): void {
    this.figures.attempt(attempt)
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
    const all = this.figures.begin(nowMs, exitCode, end?.cameToEnd ?? false)
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
    this.figures.addAttempts(all)
    return all.toString()
  }
}
