/**
 * Virtual time: what is to happen stands in a queue, and the next event comes once all that the last one set off is over. Nothing
 * happens by chance, so a run is the same each time.
 */

/** What is to happen may be called off. */
export interface Timer {
  isOff: boolean
}

interface Happening {
  at: number
  nth: number
  call: () => void
  timer: Timer | undefined
}

/** Runs what promises have to do by now; Node.js does so after each callback, and only there. */
const settle = (process as unknown as { _tickCallback: () => void })._tickCallback

export class World {
  now = 0
  /** How much has happened. */
  happenings = 0
  private nth = 0
  /** A heap by time. */
  private readonly queue: Happening[] = []
  private turns: { call: () => void; timer: Timer | undefined }[] = []

  after(ms: number, call: () => void, timer?: Timer): void {
    this.at(this.now + ms, call, timer)
  }

  at(at: number, call: () => void, timer?: Timer): void {
    const { queue } = this
    const happening = { at: Math.max(at, this.now), nth: this.nth++, call, timer }
    let place = queue.length
    queue.push(happening)
    while (place > 0) {
      const above = (place - 1) >> 1
      if (!isBefore(happening, queue[above] as Happening)) break
      queue[place] = queue[above] as Happening
      place = above
    }
    queue[place] = happening
  }

  /** Once what happens at this moment is over. */
  soon(call: () => void, timer?: Timer): void {
    this.turns.push({ call, timer })
  }

  /** Lets things happen until `isOver`, or until nothing is left, `untilMs` is past, or there were too many. Returns whether it is over. */
  run(isOver: () => boolean, untilMs: number, most: number): boolean {
    for (const first = this.happenings; this.happenings - first < most; this.happenings++) {
      settle()
      if (isOver()) return true
      if (this.turns.length > 0) {
        const { turns } = this
        this.turns = []
        for (const { call, timer } of turns) {
          if (timer?.isOff) continue
          call()
          settle()
        }
        continue
      }
      while (this.queue[0]?.timer?.isOff) this.take()
      const next = this.queue[0]
      if (next === undefined || next.at > untilMs) return false
      this.take()
      this.now = next.at
      next.call()
    }
    return false
  }

  private take(): void {
    const { queue } = this
    const last = queue.pop() as Happening
    if (queue.length === 0) return
    let place = 0
    for (;;) {
      let below = 2 * place + 1
      if (below >= queue.length) break
      if (below + 1 < queue.length && isBefore(queue[below + 1] as Happening, queue[below] as Happening)) below++
      if (!isBefore(queue[below] as Happening, last)) break
      queue[place] = queue[below] as Happening
      place = below
    }
    queue[place] = last
  }
}

const isBefore = (a: Happening, b: Happening) => a.at < b.at || (a.at === b.at && a.nth < b.nth)
