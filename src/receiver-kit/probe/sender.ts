/** Sends the requests of a probe like deliveries, and turns each answer into words and counts. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ClientCertificate } from '../../base/client-certificate.ts'
import type { Proxies } from '../../base/config.ts'
import { buildHeaders, describeNoAnswer } from '../../deliveries/attempt.ts'
import { acceptsGzip } from '../../http/accept-encoding.ts'
import { createHttp, type Http } from '../../http/client.ts'
import type { HttpOutcome } from '../../http/exchange.ts'
import { Pace } from '../../push/receiver/pace.ts'

export interface SenderOptions extends ClientCertificate {
  receiverUrl: string
  dataSource: string
  timeoutMs: number
  ratePerSecond: number | undefined
  receiverKey: string
  proxies: Proxies
}

/** How many leads of a delivery were new, changed or unchanged, if the answer says so. */
export interface Counts {
  new: number
  changed: number
  unchanged: number
}

export interface SentDelivery {
  /** Null if no complete answer came. */
  status: number | null
  ok: boolean
  outcome: HttpOutcome
  /** The answer in a line. */
  received: string
  counts: Counts | undefined
}

export interface SendOptions {
  /** The idempotency key. */
  key: string
  /** Headers that replace the usual ones; null leaves one out. */
  headers?: Readonly<Record<string, string | null>>
}

/** The most requests of a check at the same moment. */
export const atOnce = 8
const shownCharsMax = 160

const asObject = (value: unknown) => (typeof value === 'object' && value !== null ? value : {})

function parseAnswer(body: Buffer | undefined): Record<string, unknown> {
  try {
    return asObject(JSON.parse(body?.toString() ?? '')) as Record<string, unknown>
  } catch {
    return {}
  }
}

const isCount = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0

function readCounts(answer: Record<string, unknown>): Counts | undefined {
  const { new: added, changed, unchanged } = answer
  return [added, changed, unchanged].every(isCount) ? ({ new: added, changed, unchanged } as Counts) : undefined
}

export class ProbeSender {
  private readonly options: SenderOptions
  private readonly http: Http
  private readonly pace: Pace
  requests = 0
  /** Requests that were answered. */
  answers = 0
  slowestMs = 0
  timeouts = 0
  /** An answer said that gzip may be sent. */
  acceptsGzip = false
  /** Requests in a row to which no answer came. */
  unanswered = 0
  /** Whether the receiver asked to slow down. */
  throttled = 0
  readonly timeoutMs: number

  constructor(options: SenderOptions) {
    this.options = options
    this.timeoutMs = options.timeoutMs
    const { timeoutMs, proxies, clientCert, clientKey } = options
    this.http = createHttp({ timeoutMs, concurrency: atOnce, proxies, clientCert, clientKey })
    this.pace = new Pace(options.ratePerSecond)
  }

  async send(body: Buffer, { key, headers = {} }: SendOptions): Promise<SentDelivery> {
    const { receiverUrl: url, timeoutMs, dataSource, receiverKey } = this.options
    for (let waitMs = this.pace.take(performance.now()); waitMs > 0; waitMs = this.pace.take(performance.now())) {
      await sleep(waitMs)
    }
    const usual = buildHeaders(dataSource, { idempotencyKey: key, receiverKey })
    const given = new Map<string, string>()
    for (let at = 0; at < usual.length; at += 2) given.set(usual[at] ?? '', usual[at + 1] ?? '')
    for (const [name, value] of Object.entries(headers)) {
      if (value === null) given.delete(name)
      else given.set(name, value)
    }
    this.requests++
    const startedMs = performance.now()
    const outcome = await this.http.post({ url, headers: [...given].flat(), body, timeoutMs, keepsAnswer: true })
    if (outcome.kind === 'answer') this.slowestMs = Math.max(this.slowestMs, performance.now() - startedMs)
    return this.read(outcome)
  }

  close(): Promise<void> {
    return this.http.close()
  }

  private read(outcome: HttpOutcome): SentDelivery {
    if (outcome.kind === 'no-answer') {
      this.unanswered++
      if (outcome.code === 'TIMEOUT') this.timeouts++
      const received = describeNoAnswer(outcome, this.options)
      return { status: null, ok: false, outcome, received, counts: undefined }
    }
    this.unanswered = 0
    this.answers++
    this.acceptsGzip ||= acceptsGzip(outcome.acceptEncoding)
    const { status } = outcome
    if (status === 429) this.throttled++
    const ok = status >= 200 && status < 300
    const answer = parseAnswer(outcome.body)
    const said = this.quote(answer)
    const redirect = status >= 300 && status < 400 ? ' (a redirect, which is not followed)' : ''
    const received = `HTTP ${status}${redirect}${said}`
    return { status, ok, outcome, received, counts: ok ? readCounts(answer) : undefined }
  }

  /** The receiver's own sentence, if it has one: without the user's key, and without control characters for a terminal. */
  private quote(answer: Record<string, unknown>): string {
    const text = [answer.msg, answer.message, answer.error].find((value) => typeof value === 'string')
    if (typeof text !== 'string' || text === '') return ''
    const safe = text
      .slice(0, 2_000)
      .replaceAll(this.options.receiverKey, '…')
      .replace(/[\p{C}\s]+/gu, ' ')
    return ` – “${safe.length > shownCharsMax ? `${safe.slice(0, shownCharsMax)}…` : safe}”`
  }
}
