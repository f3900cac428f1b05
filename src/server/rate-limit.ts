/**
 * Limits how many requests each key may make in a window that begins with its first request. Memory is bounded: if there are more keys
 * than it keeps, the key seen longest ago is forgotten and starts anew.
 */
import { LRUCache } from 'lru-cache'

const minuteMs = 60_000
const keysMax = 20_000

/** Counts per key, in this process alone. */
export class RateLimit<K extends string | number> {
  private readonly most: number
  private readonly windows: LRUCache<K, { count: number }>

  /** `most` requests per window; undefined: no limit. `clock`: milliseconds that never go back. */
  constructor(most: number | undefined, windowMs = minuteMs, clock: { now(): number } = performance) {
    this.most = most ?? Number.POSITIVE_INFINITY
    this.windows = new LRUCache({ max: keysMax, ttl: windowMs, ttlResolution: 0, perf: clock })
  }

  /** Counts a request unless the limit is reached; returns whether it was within the limit. */
  take(key: K): boolean {
    if (this.isReached(key)) return false
    const window = this.windows.get(key)
    if (window) window.count++
    else if (this.most !== Number.POSITIVE_INFINITY) this.windows.set(key, { count: 1 })
    return true
  }

  isReached(key: K): boolean {
    return (this.windows.get(key)?.count ?? 0) >= this.most
  }

  /** Whole seconds until the key's window is over. */
  secondsLeft(key: K): number {
    return Math.max(1, Math.ceil(this.windows.getRemainingTTL(key) / 1_000))
  }
}
