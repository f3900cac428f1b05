/**
 * One attempt: sends a delivery's body to the receiver, judges the answer (contract 4.5) and words it for the operator. The caller
 * writes the ledger before and after it.
 */

import { retryAfterMsMax } from '../base/limits.ts'
import { acceptsGzip } from '../http/accept-encoding.ts'
import type { Http } from '../http/client.ts'
import type { HttpAnswer, HttpNoAnswer } from '../http/exchange.ts'
import { parseRetryAfter } from '../http/retry-after.ts'
import { findShortage, isAuthorityCode } from '../http/trouble.ts'
import { findEmptySuccess, readAnswer, secretsOf } from './answer.ts'

export interface AttemptTarget {
  receiverUrl: string
  dataSource: string
  timeoutMs: number
  /** Whether the words of a refusal are wanted (contract 4.16). */
  keepAnswers?: 'on' | 'off'
}

export interface AttemptRequest {
  idempotencyKey: string
  receiverKey: string
  /** The body is compressed. */
  gzip?: boolean
  /** Free for the next delivery as soon as the attempt has its outcome. */
  body: Buffer
}

/** An attempt counts, with this outcome; it may have arrived besides; or, if the machine `lacks` something, it is taken back (contract 4.6). */
export interface AttemptOutcome {
  ok: boolean
  /** The attempt failed and may have arrived: no complete answer, or a 409. A delivery then ends `unknown`, not `failed`. */
  maybeArrived: boolean
  /** The status of a complete answer. */
  httpStatus: number | null
  /** One line in plain words, with a hint if there is one; without secrets and without text from the answer. */
  error: string | null
  durationMs: number
  /** The pause that a 429 or 503 asks for, at most 5 minutes. */
  retryAfterMs: number | null
  /** A complete answer says that the receiver takes gzip (contract 4.17). */
  acceptsGzip: boolean
  /** The words with which the receiver refused. */
  answer?: string
  /** Why a 2xx may not be a success (contract 4.5): a sentence. */
  emptySuccess?: string
  /** What this machine lacks, so that nothing went out (contract 4.12). */
  lacks?: string
}

/** What is known of an attempt without an answer. */
export const unanswered = { ok: false, httpStatus: null, retryAfterMs: null, acceptsGzip: false }

const statusHints: Readonly<Record<number, string>> = {
  400: 'the receiver found the request malformed',
  401: "the receiver does not take the user's receiver key: bring it up to date with `leadpush users import`",
  403: "the receiver does not allow the user's receiver key: bring it up to date with `leadpush users import`",
  404: 'there is no such address at the receiver: check LEADPUSH_RECEIVER_URL',
  405: 'the address takes no POST: check LEADPUSH_RECEIVER_URL',
  407: 'the proxy asks for a user name and password: put them into HTTP_PROXY or HTTPS_PROXY',
  409: 'the receiver has this delivery under way, or had it before with another body',
  410: 'the address is gone: check LEADPUSH_RECEIVER_URL',
  411: 'the receiver misses the length of the body, which a proxy may have dropped',
  413: 'the body is too large for the receiver, or for a proxy before it; up to 5,000,000 bytes must pass',
  415: 'the receiver does not take JSON at this address: check LEADPUSH_RECEIVER_URL',
  422: 'the receiver refused the body, or has this key with another body',
  429: 'the receiver gets too many requests: see LEADPUSH_RATE and LEADPUSH_CONCURRENCY',
}

/** `HTTP 401: …` with what to do. */
export function describeStatus(status: number, gzip = false): string {
  if (status === 415 && gzip)
    return 'HTTP 415: the receiver does not take this delivery compressed; later deliveries go out uncompressed'
  const hint =
    statusHints[status] ??
    (status >= 300 && status < 400
      ? 'a redirect, which is not followed: set LEADPUSH_RECEIVER_URL to the address that it leads to'
      : status >= 500
        ? 'the receiver is in trouble'
        : 'the receiver refused the delivery')
  return `HTTP ${status}: ${hint}`
}

