/**
 * When the next attempt may begin: evenly at LEADPUSH_RATE, and slower for as long as the receiver asks for less (contract
 * 4.12). Pure: the loop tells it attempts, answers and the time. Times are milliseconds of one monotonic clock.
 */
import { retryAfterMsMax } from '../../base/limits.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { AttemptKind } from '../../deliveries/due.ts'

/** A timer on a busy machine fires up to so many milliseconds late. */
const timerMs = 5
/** The rate before a refusal is measured over so long: a burst of a few milliseconds does not count. */
const measureMs = 1_000
/** After a pause the rate stays halved for `holdMs`. Then it rises by this share a second. */
const holdMs = 1_000
const risePerSecond = 0.15
/**
 * The search above the known limit, which may have risen since the last refusal. Every `searchMs` the rate rises by the share
 * `searchGain`. The share doubles each time, up to `searchGainMax`, until a refusal comes. Each refusal that showed no higher limit
 * doubles the time between two rises, up to `searchMsMax`.
 */
const searchGain = 0.03
const searchGainMax = 0.5
const searchMs = 5_000
const searchMsMax = 5 * 60_000
/** The share of the limit that is used. */
const margin = 0.98
/** The share of the limit that is used while a second attempt waits: other processes may take more than before. */
const secondMargin = 0.9
/** The longest window in which receivers usually count: a refusal without `Retry-After` is over by then. */
const windowMs = 60_000
/** The pause after a refusal that followed a pause at once; it doubles with each, up to `windowMs`. */
const barrenPauseMs = 1_000
/** A limit is derived from at least so many accepted attempts, over at least so long. */
const provenMin = 4
const provenMs = 2_000
/** In a large run second attempts wait for so many accepted attempts after a refusal, or a while without any. */
const triedMin = 6
/** A run of so many attempts or fewer is small and soon over: its attempts do not wait for a window of the receiver. */
const fewMax = 20
const fewPauseMsMax = 4_000
/** A pause that was read again may end so much later, because of the time that the look takes. */
const learntMs = 250
/** The slowest rate that a refusal leads to. */
const rateMin = 0.02
/** If the rate is above `freeRate` so long after the last refusal, there is no limit any more. */
const freeAfterMs = 10 * 60_000
const freeRate = 1_000
/** A second attempt that was held back keeps the pace at a proven rate for so long. */
const wantedMs = 250

/** `durationMs`: from the attempt's begin to its answer. */
export type Answer = Pick<AttemptOutcome, 'httpStatus' | 'retryAfterMs' | 'durationMs'> & { kind: AttemptKind }

/** The state for other processes and later runs. */
export interface KnownPace {
  /** How long from now no attempt may begin; 0: no pause. */
  pausedMs: number
  /** Attempts a second that the receiver took from one process; null: no limit is known. */
  allowedRate: number | null
}

export interface PaceOptions {
  /** The pause after a 429 without `Retry-After`. */
  retryDelayMs?: number
  /** From 0 to 1: processes that paused together do not go on at the same moment. */
  random?: () => number
}

/** Whether an answer asks for less (contract 4.12). */
export const asksForLess = ({ httpStatus, retryAfterMs }: Pick<Answer, 'httpStatus' | 'retryAfterMs'>) =>
  httpStatus === 429 || (httpStatus === 503 && retryAfterMs !== null)

/** The time since the last refusal. */
interface Stretch {
  /** When the refusal came that it begins with. */
  sinceMs: number
  /** When the first refusal came of those without an accepted attempt between them; a bucket is empty then. */
  emptyMs: number
  accepted: number
}

export class Pace {
  private readonly rateMax: number
  private readonly retryDelayMs: number
  private readonly random: () => number

