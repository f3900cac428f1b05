/** The receiver of a simulated run, and what reached it. */
import { gunzipSync } from 'node:zlib'
import type { Http } from '../../src/http/client.ts'
import type { HttpAnswer, HttpNoAnswer, HttpOutcome } from '../../src/http/exchange.ts'
import type { Random } from '../chaos/random.ts'
import { remember } from './remember.ts'
import type { Manner, Scenario } from './scenario.ts'
import { findUsersOf, receiverKeyOf, type Whom } from './themes.ts'
import type { World } from './world.ts'

/** An attempt as the wire sees it. */
export interface OnWire {
  /** The number of the process. */
  push: number
  /** For the process. After another one died a second attempt may be the first on the wire. */
  nth: 1 | 2
  key: string
  receiverKey: string
  gzip: boolean
  /** Decoded. */
  body: string
  atMs: number
  /** Whether the receiver may have taken it. */
  arrived: boolean
  /** When the process had its outcome; undefined: never. */
  toldMs: number | undefined
  told: HttpOutcome | undefined
}

const gunzip = remember(
  (bytes: Buffer) => bytes.toString('latin1'),
  (bytes) => gunzipSync(bytes).toString(),
)

type Post = Parameters<Http['post']>[0]

export class SimulatedReceiver {
  /** In the order in which they came. */
  readonly attempts: OnWire[] = []
  /** The last manner goes on for ever. */
  manners: Scenario['receiver']
  private readonly world: World
  private readonly random: Random
  /** Of a limited receiver. */
  private tokens = 0
  private filledMs = 0

  /** Requests that have no answer yet. */
  /** By push: what a machine lacks for one process is not the other's. */
  private readonly underWay = new Map<number, number>()
  private readonly failsFor: (whom: Whom) => ReadonlySet<string>
  private readonly tell: (text: () => string) => void

  constructor(world: World, random: Random, scenario: Scenario, tell: (text: () => string) => void) {
    this.world = world
    this.random = random
    this.manners = scenario.receiver
    this.failsFor = remember(JSON.stringify, (whom) => new Set([...findUsersOf(whom, scenario)].map(receiverKeyOf)))
    this.tell = tell
  }

  private get manner(): Manner {
    const { now } = this.world
    return (this.manners.findLast(({ atMs }) => atMs <= now) ?? this.manners[0])?.manner ?? { is: 'well', latencyMs: 1 }
  }

  /** A request comes; `answer` is called with its outcome. */
  post(
    { push, nth }: Pick<OnWire, 'push' | 'nth'>,
    { headers, body, timeoutMs }: Post,
    answer: (outcome: HttpOutcome, attempt: OnWire) => void,
  ): void {
    const headerOf = (name: string) => headers?.[headers.indexOf(name) + 1] as string
    const gzip = headers?.includes('Content-Encoding') ?? false
    const bytes = body as Buffer
    const attempt: OnWire = {
      push,
      nth,
      gzip,
      key: headerOf('X-Idempotency-Key'),
      receiverKey: headerOf('X-Service-API-Key'),
      body: gzip ? gunzip(bytes) : bytes.toString(),
      atMs: this.world.now,
      arrived: false,
      toldMs: undefined,
      told: undefined,
    }
    const manner = this.mannerFor(attempt)
    if (manner.is === 'shortage' && (this.underWay.get(push) ?? 0) >= manner.most) {
      this.world.after(1, () => answer(noAnswer('EMFILE', false), attempt))
      return
    }
    this.attempts.push(attempt)
    this.underWay.set(push, (this.underWay.get(push) ?? 0) + 1)
    const ms = Math.max(1, Math.round(manner.latencyMs * (0.5 + this.random.next())))
    const outcome = this.judge(manner, gzip, ms >= timeoutMs)
    attempt.arrived = outcome.kind === 'no-answer' ? outcome.sent : outcome.status < 300 || outcome.status === 409
    const isTimeout = outcome.kind === 'no-answer' && outcome.code === 'TIMEOUT'
    this.tell(
      () =>
        `  ${push} POST ${attempt.key.slice(0, 14)} ${attempt.receiverKey}${gzip ? ' gzip' : ''} -> ${describe(outcome)} after ${ms} ms`,
    )
    this.world.after(isTimeout ? timeoutMs : Math.min(ms, timeoutMs), () => {
      this.underWay.set(push, (this.underWay.get(push) ?? 0) - 1)
      answer(outcome, attempt)
    })
  }

