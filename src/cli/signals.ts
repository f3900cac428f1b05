/** SIGINT and SIGTERM: the first asks a command to come to an end, the second ends it at once. */
export const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

export interface Stop {
  readonly signal: AbortSignal
  /** What the command exits with, if it was stopped. */
  readonly exitCode: 130 | 143 | undefined
  dispose(): void
}

let isCareful = false
let listening = 0

/** Whether the command is one that must not just be ended in the middle: it has asked to be told. */
export const mustFinish = (): boolean => isCareful

/** For whoever has not asked to be told: the first signal calls `end`, the second ends the process at once. */
export function listenByDefault(end: (exitCode: 130 | 143) => void): void {
  let isEnding = false
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      if (listening > 0) return
      if (isEnding) process.exit(exitCodes[signal])
      isEnding = true
      end(exitCodes[signal])
    })
  }
}

/** `onFirst` tells whoever waits that the command is coming to an end. */
export function listenForStop(onFirst: (signal: keyof typeof exitCodes) => void): Stop {
  const controller = new AbortController()
  let exitCode: 130 | 143 | undefined
  const listen = (signal: keyof typeof exitCodes) => () => {
    if (controller.signal.aborted) process.exit(exitCodes[signal])
    exitCode = exitCodes[signal]
    onFirst(signal)
    controller.abort()
  }
  const onInterrupt = listen('SIGINT')
  const onTerminate = listen('SIGTERM')
  isCareful = true
  listening++
  process.on('SIGINT', onInterrupt)
  process.on('SIGTERM', onTerminate)
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode
    },
    dispose() {
      listening--
      process.off('SIGINT', onInterrupt)
      process.off('SIGTERM', onTerminate)
    },
  }
}