  private nextAt = Number.NEGATIVE_INFINITY
  /** Attempts a second that may begin; infinite until a receiver asks for less. */
  private rate = Number.POSITIVE_INFINITY
  /** Up to here the rate may rise freely, as refusals have shown. Above it, it rises by the search. */
  private ceiling = Number.POSITIVE_INFINITY
  /** A lower bound of the limit, in attempts a second; 0: none is known. */
  private proven = 0
  /** The time over which a limit is measured: longer, once the receiver is seen to count in long windows. */
  private provenMs = provenMs
  private pausedUntil = Number.NEGATIVE_INFINITY
  private risenAt = 0
  private searchAt = 0
  private searchEveryMs = searchMs
  private searchGain = searchGain
  private stretch: Stretch | undefined
  /** Refusals in a row without an accepted attempt between them. */
  private barren = 0
  private begun = 0
  private underWay = 0
  private secondsUnderWay = 0
  private secondWantedAt = Number.NEGATIVE_INFINITY
  /** When the attempts of the last `measureMs` began. */
  private readonly begunAt: number[] = []
  private durationMs = 0
  private usualMs = Number.POSITIVE_INFINITY

  constructor(ratePerSecond: number | undefined, options: PaceOptions = {}) {
    const { retryDelayMs = 5_000, random = Math.random } = options
    this.rateMax = ratePerSecond ?? Number.POSITIVE_INFINITY
    this.retryDelayMs = retryDelayMs
    this.random = random
  }

  /** The receiver asked for less, and the pace is still slower for it. */
  get isSlowed(): boolean {
    return this.rate !== Number.POSITIVE_INFINITY
  }

  private get isFew(): boolean {
    return this.begun < fewMax
  }

  /** Attempts a second that may begin now; undefined: as many as there are. */
  get ratePerSecond(): number | undefined {
    const rate = Math.min(this.rate, this.rateMax)
    return rate === Number.POSITIVE_INFINITY ? undefined : rate
  }

  /** How long no attempt at all may begin, because the receiver asked for it. */
  pausedMs(nowMs: number): number {
    return Math.max(0, this.pausedUntil - nowMs)
  }

  /** About how many attempts a second the receiver allows this process; undefined: that is not known. */
  allowedRate(nowMs: number): number | undefined {
    return (this.isSlowed && this.provenRate(nowMs)) || undefined
  }

  /** How long to wait for the next attempt of this kind; 0: it may begin now, and is counted. */
  take(nowMs: number, kind: AttemptKind = 'first'): number {
    const waitMs = this.untilNext(nowMs, kind)
    if (waitMs > 0) return waitMs
    const intervalMs = 1_000 / this.rateFor(nowMs, kind)
    // a timer that fires a little late must not slow the average down, but a long delay is not made up for
    const late = nowMs - this.nextAt
    this.nextAt = (late <= Math.max(intervalMs / 4, timerMs) ? this.nextAt : nowMs) + intervalMs
    this.noteBegun(nowMs, kind)
    return 0
  }

  /** As `take`, but nothing is counted. */
  untilNext(nowMs: number, kind: AttemptKind = 'first'): number {
    this.rise(nowMs)
    if (kind === 'second' && this.isSlowed) this.secondWantedAt = nowMs
    if (this.pausedUntil > nowMs) return this.pausedUntil - nowMs
    // after a refused one it is tried with one attempt whether the receiver takes any
    if (this.barren > 0 && this.underWay > 0) return timerMs
    const waitMs = kind === 'second' ? this.untilSecond(nowMs) : 0
    return Math.max(0, waitMs, this.nextAt - nowMs)
  }

  /** How long no second attempt may begin, apart from its turn: a refused second attempt is lost, so a first one goes ahead. */
  untilSecond(nowMs: number): number {
    if (!this.isSlowed || !this.stretch) return 0
    const { accepted, sinceMs } = this.stretch
    if (this.pausedUntil > nowMs) return this.pausedUntil - nowMs
    // first attempts show that the receiver takes any again; if none is left, a pause decides
    const untriedMs = this.isFew ? 0 : this.barren > 0 ? windowMs : (triedMin * 1_000) / this.rate
    const patientMs = Math.min(this.pausedUntil + untriedMs, sinceMs + windowMs) - nowMs
    if (accepted < triedMin && patientMs > 0) return Math.max(timerMs, patientMs)
    return this.secondsUnderWay > accepted / 4 ? timerMs : 0
  }

