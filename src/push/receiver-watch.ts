/**
 * The watch over the receiver (contract 4.12): combines the outcomes of this push, the findings of other processes, and whether the
 * receiver can be reached during an outage.
 */

import { span } from '../base/amounts.ts'
import type { ClientCertificate } from '../base/client-certificate.ts'
import type { Proxies } from '../base/config.ts'
import { outageCheckMs, outageLookMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { type AttemptOutcome, describeStatus } from '../deliveries/attempt.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import type { Http } from '../http/client.ts'
import { findProxy, reach } from '../http/reach.ts'
import { type Doubt, endOf } from './doubt.ts'
import { type Known, KnownTrouble } from './known-trouble.ts'
import { Outage, pauseAfter } from './outage.ts'
import { Refusal } from './refusal.ts'

export interface ReceiverWatchContext {
  db: Database
  http: Http
  settings: { receiverUrl: string; timeoutMs: number; proxies?: Proxies } & ClientCertificate
  /**
   * `trouble`: a push stops while the receiver is in trouble. `recovery`: the push goes on regardless, and records that the receiver is
   * well again. `nothing`: neither.
   */
  looksFor: 'trouble' | 'recovery' | 'nothing'
  /** Of the run: its loops have one doubt in common. */
  doubt: Doubt
  /** Whether the run begins here, and may make an attempt at once. */
  isBeginning: boolean
  /** How long to wait for a receiver that is down; 0: outages are not looked for. */
  patienceMs: number
  /** The receiver went down, refuses every delivery, or is well again; `why` is a sentence, undefined if nothing is to be said. */
  onChange(change: 'down' | 'refuses' | 'well', why: string | undefined): void
}

const now = () => performance.now()

/** `the receiver refuses every delivery alike: HTTP 401: …`: part of a sentence. */
export const describeRefusal = (status: number) =>
  `the receiver refuses every delivery alike: ${describeStatus(status)}`

/** How long to wait, rounded up: who comes then must not come too early. */
function formatWait(ms: number): string {
  const unitMs = ms > 3_600_000 ? 3_600_000 : 60_000
  return span((Math.ceil(ms / unitMs) * unitMs) / 1_000)
}

/** The reason of a skip line; the next attempt is allowed in `untilNextMs`. */
export function reasonToHold(status: number, untilNextMs = 0): string {
  const next = untilNextMs > 0 ? `a push that begins in ${formatWait(untilNextMs)} or later` : 'the next push'
  return `held: ${describeRefusal(status)}. Once that is mended ${next} begins with one attempt; --accept goes on regardless`
}

export class ReceiverWatch {
  /** The receiver was known to be in trouble when this push began, and has not been well since. */
  beganInTrouble = false

  private readonly context: ReceiverWatchContext
  private readonly doubt: Doubt
  private readonly outage: Outage
  private readonly refusal: Refusal
  private readonly known: KnownTrouble
  private timer: NodeJS.Timeout | undefined
  /** Rises with each write: a read that began before it is stale. */
  private written = 0
  private isWriting = false
  private looking: Promise<void> | undefined
  /** How the last attempt without an answer below 500 ended. */
  private lastFailure: string | undefined
  /** This process is making the try that shows whether the receiver still refuses. */
  private isTrying = false
  /** A trouble ended with an answer that looks like another: other processes are told once it is known what it is. */
  private isUnsettled = false
  /** The database has trouble of this receiver, and a recovery is looked for. */
  private hasToTell = false

  constructor(context: ReceiverWatchContext) {
    this.context = context
    const patienceMs = this.isLooked ? context.patienceMs : 0
    this.doubt = context.doubt
    this.outage = new Outage(patienceMs)
    this.refusal = new Refusal(context.settings.timeoutMs)
    this.known = new KnownTrouble(context.db, context.settings.receiverUrl)
  }

  private get isLooked(): boolean {
    return this.context.looksFor === 'trouble'
  }

  /** The push begins no attempts but those that `takeTry` reserves. */
  get isInTrouble(): boolean {
    return this.outage.isDown || this.refusal.isHeld
  }

  /** Whether failures may yet turn out to be trouble of the receiver: second attempts wait. */
  get isInQuestion(): boolean {
    return this.isLooked && this.doubt.isOpen
  }

  /** Second attempts are made one by one, since first ones do not show whether the receiver is in trouble. */
  get isProbing(): boolean {
    return this.isLooked && this.doubt.isProbing
  }

  /** The receiver has been down for too long. */
  get isOver(): boolean {
    return this.outage.isOver(now())
  }

  /** Why this push makes no attempt of that kind any more, if the receiver refuses every delivery; undefined: it may. */
  heldBy(kind: AttemptKind): string | undefined {
    const { status } = this.refusal
    return status !== undefined && !this.isTrying && this.untilTry(kind) === Number.POSITIVE_INFINITY
      ? reasonToHold(status, this.refusal.untilNext(now(), kind))
      : undefined
  }

  /** How many first attempts may begin now; `open` is how many have begun and not ended. */
  firstsLeft(open: number): number {
    return this.isLooked ? this.doubt.firstsLeft(open) : Number.POSITIVE_INFINITY
  }

  async begin(): Promise<void> {
    const { looksFor } = this.context
    if (looksFor === 'nothing') return
    const found = await rideOut(() => this.known.findAtBeginning())
    this.hasToTell = found.outage !== undefined || found.refusal !== undefined
    if (looksFor === 'recovery') return
    const isDown = this.outage.learn(found.outage, now(), true) === 'down'
    const isHeld = this.refusal.learn(found.refusal, now(), this.context.isBeginning) === 'held'
    this.beganInTrouble = isDown || isHeld
    if (isDown) this.context.onChange('down', 'The receiver is down, as a push before this one found: trying it.')
    if (isHeld) this.context.onChange('refuses', undefined)
    this.timer = setInterval(() => void this.look(), outageLookMs)
    this.timer.unref()
  }

  end(): void {
    clearInterval(this.timer)
    // a look under way comes too late
    this.written++
  }

  /** Learns what other processes found up to now. */
  async lookAnew(): Promise<void> {
    if (!this.isLooked) return
    // a look under way may have read before they told
    await this.looking
    await this.look()
  }

  /** Learns what other processes found meanwhile. An absent database is reported by other statements. */
  private look(): Promise<void> {
    if (this.isWriting || this.isUnsettled) return Promise.resolve()
    this.looking ??= this.readKnown()
      .catch(() => {})
      .finally(() => {
        this.looking = undefined
      })
    return this.looking
  }

  private async readKnown(): Promise<void> {
    const { written } = this
    const found = await this.known.find()
    if (written === this.written) this.learn(found)
  }

  private learn({ outage, refusal }: Known): void {
    const { context } = this
    if (this.outage.learn(outage, now()) === 'down')
      context.onChange('down', 'The receiver is down, as another push found: waiting for it.')
    const change = this.refusal.learn(refusal, now())
    if (change === 'held') context.onChange('refuses', undefined)
    if (change !== 'well') return
    this.doubt.restart()
    this.goOn('The receiver answers otherwise, as another push found: going on.')
  }

  private goOn(why: string): void {
    this.beganInTrouble = false
    this.isTrying = false
    this.context.onChange('well', why)
  }

  private async write(work: () => Promise<void>): Promise<void> {
    this.written++
    this.isWriting = true
    try {
      await work()
    } finally {
      this.written++
      this.isWriting = false
    }
  }

  /**
   * Notes the outcome of an attempt; `isEncoding`: it is a 415 to a compressed one. The promise settles once other processes can see
   * the change.
   */
  note(attempt: 1 | 2, { httpStatus, error }: AttemptOutcome, isEncoding = false): Promise<void> | undefined {
    if (!this.isLooked) return this.tellWell(httpStatus)
    const refused = this.refusal.status
    if (this.outage.noteEnd(httpStatus) || this.refusal.noteEnd(httpStatus)) {
      const what = refused === undefined ? 'answers again' : `no longer answers HTTP ${refused} to everybody`
      if (isEncoding) this.doubt.restartUnclear()
      else this.doubt.restartWith(httpStatus)
      this.isUnsettled = this.doubt.isUnsettled
      const then = this.isUnsettled ? `HTTP ${httpStatus} came, so other second attempts wait` : 'going on'
      this.goOn(`The receiver ${what}: ${then}.`)
      // a look under way has read the trouble that is over
      this.written++
      return this.isUnsettled ? undefined : this.write(() => this.known.recordWell())
    }
    if (this.isTrying) return this.noteUnmade()
    if (this.isInTrouble) return undefined
    if (isEncoding) {
      if (attempt === 1) this.doubt.noteUnclear()
      return undefined
    }
    if (endOf(httpStatus) === 'down') this.lastFailure = error ?? ''
    const end = this.doubt.note(attempt, httpStatus)
    if (end === 'down') return this.goDown()
    if (end !== undefined) return this.hold(end)
    return this.isUnsettled && !this.doubt.isUnsettled ? this.settle(false) : undefined
  }

  /** It is known that no other trouble followed, or the push ends before: one answer alone proves none, unless it is cut short. */
  async settle(isCutShort: boolean): Promise<void> {
    if (!this.isUnsettled) return
    this.isUnsettled = false
    this.doubt.endProbing()
    await this.write(() => (isCutShort ? this.known.recordTried() : this.known.recordWell()))
  }

  /** Records a recovery for other processes, once. */
  private tellWell(httpStatus: number | null): Promise<void> | undefined {
    if (!this.hasToTell || endOf(httpStatus) !== undefined) return undefined
    this.hasToTell = false
    return this.known.recordWell()
  }

  /** All first attempts are made. */
  async noteAllMade(): Promise<void> {
    // a run with too few attempts to tell by them may learn of the trouble from another
    await this.look()
    if (this.isInTrouble) return
    const end = this.doubt.noteAllMade()
    if (end === 'down') await this.goDown()
    else if (end !== undefined) await this.hold(end)
  }

  private goDown(): Promise<void> {
    const isOther = this.isUnsettled
    const attempts = this.doubt.isProbing ? 'attempts' : 'first attempts'
    this.isUnsettled = false
    this.doubt.endProbing()
    this.outage.goDown(now())
    const why = this.lastFailure === undefined ? '' : `; the last: ${this.lastFailure}`
    this.context.onChange(
      'down',
      `The receiver is down: ${this.doubt.inARow} ${attempts} in a row failed${why}. Trying again after ${pauseAfter(0) / 1_000} s, then after twice as long each time.`,
    )
    return this.write(() => this.known.recordDown(isOther))
  }

  private hold(status: number): Promise<void> {
    const isOther = this.isUnsettled
    this.isUnsettled = false
    this.doubt.endProbing()
    this.refusal.hold(status)
    this.context.onChange('refuses', undefined)
    return this.write(async () => {
      if (isOther) await this.known.recordTried()
      await this.known.recordRefusing(status)
    })
  }

  /** During trouble: milliseconds until the next try; infinite: this push makes none. */
  untilTry(kind: AttemptKind = 'first'): number {
    return this.refusal.isHeld ? this.refusal.untilTry(now(), kind) : this.outage.untilTry(now(), kind)
  }

  /** During trouble, when a try is due: whether this process, and no other, makes one attempt now. */
  async takeTry(kind: AttemptKind, stop: AbortSignal): Promise<boolean> {
    if (this.refusal.isHeld) return await this.takeHeldTry(kind)
    const sign = await this.findSign(kind)
    if (stop.aborted || !this.isInTrouble || this.untilTry(kind) > 0) return false
    if (!sign) {
      this.noteNoSign()
      return false
    }
    const { tries } = this.outage
    const isMine = await this.known.take(tries, kind)
    const found = isMine ? undefined : (await rideOut(() => this.known.find())).outage
    if (found) this.outage.learn(found, now())
    else this.outage.noteTry(now())
    return found === undefined
  }

  private async takeHeldTry(kind: AttemptKind): Promise<boolean> {
    if (this.isTrying) {
      await this.noteUnmade()
      return false
    }
    let isMine = false
    await this.write(async () => {
      isMine = await this.known.take(this.refusal.tries, kind)
    })
    if (isMine) {
      this.isTrying = true
      this.refusal.noteTry(now(), kind)
      return true
    }
    const found = await rideOut(() => this.known.find())
    if (found.refusal) this.refusal.learn(found.refusal, now(), true)
    else this.learn(found)
    return false
  }

  /** The try could not be made, or the receiver refuses still: other processes need not wait for its outcome. */
  async noteUnmade(): Promise<void> {
    if (!this.isTrying) return
    this.isTrying = false
    await this.write(() => this.known.recordTried())
  }

  /** Nothing can be tried now. */
  noteNoSign(): void {
    if (!this.refusal.isHeld) this.outage.noteNoSign(now())
  }

  /**
   * Whether the receiver may be back: it takes a connection and, before a second attempt, answers a HEAD below 500. Behind a tunnel
   * only a request shows whether it can be reached.
   */
  private async findSign(kind: AttemptKind): Promise<boolean> {
    const { http, settings } = this.context
    const { receiverUrl, proxies = {} } = settings
    const timeoutMs = Math.min(settings.timeoutMs, outageCheckMs)
    const proxy = findProxy(receiverUrl, proxies)
    const isTunnelled = proxy !== undefined && receiverUrl.startsWith('https:')
    const toReach = () => (proxy ? reach(proxy, timeoutMs) : reach(receiverUrl, timeoutMs, settings))
    if (!isTunnelled && (await toReach()).kind !== 'reached') return false
    if (!isTunnelled && kind === 'first') return true
    const answer = await http.head(receiverUrl, timeoutMs)
    if (kind === 'first') return answer.kind === 'answer' || answer.stage !== 'connect'
    return answer.kind === 'answer' && answer.status < 500
  }
}
