/** The figures of a push for `--metrics-file`. */
import type { Gauge } from '../../base/exposition.ts'
import type { RunCommand } from '../../deliveries/runs.ts'
import type { PushLine } from '../../index.ts'
import type { Hold } from '../../push/hold.ts'
import { Tally } from '../../push/reporter.ts'
import type { PushEnd } from '../../push/run-push.ts'
import { type CountedAttempt, RunFigures } from '../run-figures.ts'

const statuses = ['delivered', 'failed', 'unknown', 'pending'] as const

const gauges: readonly Gauge<PushMetrics>[] = [
  ['held', 'Whether the guard held back users of the run, or all of it.', ({ held }) => Number(held)],
  ['allowed_attempts_per_second', 'About how many attempts a second the receiver allows, since it asked for less.', ({ allowedRate }) => allowedRate],
  ['users', 'Users whom the run set out to serve.', ({ end, users }) => end?.summary.users ?? users],
  ['skipped_users', 'Users whom the run skipped: without queries, or held back.', ({ tally }) => tally.skipped],
  ['already_served_users', 'Users who had their weekly delivery before.', ({ end }) => end?.summary.already],
  ['owed_users', 'Users whom the run did not serve, and who are owed their delivery.', ({ end }) => end?.summary.owed],
  ['elsewhere', 'What another process had claimed when the run ended.', ({ end }) => end?.summary.elsewhere],
  ['deliveries', 'Deliveries of the run, by how they ended; `pending`: with an attempt to come.', ({ tally }) => statuses.map((status) => [{ status }, tally[status]])],
  ['leads', 'Leads in these deliveries.', ({ tally }) => tally.leads],
  ['body_bytes', 'Bytes of the bodies of these deliveries.', ({ tally }) => tally.bytes],
] // biome-ignore format: a table

/** Listens to the push; `end` is undefined where the run goes on, or broke off. */
export class PushMetrics {
  private readonly figures: RunFigures<PushMetrics>
  readonly tally = new Tally()
  users: number | undefined
  held = false
  allowedRate: number | undefined
  end: Omit<PushEnd, 'toldBefore'> | undefined

  /** `before` is the old text of the file: its figures of this command's earlier runs are kept. */
  constructor(command: RunCommand, before: string, nowMs: number) {
    this.figures = new RunFigures('leadpush_push', gauges, command, before, nowMs)
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

  render(nowMs: number, exitCode: number | undefined): string {
    return this.figures.render(nowMs, exitCode, this.end?.cameToEnd ?? false, this)
  }
}