  /** Notes the outcome of an attempt that `take` allowed. Returns true if the receiver asked for less, and this is news. */
  note(answer: Answer, nowMs: number): boolean {
    const { kind, durationMs } = answer
    const begunMs = nowMs - durationMs
    this.noteEnded(kind)
    if (asksForLess(answer)) return this.noteRefusal(answer, begunMs, nowMs)
    if (answer.httpStatus === null) return false
    this.usualMs = Math.min(this.usualMs, durationMs)
    this.durationMs = this.durationMs === 0 ? durationMs : this.durationMs * 0.9 + durationMs * 0.1
    if (this.stretch && begunMs >= this.stretch.sinceMs) {
      this.stretch.accepted++
      this.barren = 0
    }
    return false
  }

  /** An attempt that `take` let begin is made, or taken back. */
  noteEnded(kind: AttemptKind): void {
    this.underWay = Math.max(0, this.underWay - 1)
    if (kind === 'second') this.secondsUnderWay = Math.max(0, this.secondsUnderWay - 1)
  }

  /** The state for other processes and the next run. */
  known(nowMs: number): KnownPace {
    return { pausedMs: this.pausedMs(nowMs), allowedRate: this.allowedRate(nowMs) ?? null }
  }

  /** Takes the state of another process or an earlier run: its pause holds here too, its rate only if none was found here. */
  learn({ pausedMs, allowedRate }: KnownPace, nowMs: number): void {
    const pausedUntil = nowMs + Math.min(pausedMs, retryAfterMsMax)
    // reading the same pause again a little later must not bring processes together that it has spread
    if (pausedMs > 0 && pausedUntil > this.pausedUntil + learntMs) this.pauseUntil(pausedUntil)
    if (allowedRate === null || this.isSlowed) return
    this.proven = allowedRate
    this.ceiling = allowedRate * margin
    this.slowTo(allowedRate / 2, nowMs)
    this.stretch = { sinceMs: nowMs, emptyMs: nowMs, accepted: 0 }
  }

  private noteBegun(nowMs: number, kind: AttemptKind): void {
    this.begun++
    this.underWay++
    if (kind === 'second') this.secondsUnderWay++
    this.begunAt.push(nowMs)
    while ((this.begunAt[0] ?? nowMs) < nowMs - measureMs) this.begunAt.shift()
  }

  private noteRefusal({ retryAfterMs }: Answer, begunMs: number, nowMs: number): boolean {
    const askedMs = Math.min(retryAfterMs ?? this.retryDelayMs, retryAfterMsMax)
    // an attempt from before the pause says nothing new of the rate, but its own time is kept
    if (this.stretch && begunMs <= this.stretch.sinceMs) {
      this.pauseUntil(nowMs + askedMs)
      return false
    }
    const { stretch } = this
    const isBarren = stretch !== undefined && stretch.accepted === 0
    this.barren = isBarren ? this.barren + 1 : 0
    if (this.barren > 1 && this.provenMs < windowMs) {
      this.provenMs = windowMs
      this.proven = 0
    }
    const pauseMs = Math.min(barrenPauseMs * 2 ** this.barren, this.isFew ? fewPauseMsMax : windowMs)
    this.pauseUntil(nowMs + Math.max(askedMs, isBarren ? pauseMs : 0))
    if (!isBarren) this.slowDown(nowMs)
    this.slowTo(this.rate, Math.max(nowMs, this.pausedUntil))
    this.stretch = { sinceMs: nowMs, emptyMs: isBarren ? stretch.emptyMs : nowMs, accepted: 0 }
    return true
  }

