/** SIGINT and SIGTERM: the first asks a command to come to an end, the second ends it at once. */
const exitCodes = { SIGINT: 130, SIGTERM: 143 } as const

export interface Stop {
  readonly signal: AbortSignal
  /** What the command exits with, if it was stopped. */
  readonly exitCode: 130 | 143 | undefined
  dispose(): void
}

let isCareful = false

/** Whether the command is one that must not just be ended in the middle: it has asked to be told. */
export const mustFinish = (): boolean => isCareful

/** `onFirst` tells whoever waits that the command is coming to an end. */
export function listenForStop(onFirst: (signal: string) => void): Stop {
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
  process.on('SIGINT', onInterrupt)
  process.on('SIGTERM', onTerminate)
  return {
    signal: controller.signal,
    get exitCode() {
      return exitCode
    },
    dispose() {
      process.off('SIGINT', onInterrupt)
      process.off('SIGTERM', onTerminate)
    },
  }
}
