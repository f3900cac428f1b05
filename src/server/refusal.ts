/** A request that is not granted: the status, and a sentence that a person can act on. */
import { requestBodyBytesMax } from '../base/limits.ts'

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

const retryDatabaseSeconds = 5

export const buildUnavailable = (message: string) =>
  new Refusal(503, message, { retryAfterSeconds: retryDatabaseSeconds })

export const unknownPath = new Refusal(
  404,
  'There is nothing at this path: check the address, /openapi.json lists what there is.',
)
export const tooLarge = new Refusal(413, `The body is too large: at most ${requestBodyBytesMax} bytes.`)

export const buildRefusal = (msg: string) => JSON.stringify({ ok: false, msg })
