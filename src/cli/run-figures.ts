/**
 * The figures of a run for `--metrics-file`: of this run so far, and of the last run that ended. Each has the label `command`: several
 * crontab lines have a file each, and a collector refuses equal samples.
 */
import { Durations, Exposition, type Gauge } from '../base/exposition.ts'
import { packageVersion } from '../base/package-root.ts'

const bucketsSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]

/** An attempt, as the figures count it. */
export interface CountedAttempt {
  /** Null: no complete answer came. */
  httpStatus: number | null
  durationMs: number
}

/** How a run stands. */
interface RunState {
  startMs: number
  nowMs: number
  /** Undefined while the run goes on. */
  exitCode: number | undefined
  last: Readonly<Record<string, number>>
}

const last = (name: string, help: string): Gauge<RunState> => [name, help, (run) => run.last[name]]

/** Figures of the last run that ended: a run that does not end keeps those of the run before. */
const lasting = [
  last('success', 'Whether the last run that ended exited 0.'),
  last('exit_code', 'What the last run that ended exited with.'),
  last('last_end_timestamp_seconds', 'When a run ended last, however it did.'),
  last('last_completion_timestamp_seconds', 'When a run finished last: it was not stopped, held back or without its database, and did not give up.'),
  last('last_success_timestamp_seconds', 'When a run exited 0 last.'),
] // biome-ignore format: a table

const gauges: readonly Gauge<RunState>[] = [
  ['running', 'Whether the run goes on; the figures of a run are those so far then.', ({ exitCode }) => Number(exitCode === undefined)],
  ['start_timestamp_seconds', 'When the run began.', ({ startMs }) => startMs / 1_000],
  ['update_timestamp_seconds', 'When this was written: twice a minute while a run goes on.', ({ nowMs }) => nowMs / 1_000],
  ['duration_seconds', 'How long the run took so far.', ({ nowMs, startMs }) => (nowMs - startMs) / 1_000],
  ...lasting,
] // biome-ignore format: a table

/** The figures of a run: those that runs of every kind have, attempts, and `own` ones of a state `S`. */
export class RunFigures<S> {
  private readonly prefix: string
  private readonly own: readonly Gauge<S>[]
  private readonly command: string
  private readonly startMs: number
  private readonly before: Record<string, number>
  private readonly attempts = new Map<string, number>()
  private readonly durations = new Durations(bucketsSeconds)

  /** Names begin with `prefix`. `before` is the old text of the file: its figures of this command's earlier runs are kept. */
  constructor(prefix: string, own: readonly Gauge<S>[], command: string, before: string, nowMs: number) {
    this.prefix = prefix
    this.own = own
    this.command = command
    this.startMs = nowMs
    const lines = new RegExp(`^${prefix}_(\\w+)\\{command="${command}"\\} ([\\d.e+]+)$`, 'gm')
    const found = [...before.matchAll(lines)].map(([, name, value]) => [name, Number(value)])
    this.before = Object.fromEntries(found.filter(([name]) => lasting.some(([known]) => known === name)))
  }

  attempt({ httpStatus, durationMs }: CountedAttempt): void {
    const status = httpStatus === null ? 'none' : String(httpStatus)
    this.attempts.set(status, (this.attempts.get(status) ?? 0) + 1)
    this.durations.add(durationMs / 1_000)
  }

  /** The text of the file at `nowMs`; `exitCode` is undefined while the run goes on. */
  render(nowMs: number, exitCode: number | undefined, cameToEnd: boolean, state: S): string {
    const { prefix, startMs, before } = this
    const all = new Exposition({ command: this.command })
    all.gauge('leadpush_build_info', 'The version that wrote this.', [[{ version: packageVersion }, 1]])
    const ended = exitCode === undefined ? {} : lastingOf(nowMs / 1_000, exitCode, cameToEnd)
    all.gauges(prefix, gauges, { startMs, nowMs, exitCode, last: { ...before, ...ended } })
    all.gauges(prefix, this.own, state)
    all.gauge(
      `${prefix}_attempts`,
      'Attempts of the run, by the status of the answer; `none`: no complete answer came.',
      [...this.attempts].map(([http_status, attempts]) => [{ http_status }, attempts]),
    )
    const durations = 'Attempts of the run, from connecting to the end of the answer.'
    all.histogram(`${prefix}_attempt_duration_seconds`, durations, this.durations)
    return all.toString()
  }
}

const lastingOf = (nowSeconds: number, exitCode: number, cameToEnd: boolean): Record<string, number> => ({
  success: exitCode === 0 ? 1 : 0,
  exit_code: exitCode,
  last_end_timestamp_seconds: nowSeconds,
  ...(cameToEnd && { last_completion_timestamp_seconds: nowSeconds }),
  ...(exitCode === 0 && { last_success_timestamp_seconds: nowSeconds }),
})