/** One line in plain words, with a hint if there is one. */
export function describeNoAnswer(
  { stage, code, error, atProxy }: HttpNoAnswer,
  { receiverUrl, timeoutMs }: AttemptTarget,
): string {
  if (atProxy) return `${error}; check HTTP_PROXY, HTTPS_PROXY and NO_PROXY`
  const what = stage === 'connect' ? `the receiver was not reached: ${error}` : error
  if (code === 'TIMEOUT') return `${what} (LEADPUSH_TIMEOUT is ${timeoutMs / 1_000} s)`
  if (stage !== 'connect') return what
  if (isAuthorityCode(code)) return `${what}; a certificate authority of your own goes into NODE_EXTRA_CA_CERTS`
  if (code === 'EPROTO' || code?.startsWith('ERR_SSL')) {
    return `${what}; check that LEADPUSH_RECEIVER_URL should begin with ${new URL(receiverUrl).protocol}`
  }
  return code === 'ENOTFOUND' || code === 'ECONNREFUSED' ? `${what}; check LEADPUSH_RECEIVER_URL` : what
}

function judgeAnswer(
  { status, retryAfter, date, acceptEncoding }: HttpAnswer,
  gzip: boolean,
): Omit<AttemptOutcome, 'durationMs'> {
  const ok = status >= 200 && status < 300
  const asksToWait = status === 429 || status === 503
  return {
    ok,
    maybeArrived: status === 409,
    httpStatus: status,
    error: ok ? null : describeStatus(status, gzip),
    retryAfterMs: asksToWait ? parseRetryAfter({ retryAfter, date }, Date.now(), retryAfterMsMax) : null,
    acceptsGzip: acceptsGzip(acceptEncoding),
  }
}

function hear(
  answer: HttpAnswer,
  { receiverUrl, keepAnswers }: AttemptTarget,
  { receiverKey }: AttemptRequest,
): Pick<AttemptOutcome, 'answer' | 'emptySuccess'> {
  const { status } = answer
  if (status >= 200 && status < 300) {
    const emptySuccess = findEmptySuccess(answer)
    return emptySuccess === undefined ? {} : { emptySuccess }
  }
  if (keepAnswers !== 'on') return {}
  const said = readAnswer(answer, [receiverKey, ...secretsOf(receiverUrl)])
  return said === undefined ? {} : { answer: said }
}

/** The headers of contract 4.1 except Content-Length and User-Agent, which the HTTP client adds. Names and values in turn. */
export const buildHeaders = (dataSource: string, { idempotencyKey, receiverKey, gzip }: Omit<AttemptRequest, 'body'>) => [
  ...(gzip ? ['Content-Encoding', 'gzip'] : []),
  'Content-Type', 'application/json',
  'X-Service-API-Key', receiverKey,
  'X-Data-Source', dataSource,
  'X-Idempotency-Key', idempotencyKey,
] // biome-ignore format: pairs

/** Sends one attempt. Never throws: every failure is an outcome. `now`: the clock for its duration. */
export async function sendAttempt(
  http: Pick<Http, 'post'>,
  target: AttemptTarget,
  request: AttemptRequest,
  now = () => performance.now(),
): Promise<AttemptOutcome> {
  const startedMs = now()
  const headers = buildHeaders(target.dataSource, request)
  const { receiverUrl: url, timeoutMs } = target
  const outcome = await http.post({ url, headers, body: request.body, timeoutMs, keepsAnswer: true })
  const durationMs = Math.round(now() - startedMs)
  if (outcome.kind === 'answer') {
    const judged = judgeAnswer(outcome, request.gzip ?? false)
    return { durationMs, ...judged, ...hear(outcome, target, request) }
  }
  const error = describeNoAnswer(outcome, target)
  const lacks = outcome.sent ? undefined : findShortage(outcome.code)
  return { ...(lacks !== undefined && { lacks }), ...unanswered, maybeArrived: outcome.sent, error, durationMs }
}