  private mannerFor({ receiverKey }: OnWire): Manner {
    const { manner } = this
    if (manner.is !== 'fails for') return manner
    return this.failsFor(manner.whom).has(receiverKey) ? manner.how : { ...manner, is: 'well' }
  }

  head(timeoutMs: number, answer: (outcome: HttpOutcome) => void): void {
    const { manner } = this
    const ms = Math.max(1, manner.latencyMs)
    if (manner.is === 'hangs' || ms >= timeoutMs) this.world.after(timeoutMs, () => answer(noAnswer('TIMEOUT', true)))
    else if (manner.is === 'unreachable') this.world.after(1, () => answer(noAnswer('ECONNREFUSED', false)))
    else if (manner.is === 'breaks') this.world.after(ms, () => answer(noAnswer('ECONNRESET', true)))
    else this.world.after(ms, () => answer(answerOf(manner.is === 'status' ? manner.status : 405)))
  }

  private judge(manner: Manner, gzip: boolean, isLate: boolean): HttpOutcome {
    const { gzip: takesGzip = false } = manner
    const headers = takesGzip ? { acceptEncoding: 'gzip' } : {}
    if (manner.is === 'unreachable') return noAnswer('ECONNREFUSED', false)
    if (manner.is === 'hangs' || isLate) return noAnswer('TIMEOUT', true)
    switch (manner.is) {
      case 'well':
      case 'fails for':
      case 'shortage':
        return answerOf(200, headers)
      case 'status':
        return answerOf(manner.status, asked(manner.retryAfter))
      case 'breaks':
        return noAnswer('ECONNRESET', true)
      case 'page':
        return answerOf(200, { contentType: 'text/html' })
      case 'not ok':
        return answerOf(200, { contentType: 'application/json', body: Buffer.from('{"ok":false}') })
      case 'plain alone':
        return answerOf(gzip ? 415 : 200, headers)
      case 'limited':
        return this.take(manner) ? answerOf(200, headers) : answerOf(429, asked(manner.retryAfter))
      case 'mixed': {
        if (manner.hangs && this.random.chance(manner.hangs)) return noAnswer('TIMEOUT', true)
        if (!this.random.chance(manner.share)) return answerOf(200, headers)
        const { other, status } = manner
        return this.judge(
          other === 'status' ? { is: other, status, latencyMs: 0 } : { is: other, latencyMs: 0 },
          gzip,
          false,
        )
      }
    }
  }

  private take({ ratePerSecond, burst }: Manner & { is: 'limited' }): boolean {
    const { now } = this.world
    this.tokens = Math.min(burst, this.tokens + ((now - this.filledMs) * ratePerSecond) / 1_000)
    if (this.filledMs === 0) this.tokens = burst
    this.filledMs = Math.max(now, 1)
    if (this.tokens < 1) return false
    this.tokens--
    return true
  }
}

const describe = (outcome: HttpOutcome) =>
  outcome.kind === 'answer' ? `${outcome.status}${outcome.contentType ?? ''}` : `${outcome.code}`

const asked = (retryAfter: number | undefined) => (retryAfter === undefined ? {} : { retryAfter: String(retryAfter) })

const answerOf = (status: number, headers: Partial<HttpAnswer> = {}): HttpAnswer => ({
  kind: 'answer',
  status,
  complete: true,
  body: undefined,
  reused: true,
  retryAfter: undefined,
  date: undefined,
  contentType: undefined,
  contentEncoding: undefined,
  acceptEncoding: undefined,
  ...headers,
})

const noAnswer = (code: string, sent: boolean): HttpNoAnswer => ({
  kind: 'no-answer',
  sent,
  stage: sent ? 'request' : 'connect',
  code,
  error: code,
  reused: false,
})
