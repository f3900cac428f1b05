/** SIGHUP, SIGINT and SIGTERM: the first asks a command to come to an end, the second ends it at once. */
import { closeSync, openSync } from 'node:fs'
import { ignoresHangups } from './hangups.ts'

export const exitCodes = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const

export type StopSignal = keyof typeof exitCodes
export type StopCode = (typeof exitCodes)[StopSignal]

const stopSignals = Object.keys(exitCodes) as StopSignal[]

export const isStopCode = (exitCode: number): boolean => (Object.values(exitCodes) as number[]).includes(exitCode)

export interface Stop {
  readonly signal: AbortSignal
  /** What the command exits with, if it was stopped. */
  readonly exitCode: StopCode | undefined
  dispose(): void
}

let isCareful = false
let listening = 0
let hadTerminal = false
let isDeaf = false

/** Whether the command is one that must not just be ended in the middle: it has asked to be told. */
export const mustFinish = (): boolean => isCareful

function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'))
    return true
  } catch {
    return false
  }
}

const isUnheard = (signal: StopSignal) => signal === 'SIGHUP' && isDeaf

/** The shell and the system may both report one closed terminal. */
const isSecond = (signal: StopSignal) => signal !== 'SIGHUP' || !hadTerminal

/** For commands that do not listen: the first signal calls `end`, the second ends the process at once. */
export function listenByDefault(end: (exitCode: StopCode) => void): void {
  // as it was at the start: once the terminal is closed, it and the parent may be gone
  hadTerminal = hasTerminal()
  isDeaf = ignoresHangups()
  let isEnding = false
  for (const signal of stopSignals) {
    process.on(signal, () => {
      if (listening > 0 || isUnheard(signal)) return
      if (!isEnding) end(exitCodes[signal])
      else if (isSecond(signal)) process.exit(exitCodes[signal])
      isEnding = true
    })
  }
}

/** `onFirst` tells whoever waits that the command is coming to an end. */
export function listenForStop(onFirst: (signal: StopSignal) => void): Stop {
  const controller = new AbortController()
  let exitCode: StopCode | undefined
  const listen = (signal: StopSignal) => {
    if (isUnheard(signal)) return
    if (controller.signal.aborted) {
      if (isSecond(signal)) process.exit(exitCodes[signal])
      return
    }
    exitCode = exitCodes[signal]
    onFirst(signal)
    controller.abort()
  }
  isCareful = true
  listening++
  for (const signal of stopSignals) process.on(signal, listen)
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode
    },
    dispose() {
      listening--
      for (const signal of stopSignals) process.off(signal, listen)
    },
  }
}
