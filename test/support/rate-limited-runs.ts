/** Simulated pushes against simulated receivers that limit rates, in simulated time: for trying the pace. */
import { Pace } from '../../src/push/receiver/pace.ts'

export interface Limiter {
  /** Whether a request that arrives now is taken. */
  takes(nowMs: number): boolean
  /** After how long the receiver would take another one. */
  opensInMs(nowMs: number): number
  /** How much longer the answer takes, where requests queue. */
  queuedMs?(nowMs: number): number
}

export function tokenBucket(perSecond: number, burst: number): Limiter {
  let tokens = burst
  let atMs = 0
  const fill = (nowMs: number) => {
    tokens = Math.min(burst, tokens + ((nowMs - atMs) * perSecond) / 1_000)
    atMs = nowMs
  }
  return {
    takes(nowMs) {
      fill(nowMs)
      if (tokens < 1) return false
      tokens--
      return true
    },
    opensInMs: () => ((1 - tokens) * 1_000) / perSecond,
  }
}

/** Requests queue and are worked off evenly; one that finds the queue full is refused. */
export function leakyBucket(perSecond: number, burst: number): Limiter {
  let level = 0
  let atMs = 0
  return {
    takes(nowMs) {
      level = Math.max(0, level - ((nowMs - atMs) * perSecond) / 1_000)
      atMs = nowMs
      if (level + 1 > burst) return false
      level++
      return true
    },
    opensInMs: () => ((level + 1 - burst) * 1_000) / perSecond,
    queuedMs: () => (level * 1_000) / perSecond,
  }
}

export function fixedWindow(count: number, windowMs: number, offsetMs = 0): Limiter {
  let windowIndex = -1
  let taken = 0
  return {
    takes(nowMs) {
      const current = Math.floor((nowMs + offsetMs) / windowMs)
      if (current !== windowIndex) taken = 0
      windowIndex = current
      if (taken >= count) return false
      taken++
      return true
    },
    opensInMs: (nowMs) => windowMs - ((nowMs + offsetMs) % windowMs),
  }
}

export function slidingWindow(count: number, windowMs: number): Limiter {
  const taken: number[] = []
  let from = 0
  return {
    takes(nowMs) {
      while ((taken[from] ?? nowMs) <= nowMs - windowMs) from++
      if (taken.length - from >= count) return false
      taken.push(nowMs)
      return true
    },
    opensInMs: (nowMs) => (taken[from] ?? nowMs) + windowMs - nowMs,
  }
}

export interface Scene {
  limiter: Limiter
  deliveries: number
  latencyMs: () => number
  /** Milliseconds; `true`: as long as it takes; undefined: none. */
  retryAfter: number | true | undefined
  status?: 429 | 503
  processes?: number
  concurrency?: number
  retryDelayMs?: number
  ratePerSecond?: number
  random?: () => number
}

export interface Ended {
  delivered: number
  lost: number
  /** When the last answer came. */
  endedMs: number
  refused: number
  arrivals: { atMs: number; taken: boolean; kind: 'first' | 'second' }[]
  deliveredAtMs: number[]
  paces: Pace[]
}

interface Event {
  atMs: number
  run(): void
}

/** A binary heap by time. */
class Agenda {
  private readonly heap: Event[] = []
  push(event: Event): void {
    const { heap } = this
    let index = heap.push(event) - 1
    while (index > 0) {
      const above = (index - 1) >> 1
      if ((heap[above] as Event).atMs <= event.atMs) break
      heap[index] = heap[above] as Event
      index = above
    }
    heap[index] = event
  }
  pop(): Event | undefined {
    const { heap } = this
    const top = heap[0]
    const last = heap.pop()
    if (!last || heap.length === 0) return top
    let index = 0
    for (;;) {
      let below = 2 * index + 1
      if (below >= heap.length) break
      if (below + 1 < heap.length && (heap[below + 1] as Event).atMs < (heap[below] as Event).atMs) below++
      if ((heap[below] as Event).atMs >= last.atMs) break
      heap[index] = heap[below] as Event
      index = below
    }
    heap[index] = last
    return top
  }
}

