/**
 * Sends owed subscription pushes in child processes, a few at once: one for each user, or one for all if the queue is long. The queue is
 * in the database, so a push is also found after a restart, or when another `serve` has died.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { pushChildrenMax, pushesAloneMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import type { UserToServe } from '../push/whom/pass.ts'
import type { PushProcess, PushProcessEnd } from './push-process.ts'
import { findWaitingSubscriptions, type WaitingSubscriptions } from './waiting-subscriptions.ts'

/** Starts pushes, and hears of them. */
export interface SubscriptionPushesOptions {
  db: Database
  /** Without an e-mail: for all users. */
  start(email?: string): PushProcess
  onEnded(user: UserToServe | undefined, end: PushProcessEnd): void
  onTrouble(error: unknown): void
}

/** A push that another process recorded is taken only after so long: that process may be sending it, or have died. */
const othersAfterMs = 10_000
/** The longest time between two looks for pushes that other processes left. */
const lookMsMax = 30_000
/** The pause after a process without progress, doubled each time. */
const holdMs = 3_000
const holdMsMax = 300_000
const rememberedMax = 1_000

/** A pause after processes without progress. */
interface Hold {
  times: number
  untilMs: number
}

const isHeld = (hold: Hold | undefined) => hold !== undefined && hold.untilMs > performance.now()

/** A hold that was over long ago is forgotten. */
function holdAgain(hold: Hold | undefined): Hold {
  const nowMs = performance.now()
  const times = (hold !== undefined && hold.untilMs > nowMs - 4 * holdMsMax ? hold.times : 0) + 1
  return { times, untilMs: nowMs + Math.min(holdMs * 2 ** (times - 1), holdMsMax) }
}

/** The loop of one `serve`: looks for owed pushes and starts child processes for them. */
export class SubscriptionPushes {
  /** Users who waited at the last look. */
  waiting = 0
  private readonly options: SubscriptionPushesOptions
  private readonly underWay = new Map<number, PushProcess>()
  /** Users to whom this process has just recorded an owed push. */
  private readonly own = new LRUCache<number, true>({ max: rememberedMax })
  private readonly failures = new LRUCache<number, Hold>({ max: rememberedMax })
  /** The process for all users. */
  private forAll: PushProcess | undefined
  private forAllHold: Hold | undefined
  /**
   * The process for all users sends the pushes that were owed up to this moment; if it made no progress, the next such process does. So a
   * user who subscribes later gets a process at once, and does not wait if the receiver hangs for the others.
   */
  private forAllUntil: string | undefined
  private readonly stopping = new AbortController()
  private waker = new AbortController()
  /** By the database's clock. */
  private firstLookAt: string | undefined
  private running: Promise<void> | undefined

  constructor(options: SubscriptionPushesOptions) {
    this.options = options
  }

  get underWayCount(): number {
    return this.children.length
  }

  private get children(): PushProcess[] {
    return [...this.underWay.values(), ...(this.forAll ? [this.forAll] : [])]
  }

  run(): void {
    this.running ??= this.loop()
  }

  note(userId: number): void {
    this.own.set(userId, true)
    this.look()
  }

  /** Looks for owed pushes now. */
  look(): void {
    this.waker.abort()
  }

  /** Stops the loop, passes the signal on to the children, and waits for them for at most `graceMs`; then they go on alone. */
  async stop(signal: NodeJS.Signals, graceMs: number): Promise<void> {
    this.stopping.abort()
    this.look()
    const { children } = this
    for (const child of children) child.kill(signal)
    const ended = Promise.all(children.map((child) => child.ended))
    const grace = new AbortController()
    await Promise.race([ended, delay(graceMs, undefined, { signal: grace.signal }).catch(() => {})])
    grace.abort()
    for (const child of children) child.leave()
  }

  private async loop(): Promise<void> {
    while (!this.stopping.signal.aborted) {
      this.waker = new AbortController()
      const waitMs = await this.startDue().catch((error) => {
        this.options.onTrouble(error)
        return lookMsMax
      })
      await delay(waitMs, undefined, { signal: this.waker.signal }).catch(() => {})
    }
  }

  /** Starts as many processes as there is room for; returns in how many milliseconds to look again. */
  private async startDue(): Promise<number> {
    const isPaused = isHeld(this.forAllHold)
    if (!this.forAll && !isPaused) this.forAllUntil = undefined
    const held = [...this.failures].filter(([, hold]) => isHeld(hold))
    const found = await rideOut(this.options.db, () =>
      findWaitingSubscriptions(this.options.db, {
        own: [...this.own.keys()],
        // a push found at the start may have been this process's own before a restart
        ownUntil: this.firstLookAt ?? 'infinity',
        othersAfterMs,
        except: [...this.underWay.keys(), ...held.map(([userId]) => userId)],
        after: this.forAllUntil,
        limit: pushChildrenMax + 1,
      }),
    )
    this.firstLookAt ??= found.lookedAt
    this.waiting = found.dueCount - this.startFound(found, isPaused)
    const holds = [...held.map(([, hold]) => hold), ...(isPaused && this.forAllHold ? [this.forAllHold] : [])]
    // a hold that is over by now was not over when the database was asked: ask again at once
    const heldMs = holds.map(({ untilMs }) => Math.max(0, untilMs - performance.now()))
    return Math.min(lookMsMax, found.nextMs ?? lookMsMax, ...heldMs)
  }

  /** Returns the number of due users for whom a process was started. */
  private startFound({ due, dueCount, lookedAt }: WaitingSubscriptions, isPaused: boolean): number {
    const room = this.stopping.signal.aborted ? 0 : Math.max(0, pushChildrenMax - this.underWayCount)
    const isLong = dueCount > pushesAloneMax && !this.forAll
    if (!isLong) {
      const next = due.slice(0, room)
      for (const user of next) this.startForOne(user)
      return next.length
    }
    if (isPaused || room > 0) this.forAllUntil = lookedAt
    if (isPaused || room === 0) return 0
    this.startForAll()
    return dueCount
  }

  private startForOne(user: UserToServe): void {
    const child = this.options.start(user.email)
    this.underWay.set(user.id, child)
    void child.ended.then((end) => {
      this.underWay.delete(user.id)
      if (end.isFruitless) this.failures.set(user.id, holdAgain(this.failures.get(user.id)))
      else {
        this.own.delete(user.id)
        this.failures.delete(user.id)
      }
      this.options.onEnded(user, end)
      this.look()
    })
  }

  private startForAll(): void {
    const child = this.options.start()
    this.forAll = child
    void child.ended.then((end) => {
      this.forAll = undefined
      this.forAllHold = end.isFruitless ? holdAgain(this.forAllHold) : undefined
      this.options.onEnded(undefined, end)
      this.look()
    })
  }
}
