/**
 * Figures of a run in Prometheus' text format, for node exporter's textfile collector: of this run so far, and of the last run that
 * ended. prom-client is not used, since it renders asynchronously, which a process that is exiting cannot wait for.
 */
import { packageVersion } from '../base/package-root.ts'

const bucketsSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]

type Labels = Record<string, string>

const escapeLabel = (text: string) => text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')

/** Renders metrics, each with the label `command`: several crontab lines have a file each, and a collector refuses equal samples. */
export class Exposition {
  private readonly command: string
  private text = ''

  constructor(command: string) {
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

/** The figures that runs of every kind have: how the run goes, how the last one ended, and attempts. */
export class RunFigures {
  private readonly prefix: string
  private readonly command: string
  private readonly startMs: number
  private readonly before: Lasting
  private readonly attempts = new Map<string, number>()
  private readonly durations = new Durations()

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
    const all = new Exposition(this.command)
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