  private slowDown(nowMs: number): void {
    const { stretch } = this
    const recent = this.begunAt.filter((atMs) => atMs > nowMs - measureMs).length
    const was = Math.min(this.rate, this.rateMax, Math.max(1, (recent * 1_000) / measureMs))
    this.rate = Math.max(rateMin, was / 2)
    if (!stretch) return
    const lastedMs = nowMs - stretch.emptyMs
    const found = (stretch.accepted * 1_000) / lastedMs
    const isFound = stretch.accepted >= provenMin && lastedMs >= this.provenMs
    const wasProven = this.proven > 0 && was <= this.proven * 1.01
    if (wasProven) this.proven = Math.min(this.proven * 0.9, isFound ? found : was * 0.9)
    else if (isFound) this.proven = Math.max(this.proven, Math.min(found, was))
    // a burst that a long window takes at once is no rate
    if (isFound && lastedMs >= windowMs / 3) this.rate = Math.max(rateMin, Math.min(was / 2, Math.max(found, was / 8)))
    this.ceiling = Math.max(this.rate, Math.min(0.95 * was, Math.max(0.75 * was, this.proven * margin)))
    const isBetter = this.ceiling > this.proven
    this.searchGain = searchGain
    this.searchEveryMs = isBetter ? searchMs : Math.min(this.searchEveryMs * 2, searchMsMax)
  }

  private slowTo(rate: number, nowMs: number): void {
    this.rate = rate
    this.nextAt = Math.max(nowMs, this.pausedUntil) + this.spread()
    this.risenAt = this.nextAt + holdMs
    this.searchAt = this.risenAt + this.searchEveryMs
  }

  private spread(): number {
    return this.isSlowed ? (this.random() * 1_000) / this.rate : 0
  }

  private pauseUntil(atMs: number): void {
    if (atMs <= this.pausedUntil) return
    this.pausedUntil = atMs
    this.nextAt = Math.max(this.nextAt, atMs + this.spread())
    this.risenAt = Math.max(this.risenAt, this.pausedUntil + holdMs)
  }

  /** Lets the rate rise: freely up to what was found, above it in rare small steps, not while answers grow slow. */
  private rise(nowMs: number): void {
    if (!this.isSlowed || nowMs <= this.risenAt) return
    const { stretch } = this
    const seconds = (nowMs - this.risenAt) / 1_000
    this.risenAt = nowMs
    if (!stretch || stretch.accepted === 0 || this.durationMs > 2 * this.usualMs + 100) return
    if (this.rate < this.ceiling) this.rate = Math.min(this.ceiling, this.rate * (1 + risePerSecond) ** seconds)
    else if (nowMs >= this.searchAt) {
      this.ceiling *= 1 + this.searchGain
      this.searchGain = Math.min(2 * this.searchGain, searchGainMax)
      this.searchAt = nowMs + this.searchEveryMs
    }
    if (nowMs - stretch.sinceMs > freeAfterMs && this.rate > freeRate) this.rate = Number.POSITIVE_INFINITY
  }

  /** A lower bound of the limit: a bucket that was empty at the last refusal gave no more than it got since. */
  private provenRate(nowMs: number): number {
    const { stretch } = this
    if (!stretch || stretch.accepted < provenMin) return this.proven
    return Math.max(this.proven, (stretch.accepted * 1_000) / Math.max(this.provenMs, nowMs - stretch.emptyMs))
  }

  private rateFor(nowMs: number, kind: AttemptKind): number {
    const rate = Math.min(this.rate, this.rateMax)
    const isCareful = this.isSlowed && !this.isFew && (kind === 'second' || nowMs - this.secondWantedAt < wantedMs)
    if (!isCareful) return rate
    // if only second attempts are left, only they can show that more is taken
    const shown = ((this.stretch?.accepted ?? 0) * 1_000) / this.provenMs
    const proven = this.provenRate(nowMs) * secondMargin
    return Math.min(rate, Math.max(rateMin, proven, Math.min(rate / 3, Math.max(shown, 1_000 / this.provenMs))))
  }
}
