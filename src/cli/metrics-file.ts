/**
 * The figures of a run for Prometheus, in the file of `--metrics-file`: every number of its summary, how the last run ended, and how long
 * attempts took. The file is readable for node exporter, and written a last time when the process exits in any way.
 */
import { messageOf } from '../base/errors.ts'
import { Durations, Exposition } from '../base/exposition.ts'
import { readSmallFile } from '../base/small-file.ts'
import type { CommandIo } from './command-io.ts'
import { openForOutput } from './out-file.ts'

/** How often the file is written while a run goes on. */
const updateMs = 30_000
const bucketsSeconds = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600]

/** Figures of the last run that ended: a run that does not end keeps those of the run before. */
const lasting = {
  exit_code: 'What the last run that ended exited with.',
  last_end_timestamp_seconds: 'When a run ended last, however it did.',
  last_completion_timestamp_seconds:
    'When a run finished last: it was not stopped, held back or without its database, and did not give up.',
} as const

/** `sameHouse` as `same_house`. */
const toSnakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/**
 * The figures of a run. Each has the label `command`: several crontab lines have a file each, and a collector refuses equal samples.
 */
export class RunFigures {
  private readonly prefix: string
  private readonly command: string
  private readonly last: Partial<Record<string, number>>
  private readonly durations = new Durations(bucketsSeconds)
  private ended: { figures: object; cameToEnd: boolean } | undefined

  /** Names begin with `prefix`. `before` is the old text of the file: how this command's earlier runs ended is kept. */
  constructor(prefix: 'leadpush_push' | 'leadpush_trigger', command: string, before: string) {
    this.prefix = prefix
    this.command = command
    const names = Object.keys(lasting).join('|')
    const lines = new RegExp(`^${prefix}_(${names})\\{command="${command}"\\} ([\\d.e+]+)$`, 'gm')
    this.last = Object.fromEntries([...before.matchAll(lines)].map(([, name, value]) => [name, Number(value)]))
  }

  attempt({ durationMs }: { durationMs: number }): void {
    this.durations.add(durationMs / 1_000)
  }

  /** The run ended by itself: its summary, and whether it came to its end. */
  end(figures: object, cameToEnd: boolean): void {
    this.ended = { figures, cameToEnd }
  }

  /** The text of the file; `exitCode` is undefined while the run goes on. */
  render(nowMs: number, exitCode: number | undefined): string {
    const { prefix, ended, last } = this
    const nowSeconds = nowMs / 1_000
    if (exitCode !== undefined) {
      last.exit_code = exitCode
      last.last_end_timestamp_seconds = nowSeconds
      if (ended?.cameToEnd) last.last_completion_timestamp_seconds = nowSeconds
    }
    const all = new Exposition({ command: this.command })
    all.gauge(`${prefix}_running`, 'Whether the run goes on.', Number(exitCode === undefined))
    const updated = 'When this was written: twice a minute while a run goes on.'
    all.gauge(`${prefix}_update_timestamp_seconds`, updated, nowSeconds)
    for (const [name, help] of Object.entries(lasting)) all.gauge(`${prefix}_${name}`, help, last[name])
    for (const [field, value] of Object.entries(ended?.figures ?? {})) {
      if (typeof value === 'number' || typeof value === 'boolean')
        all.gauge(`${prefix}_${toSnakeCase(field)}`, `The field ${field} of the run's summary.`, Number(value))
    }
    const durations = 'Attempts of the run, from connecting to the end of the answer.'
    all.histogram(`${prefix}_attempt_duration_seconds`, durations, this.durations)
    return all.toString()
  }
}

/** The text that an earlier run left in the file. */
function readBefore(file: string): string {
  try {
    return readSmallFile(file)
  } catch {
    return ''
  }
}

/**
 * Keeps the figures in the file, if one is named, until the process exits. Throws `usage` if the file cannot be written; a later failure
 * is only a warning.
 */
export function keepMetricsFile(
  io: CommandIo,
  file: string | undefined,
  prefix: ConstructorParameters<typeof RunFigures>[0],
  command: string,
): RunFigures | undefined {
  if (file === undefined) return undefined
  const figures = new RunFigures(prefix, command, readBefore(file))
  const write = (exitCode?: number) => {
    // another user collects it
    const out = openForOutput(io, file, { name: `--metrics-file ${file}`, mode: 0o644 })
    out.put(figures.render(io.nowMs(), exitCode))
    out.finish()
  }
  write()
  let isTroubled = false
  const tryToWrite = (exitCode?: number) => {
    try {
      write(exitCode)
    } catch (error) {
      if (!isTroubled) io.log.warn(messageOf(error))
      isTroubled = true
    }
  }
  const timer = setInterval(tryToWrite, updateMs).unref()
  io.onExit((exitCode) => {
    clearInterval(timer)
    tryToWrite(exitCode)
  })
  return figures
}
