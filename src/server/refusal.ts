/** A request that is not granted: the status, and a sentence that a person can act on. */
export class Refusal extends Error {
  readonly status: number
  /** For 429 and 503. */
  readonly retryAfterSeconds: number | undefined
  /** For 405. */
  readonly allow: string | undefined

  constructor(status: number, message: string, more: { retryAfterSeconds?: number; allow?: string } = {}) {
    super(message)
    this.status = status
    this.retryAfterSeconds = more.retryAfterSeconds
    this.allow = more.allow
  }
}
