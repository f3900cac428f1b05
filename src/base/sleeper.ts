/** Lets a loop wait for a time or an event: the first of them wakes it. */

const sleepMsMax = 60_000

export class Sleeper {
  private wakers: (() => void)[] = []

  /** Ends every sleep that has begun. */
  wake(): void {
    const wakers = this.wakers
    this.wakers = []
    for (const waker of wakers) waker()
  }

  /** Ends at `wake`, after `ms`, or after a minute. */
  async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, Math.max(1, Math.min(ms, sleepMsMax)))
      this.wakers.push(() => {
        clearTimeout(timer)
        resolve()
      })
    })
  }
}
