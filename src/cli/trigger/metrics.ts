/** The figures of a run of `trigger` for `--metrics-file`. */
import type { Gauge } from '../../base/exposition.ts'
import type { TriggerLine, TriggerSummaryLine } from '../../index.ts'
import { RunFigures } from '../run-figures.ts'

const statuses = ['delivered', 'failed', 'abandoned', 'removed'] as const

const gauges: readonly Gauge<TriggerMetrics>[] = [
  ['triggers', 'Triggers of the run by outcome; `failed`: to be tried again.', ({ counts }) => statuses.map((status) => [{ status }, counts[status]])],
  ['due', 'Triggers that were due.', ({ end }) => end?.summary.due],
  ['waiting', 'Due triggers that wait for the end of a pause of their hooks.', ({ end }) => end?.summary.waiting],
  ['dropped', 'Listings beyond the newest of a hook, which the run did not send.', ({ end }) => end?.summary.dropped],
  ['hooks_switched_off', 'Hooks that the run switched off.', ({ hooksOff }) => hooksOff],
] // biome-ignore format: a table

/** Runs with `--again` have the label `command="again"`, others `command="trigger"`. */
export class TriggerMetrics {
  private readonly figures: RunFigures<TriggerMetrics>
  readonly counts = { delivered: 0, failed: 0, abandoned: 0, removed: 0 }
  hooksOff = 0
  /** How the run ended; undefined where it goes on, or broke off. */
  end: { summary: TriggerSummaryLine; stopped: boolean } | undefined

  /** `before` is the old text of the file: its figures of this command's earlier runs are kept. */
  constructor(command: 'trigger' | 'again', before: string, nowMs: number) {
    this.figures = new RunFigures('leadpush_trigger', gauges, command, before, nowMs)
  }

  line({ status, httpStatus }: TriggerLine, durationMs: number): void {
    this.counts[status]++
    this.figures.attempt({ httpStatus, durationMs })
  }

  render(nowMs: number, exitCode: number | undefined): string {
    return this.figures.render(nowMs, exitCode, this.end?.stopped === false, this)
  }
}
