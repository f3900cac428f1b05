/**
 * Rides out a short absence of the database (a failover, a restart). Each open database has one patience: its statements give up
 * together, and an absence is told once. The driver (`dialect.ts`) rides out reading and repeatable statements; a work of several
 * statements goes through `rideOut`.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { plural } from '../base/amounts.ts'
import { codeOf, type LeadpushError, messageOf } from '../base/errors.ts'
import { asDatabaseError, mayPass, readOnlyState, SilentDatabase, saysItself } from './away.ts'

/** After so long without a statement an absence counts as a new one: a program that runs for weeks may meet several. */
const gapMs = 60_000
/** The database may answer other statements and fail at one for ever: this one is tried for at least so long. */
const ownTroubleMs = 60_000
/** The pause before the second try; twice as long before each later one, and up to twice that, so that processes drift apart. */
const pauseMsMin = 100
const pauseMsMax = 2_000
/** A pause takes at most this share of the patience: otherwise two short absences, with no try between them, would look like a long one. */
const pauseShareMax = 0.1

/** Is told when an absence begins, and when it is over. */
export interface AbsenceListener {
  onAway(text: string): void
  onBack(): void
}

/** How an open database is waited for. */
export interface PatienceOptions {
  /** How long an absence is ridden out. */
  awayMsMax: number
  /** Host and port of each server, for people. */
  servers: string
  /** Brings the database back, such as by starting the embedded server again; its error is ignored. */
  remedy?: (() => Promise<unknown>) | undefined
}

export class Patience {
  /** Tells an absence; undefined: nobody. */
  listener: AbsenceListener | undefined
  private readonly options: PatienceOptions
  /** A server that is back, but read-only, is news. */
  private told: 'away' | 'read-only' | undefined
  /** When the absence began, when it was last seen, when a pause last ended, and when a statement was last answered. */
  private sinceMs: number | undefined
  private seenMs = 0
  private wokeMs = 0
  private answeredMs = 0
  private givenUp: LeadpushError | undefined

  constructor(options: PatienceOptions) {
    this.options = options
  }

  /** The wait is over: from now on trouble with the database does not count as an absence, and is reported as `error`. */
  giveUp(error: LeadpushError): void {
    this.givenUp = error
  }

  /** The error for the operator; one that is not about the database is returned unchanged. */
  asTold(error: unknown): unknown {
    const told = asDatabaseError(error, this.options.remedy !== undefined)
    return told !== error && this.givenUp ? this.givenUp : told
  }

  /** How long an absence is ridden out, for people. */
  get awayMax(): string {
    const { awayMsMax } = this.options
    return awayMsMax % 60_000 === 0 ? plural(awayMsMax / 60_000, 'minute') : `${awayMsMax / 1_000} s`
  }

  /**
   * Runs `work` again while the database is away; after `awayMsMax` it throws a `database` error. `work` must be harmless if an earlier
   * call was committed and its answer was lost: `isRepeat` says that this is possible.
   */
  async rideOut<T>(work: (isRepeat: boolean) => Promise<T>): Promise<T> {
    let isRepeat = false
    let failingSinceMs: number | undefined
    for (let pauseMs = pauseMsMin; ; pauseMs = 2 * pauseMs) {
      const triedMs = performance.now()
      try {
        const result = await work(isRepeat)
        this.answered()
        return result
      } catch (error) {
        failingSinceMs ??= performance.now()
        if (this.givenUp || !mayPass(error)) throw error
        if (!this.goesOn(error, triedMs, failingSinceMs)) throw this.asTold(error)
        if (!saysItself(error)) {
          isRepeat = true
          this.tell(error)
          await this.options.remedy?.().catch(() => {})
        }
      }
      const mostMs = Math.max(pauseMsMin, Math.min(pauseMsMax, this.options.awayMsMax * pauseShareMax))
      const waitMs = Math.min(pauseMs * (1 + Math.random()), mostMs)
      const dueMs = performance.now() + waitMs
      await sleep(waitMs)
      this.noteWaking(dueMs)
    }
  }

  /** A process that was frozen in a pause has not seen the database away meanwhile. */
  private noteWaking(dueMs: number): void {
    const nowMs = performance.now()
    if (this.sinceMs !== undefined) this.sinceMs += nowMs - Math.max(dueMs, this.wokeMs)
    this.wokeMs = nowMs
  }

  private tell(error: unknown): void {
    const kind = codeOf(error) === readOnlyState ? 'read-only' : 'away'
    if (kind === this.told) return
    this.told = kind
    const cause = messageOf(error) || codeOf(error)
    const { servers } = this.options
    this.listener?.onAway(`The database at ${servers} is away (${cause}): waiting for it, for ${this.awayMax} at most.`)
  }

  private answered(): void {
    this.sinceMs = undefined
    this.answeredMs = performance.now()
    if (this.told) this.listener?.onBack()
    this.told = undefined
  }

  /** Whether to try a statement again that failed with `error` at its last try, `triedMs`, and has failed since `failingSinceMs`. */
  private goesOn(error: unknown, triedMs: number, failingSinceMs: number): boolean {
    const { awayMsMax } = this.options
    const nowMs = performance.now()
    const isItsOwn = nowMs - failingSinceMs >= Math.max(ownTroubleMs, 2 * awayMsMax)
    if (saysItself(error)) this.answered()
    return !isItsOwn && (saysItself(error) || this.findAwayMs(error, triedMs, nowMs) < awayMsMax)
  }

  /** How long the database has been away, for a statement that was tried at `triedMs` and failed with `error` at `nowMs`. */
  private findAwayMs(error: unknown, triedMs: number, nowMs: number): number {
    if (nowMs - this.seenMs > gapMs) this.sinceMs = undefined
    this.seenMs = nowMs
    // a silent database was away already when it was asked
    const isSilent = error instanceof SilentDatabase || /timeout/i.test(messageOf(error))
    this.sinceMs ??= isSilent ? Math.max(triedMs, this.answeredMs) : nowMs
    // a failure counts from when its try began: a process that was frozen notes it long after
    return Math.max(0, (isSilent ? nowMs : triedMs) - this.sinceMs)
  }
}

/** The patience of each open database, by its Kysely; a transaction has none, since only its whole can be repeated. */
const patiences = new WeakMap<object, Patience>()

/** Gives `db` its patience. */
export function givePatience(db: object, patience: Patience): void {
  patiences.set(db, patience)
}

/** Runs `work` with the patience of `db`, as `Patience.rideOut` does; once inside a transaction. */
export function rideOut<T>(db: object, work: (isRepeat: boolean) => Promise<T>): Promise<T> {
  return patiences.get(db)?.rideOut(work) ?? work(false)
}
