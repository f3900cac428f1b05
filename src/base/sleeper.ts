/** Lets a loop wait for a time or an event: the first of them wakes it. */
import { type Clock, systemClock } from './clock.ts'

const sleepMsMax = 60_000

export class Sleeper {
  private wakers: (() => void)[] = []
  private readonly clock: Clock

  constructor(clock = systemClock) {
    this.clock = clock
  }

  /** Ends every sleep that has begun. */
  wake(): void {
    const wakers = this.wakers
    this.wakers = []
    for (const waker of wakers) waker()
  }

  /** Ends at `wake`, after `ms`, or after a minute. */
  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.clock.after(Math.max(1, Math.min(ms, sleepMsMax)), resolve)
      this.wakers.push(() => {
        this.clock.cancel(timer)
        resolve()
      })
    })
  }
}
