/**
 * The figures of a run for `--metrics-file`: of this run so far, and of the last run that ended. Each has the label `command`: several
 * crontab lines have a file each, and a collector refuses equal samples.
 */
import { Durations, Exposition } from '../base/exposition.ts'
import { packageVersion } from '../base/package-root.ts'

const bucketsSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]

/** An attempt, as the figures count it. */
export interface CountedAttempt {
  /** Null: no complete answer came. */
  httpStatus: number | null
  durationMs: number
}

/** Figures of the last run that ended, by the end of their names: a run that does not end keeps those of the run before. */
const lasting = {
  success: 'Whether the last run that ended exited 0.',
  exit_code: 'What the last run that ended exited with.',
  last_end_timestamp_seconds: 'When a run ended last, however it did.',
  last_completion_timestamp_seconds:
    'When a run finished last: it was not stopped, held back or without its database, and did not give up.',
  last_success_timestamp_seconds: 'When a run exited 0 last.',
} as const
type Lasting = Partial<Record<keyof typeof lasting, number>>

/** The figures of runs of every kind: the state of the run, the end of the last one, and attempts. */
export class RunFigures {
  private readonly prefix: string
  private readonly command: string
  private readonly startMs: number
  private readonly before: Lasting
  private readonly attempts = new Map<string, number>()
  private readonly durations = new Durations(bucketsSeconds)

  /** Names begin with `prefix`. `before` is the old text of the file: its figures of this command's earlier runs are kept. */
  constructor(prefix: string, command: string, before: string, nowMs: number) {
    this.prefix = prefix
    this.command = command
    this.startMs = nowMs
    this.before = this.readLasting(before)
  }

  attempt({ httpStatus, durationMs }: CountedAttempt): void {
    const status = httpStatus === null ? 'none' : String(httpStatus)
    this.attempts.set(status, (this.attempts.get(status) ?? 0) + 1)
    this.durations.add(durationMs / 1_000)
  }

  /** Begins the text of the file at `nowMs`; `exitCode` is undefined while the run goes on. */
  begin(nowMs: number, exitCode: number | undefined, cameToEnd: boolean): Exposition {
    const { prefix } = this
    const all = new Exposition({ command: this.command })
    all.gauge('leadpush_build_info', 'The version that wrote this.', [[{ version: packageVersion }, 1]])
    all.gauge(
      `${prefix}_running`,
      'Whether the run goes on; the figures of a run are those so far then.',
      exitCode === undefined ? 1 : 0,
    )
    all.gauge(`${prefix}_start_timestamp_seconds`, 'When the run began.', this.startMs / 1_000)
    all.gauge(
      `${prefix}_update_timestamp_seconds`,
      'When this was written: twice a minute while a run goes on.',
      nowMs / 1_000,
    )
    all.gauge(`${prefix}_duration_seconds`, 'How long the run took so far.', (nowMs - this.startMs) / 1_000)
    const last = { ...this.before, ...(exitCode !== undefined && lastingOf(nowMs / 1_000, exitCode, cameToEnd)) }
    for (const [name, help] of Object.entries(lasting)) {
      all.gauge(`${prefix}_${name}`, help, last[name as keyof Lasting])
    }
    return all
  }

  /** Adds the attempts to the text. */
  addAttempts(all: Exposition): void {
    all.gauge(
      `${this.prefix}_attempts`,
      'Attempts of the run, by the status of the answer; `none`: no complete answer came.',
      [...this.attempts].map(([http_status, attempts]) => [{ http_status }, attempts]),
    )
    all.histogram(
      `${this.prefix}_attempt_duration_seconds`,
      'Attempts of the run, from connecting to the end of the answer.',
      this.durations,
    )
  }

  private readLasting(text: string): Lasting {
    const found: Lasting = {}
    const lines = new RegExp(`^${this.prefix}_(\\w+)\\{command="${this.command}"\\} ([\\d.e+]+)$`, 'gm')
    for (const [, name, value] of text.matchAll(lines)) {
      if (name !== undefined && name in lasting) found[name as keyof Lasting] = Number(value)
    }
    return found
  }
}

const lastingOf = (nowSeconds: number, exitCode: number, cameToEnd: boolean): Lasting => ({
  success: exitCode === 0 ? 1 : 0,
  exit_code: exitCode,
  last_end_timestamp_seconds: nowSeconds,
  ...(cameToEnd && { last_completion_timestamp_seconds: nowSeconds }),
  ...(exitCode === 0 && { last_success_timestamp_seconds: nowSeconds }),
})
