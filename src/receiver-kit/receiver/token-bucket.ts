/** The limit of `--limit`: a bucket of tokens, one a request, that fills evenly up to its burst. */

export interface BucketSize {
  perSecond: number
  /** How many requests may come at once after a quiet time. */
  burst: number
}

const rateMin = 0.01
const rateMax = 100_000
const burstMax = 1_000_000

/** `20/s:20`, `600/m`, `0.5/s`: a rate a second or minute, and a burst, by default the tokens of a second; undefined for any other text. */
export function parseLimit(text: string): BucketSize | undefined {
  const match = /^(\d{1,6}(?:\.\d{1,3})?)\/(s|m)(?::([1-9]\d{0,6}))?$/.exec(text)
  if (!match) return undefined
  const perSecond = Number(match[1]) / (match[2] === 'm' ? 60 : 1)
  const burst = match[3] === undefined ? Math.max(1, Math.ceil(perSecond)) : Number(match[3])
  if (perSecond < rateMin || perSecond > rateMax || burst > burstMax) return undefined
  return { perSecond, burst }
}

/** Takes a token and returns 0, or returns the whole seconds until there is one. `nowMs` never goes back. */
export function createTokenBucket({ perSecond, burst }: BucketSize): (nowMs: number) => number {
  let tokens = burst
  let filledMs: number | undefined
  return (nowMs) => {
    tokens = Math.min(burst, tokens + ((nowMs - (filledMs ?? nowMs)) * perSecond) / 1_000)
    filledMs = nowMs
    if (tokens < 1) return Math.ceil((1 - tokens) / perSecond)
    tokens--
    return 0
  }
}
