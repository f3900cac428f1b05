/** Refusals of requests: the status, and a sentence that a person can act on. */
import { requestBodyBytesMax } from '../base/limits.ts'

/** Thrown by checks and endpoints; the app answers with it. */
export class Refusal extends Error {
  readonly status: number
  /** Sent as `Retry-After`, with 429 and 503. */
  readonly retryAfterSeconds: number | undefined
  /** Sent as `Allow`, with 405. */
  readonly allow: string | undefined

  constructor(status: number, message: string, more: { retryAfterSeconds?: number; allow?: string } = {}) {
    super(message)
    this.status = status
    this.retryAfterSeconds = more.retryAfterSeconds
    this.allow = more.allow
  }
}

const retryDatabaseSeconds = 5

/** A 503 that asks the caller to come again in a few seconds. */
export const buildUnavailable = (message: string) =>
  new Refusal(503, message, { retryAfterSeconds: retryDatabaseSeconds })

export const unknownPath = new Refusal(
  404,
  'There is nothing at this path: check the address; /openapi.json lists all paths.',
)
export const bodyTooLarge = new Refusal(413, `The body is too large: at most ${requestBodyBytesMax} bytes.`)

/** The body of a refusal, as JSON. */
export const buildRefusal = (msg: string) => JSON.stringify({ ok: false, msg })
