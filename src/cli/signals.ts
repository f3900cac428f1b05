/** SIGHUP, SIGINT and SIGTERM: the first one asks a command to finish, the second ends it at once. */
import type { Io } from './io.ts'

export const exitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

export type StopSignal = keyof typeof exitCodes
export type StopCode = (typeof exitCodes)[StopSignal]

const stopSignals = Object.keys(exitCodes) as StopSignal[]

export const isStopCode = (exitCode: number): boolean => (Object.values(exitCodes) as number[]).includes(exitCode)

export interface Stop {
  readonly signal: AbortSignal
  /** The exit code of the command, if it was stopped. */
  readonly exitCode: StopCode | undefined
  dispose(): void
}

/** Who hears the signals of one command. */
export class Stops {
  private readonly io: Io
  private listening = 0
  private isCareful = false

  constructor(io: Io) {
    this.io = io
  }

  /** Whether the command wants to hear of a signal, since it must not just be ended in the middle. */
  get mustFinish(): boolean {
    return this.isCareful
  }

  private isUnheard(signal: StopSignal): boolean {
    return signal === 'SIGHUP' && this.io.ignoresHangups
  }

  /** The shell and the system may both report one closed terminal. */
  private isSecond(signal: StopSignal): boolean {
    return signal !== 'SIGHUP' || !this.io.hadTerminal
  }

  /** For commands that do not listen: the first signal calls `end`, the second ends the process at once. */
  listenByDefault(end: (exitCode: StopCode) => void): void {
    let isEnding = false
    for (const signal of stopSignals) {
      this.io.signals.on(signal, () => {
        if (this.listening > 0 || this.isUnheard(signal)) return
        if (!isEnding) end(exitCodes[signal])
        else if (this.isSecond(signal)) this.io.exit(exitCodes[signal])
        isEnding = true
      })
    }
  }

  /** `onFirst` reports to people that the command is finishing. */
  listen(onFirst: (signal: StopSignal) => void): Stop {
    const controller = new AbortController()
    let exitCode: StopCode | undefined
    const hear = (signal: StopSignal) => {
      if (this.isUnheard(signal)) return
      if (controller.signal.aborted) {
        if (this.isSecond(signal)) this.io.exit(exitCodes[signal])
        return
      }
      exitCode = exitCodes[signal]
      onFirst(signal)
      controller.abort()
    }
    const listeners = stopSignals.map((signal) => [signal, () => hear(signal)] as const)
    this.isCareful = true
    this.listening++
    for (const [signal, listener] of listeners) this.io.signals.on(signal, listener)
    return {
      signal: controller.signal,
      get exitCode() {
        return exitCode
      },
      dispose: () => {
        this.listening--
        for (const [signal, listener] of listeners) this.io.signals.off(signal, listener)
      },
    }
  }
}
