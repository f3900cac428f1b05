/** What a loop that waits for events and for times does both with: it sleeps, and whatever happens wakes it. */

const sleepMsMax = 60_000

export class Sleeper {
  private wakers: (() => void)[] = []

  /** Ends every sleep that has begun. */
  wake(): void {
    const wakers = this.wakers
    this.wakers = []
    for (const waker of wakers) waker()
  }

  /** Until something happens, or `ms` have passed, or a minute. */
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
