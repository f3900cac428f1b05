/** The clock and the timers of a program, behind an interface, so that a test can run it in virtual time. */

export type Timer = object
export type Turn = object

export interface Clock {
  /** Milliseconds of one monotonic clock. */
  now(): number
  after(ms: number, call: () => void): Timer
  /** Does not keep the process alive. */
  every(ms: number, call: () => void): Timer
  cancel(timer: Timer | undefined): void
  /** As soon as the work of this moment is done. */
  soon(call: () => void): Turn
  cancelSoon(turn: Turn): void
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, call) => setTimeout(call, ms),
  every: (ms, call) => setInterval(call, ms).unref(),
  cancel: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
  soon: (call) => setImmediate(call),
  cancelSoon: (turn) => clearImmediate(turn as NodeJS.Immediate),
}

/** Ends after `ms`, or once `stop` is aborted. */
export async function pause(clock: Clock, ms: number, stop?: AbortSignal): Promise<void> {
  if (stop?.aborted) return
  let timer: Timer | undefined
  let end = () => {}
  try {
    await new Promise<void>((resolve) => {
      end = resolve
      timer = clock.after(ms, resolve)
      stop?.addEventListener('abort', end)
    })
  } finally {
    clock.cancel(timer)
    stop?.removeEventListener('abort', end)
  }
}
