/** SIGHUP, SIGINT and SIGTERM: the first one asks a command to finish, the second ends it at once. */
import type { Io } from './io.ts'

export const exitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

export type StopSignal = keyof typeof exitCodes
export type StopCode = (typeof exitCodes)[StopSignal]

export const stopSignals = Object.keys(exitCodes) as StopSignal[]

export const isStopCode = (exitCode: number): boolean => (Object.values(exitCodes) as number[]).includes(exitCode)

/** What the signals of the process do to its command: they just end it, unless it listens. */
export class Stops {
  private readonly io: Io
  private readonly end: (exitCode: StopCode) => void
  private readonly controller = new AbortController()
  private onFirst: ((signal: StopSignal) => void) | undefined
  private first: StopCode | undefined

  /** `end` ends a command that does not listen. */
  constructor(io: Io, end: (exitCode: StopCode) => void) {
    this.io = io
    this.end = end
    for (const signal of stopSignals) io.signals.on(signal, () => this.hear(signal))
  }

  /** Aborted by the first signal. */
  get signal(): AbortSignal {
    return this.controller.signal
  }

  /** The exit code of the command, if it was stopped. */
  get exitCode(): StopCode | undefined {
    return this.first
  }

  /** Whether the command must not just be ended in the middle. */
  get mustFinish(): boolean {
    return this.onFirst !== undefined
  }

  /** From now on the command finishes by itself; `onFirst` reports that to people. */
  listen(onFirst: (signal: StopSignal) => void): this {
    this.onFirst = onFirst
    return this
  }

  private hear(signal: StopSignal): void {
    const { ignoresHangups, hadTerminal } = this.io
    if (signal === 'SIGHUP' && ignoresHangups) return
    if (this.first === undefined) {
      this.first = exitCodes[signal]
      if (this.onFirst) this.onFirst(signal)
      else this.end(this.first)
      this.controller.abort()
    }
    // the shell and the system may both report one closed terminal
    else if (signal !== 'SIGHUP' || !hadTerminal) this.io.exit(exitCodes[signal])
  }
}
