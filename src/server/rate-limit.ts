/**
 * So many a minute for each key, in windows that begin with the first. Its memory is bounded: of more keys than it keeps, the
 * one that was seen longest ago begins anew.
 */
import { LRUCache } from 'lru-cache'

const windowMs = 60_000
const keysMax = 20_000

export class RateLimit<K extends string | number> {
  private readonly perMinute: number
  private readonly windows = new LRUCache<K, { count: number }>({ max: keysMax, ttl: windowMs })

  /** Undefined: no limit. */
  constructor(perMinute: number | undefined) {
    this.perMinute = perMinute ?? Number.POSITIVE_INFINITY
  }

  /** Counts one, unless the limit is reached; whether it was within. */
  take(key: K): boolean {
    if (this.isReached(key)) return false
    const window = this.windows.get(key)
    if (window) window.count++
    else if (this.perMinute !== Number.POSITIVE_INFINITY) this.windows.set(key, { count: 1 })
    return true
  }

  isReached(key: K): boolean {
    return (this.windows.get(key)?.count ?? 0) >= this.perMinute
  }

  /** Whole seconds until the key's window is over. */
  secondsLeft(key: K): number {
    return Math.max(1, Math.ceil(this.windows.getRemainingTTL(key) / 1_000))
  }
}
