/** The figures of a run of `trigger` for `--metrics-file`. */
import type { TriggerLine, TriggerSummaryLine } from '../../index.ts'
import { RunFigures } from '../run-figures.ts'

const statuses = ['delivered', 'failed', 'abandoned', 'removed'] as const

/** Runs with `--again` have the label `command="again"`, others `command="trigger"`. */
export class TriggerMetrics {
  private readonly figures: RunFigures
  private readonly counts = { delivered: 0, failed: 0, abandoned: 0, removed: 0 }
  private hooksOff = 0
  private summary: TriggerSummaryLine | undefined
  private cameToEnd = false

  /** `before` is the old text of the file: its figures of this command's earlier runs are kept. */
  constructor(command: 'trigger' | 'again', before: string, nowMs: number) {
    this.figures = new RunFigures('leadpush_trigger', command, before, nowMs)
  }

  line({ status, httpStatus }: TriggerLine, durationMs: number): void {
    this.counts[status]++
    this.figures.attempt({ httpStatus, durationMs })
  }

  /** Counts a hook that was switched off. */
  off(): void {
    this.hooksOff++
  }

  /** Notes how the run ended; a run without it broke off. */
  noteEnd(summary: TriggerSummaryLine, stopped: boolean): void {
    this.summary = summary
    this.cameToEnd = !stopped
  }

  /** The text of the file at `nowMs`; `exitCode` is undefined while the run goes on. */
  render(nowMs: number, exitCode: number | undefined): string {
    const { summary } = this
    const all = this.figures.begin(nowMs, exitCode, this.cameToEnd)
    all.gauge(
      'leadpush_trigger_triggers',
      'Triggers of the run by outcome; `failed`: to be tried again.',
      statuses.map((status) => [{ status }, this.counts[status]]),
    )
    all.gauge('leadpush_trigger_due', 'Triggers that were due.', summary?.due)
    all.gauge(
      'leadpush_trigger_waiting',
      'Due triggers that wait for the end of a pause of their hooks.',
      summary?.waiting,
    )
    all.gauge(
      'leadpush_trigger_dropped',
      'Listings beyond the newest of a hook, which the run did not send.',
      summary?.dropped,
    )
    all.gauge('leadpush_trigger_hooks_switched_off', 'Hooks that the run switched off.', this.hooksOff)
    this.figures.addAttempts(all)
    return all.toString()
  }
}