export function simulate(scene: Scene): Ended {
  const { limiter, latencyMs, retryAfter, status = 429, processes = 1, concurrency = 16, retryDelayMs = 5_000 } = scene
  const agenda = new Agenda()
  const ended: Ended = { delivered: 0, lost: 0, endedMs: 0, refused: 0, arrivals: [], deliveredAtMs: [], paces: [] }
  let nowMs = 0
  let left = scene.deliveries
  const runs = Array.from({ length: processes }, () => {
    const pace = new Pace(scene.ratePerSecond, { retryDelayMs, ...(scene.random && { random: scene.random }) })
    ended.paces.push(pace)
    const due: number[] = []
    let onWire = 0
    let timerAt = Number.POSITIVE_INFINITY
    const wakeAt = (atMs: number) => {
      if (atMs >= timerAt && timerAt > nowMs) return
      timerAt = atMs
      agenda.push({
        atMs,
        run: () => {
          if (timerAt > nowMs) return
          timerAt = Number.POSITIVE_INFINITY
          drain()
        },
      })
    }
    const answer = (kind: 'first' | 'second', begunMs: number, taken: boolean, opensInMs: number) => {
      onWire--
      const retryAfterMs = taken || retryAfter === undefined ? null : retryAfter === true ? opensInMs : retryAfter
      const isNews = pace.note(
        { kind, httpStatus: taken ? 200 : status, retryAfterMs, durationMs: nowMs - begunMs },
        nowMs,
      )
      if (isNews && processes > 1) {
        // through the database, a second later
        const known = pace.known(nowMs)
        const toldMs = nowMs
        const tell = () => {
          for (const other of runs)
            other.pace.learn({ ...known, pausedMs: Math.max(0, known.pausedMs - (nowMs - toldMs)) }, nowMs)
        }
        agenda.push({ atMs: nowMs + 1_000, run: tell })
      }
      ended.endedMs = nowMs
      if (taken) {
        ended.delivered++
        ended.deliveredAtMs.push(nowMs)
      } else {
        ended.refused++
        if (kind === 'second') ended.lost++
        else due.push(nowMs + Math.max(retryDelayMs, retryAfterMs ?? 0))
      }
      drain()
    }
    const begin = (kind: 'first' | 'second') => {
      const begunMs = nowMs
      if (kind === 'first') left--
      else due.shift()
      onWire++
      const totalMs = latencyMs()
      agenda.push({
        atMs: nowMs + totalMs / 2,
        run: () => {
          const taken = limiter.takes(nowMs)
          ended.arrivals.push({ atMs: nowMs, taken, kind })
          // `Retry-After` has whole seconds
          const opensInMs = taken ? 0 : Math.ceil(limiter.opensInMs(nowMs) / 1_000) * 1_000
          const queuedMs = taken ? (limiter.queuedMs?.(nowMs) ?? 0) : 0
          agenda.push({ atMs: nowMs + totalMs / 2 + queuedMs, run: () => answer(kind, begunMs, taken, opensInMs) })
        },
      })
    }
    const drain = () => {
      while (onWire < concurrency) {
        due.sort((a, b) => a - b)
        const dueMs = due[0] ?? Number.POSITIVE_INFINITY
        let waitMs = dueMs - nowMs
        if (waitMs <= 0) waitMs = pace.take(nowMs, 'second')
        if (waitMs <= 0) begin('second')
        else {
          if (left > 0) {
            const firstMs = pace.take(nowMs)
            if (firstMs <= 0) {
              begin('first')
              continue
            }
            waitMs = Math.min(waitMs, firstMs)
          }
          if (Number.isFinite(waitMs)) wakeAt(nowMs + Math.max(waitMs, 0.01))
          return
        }
      }
    }
    return { pace, drain }
  })
  for (const run of runs) run.drain()
  for (let event = agenda.pop(); event; event = agenda.pop()) {
    nowMs = event.atMs
    event.run()
  }
  return ended
}
