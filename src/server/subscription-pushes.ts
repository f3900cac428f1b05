/**
 * Sends owed subscription pushes in child processes, a few at once. The waiting line is in the database, so a push is also
 * found after a restart, or when another `serve` has died.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { pushChildrenMax } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { findWaitingSubscriptions } from '../push/subscriptions.ts'
import type { UserToServe } from '../push/users-to-serve.ts'
import type { PushProcess, PushProcessEnd } from './push-process.ts'

/** How a push is started, and whom the loop tells. */
export interface SubscriptionPushesOptions {
  db: Database
  start(email: string): PushProcess
  onEnded(user: UserToServe, end: PushProcessEnd): void
  onTrouble(error: unknown): void
}

/** A push that another process owes is taken only after so long: that process may be sending it, or have died. */
const othersAfterMs = 10_000
/** The longest time between two looks for pushes that others left. */
const lookMsMax = 30_000
/** The pause for a user whose process made no delivery, doubled each time. */
const holdMs = 3_000
const holdMsMax = 300_000
const rememberedMax = 1_000

/** The loop of one `serve`: looks for owed pushes and starts a child process for each. */
export class SubscriptionPushes {
  /** Users who waited in line at the last look. */
  waiting = 0
  private readonly options: SubscriptionPushesOptions
  private readonly underWay = new Map<number, PushProcess>()
  /** Users to whom this process has just recorded an owed push. */
  private readonly own = new LRUCache<number, true>({ max: rememberedMax })
  private readonly failures = new LRUCache<number, { times: number; untilMs: number }>({
    max: rememberedMax,
    ttl: 4 * holdMsMax,
  })
  private readonly stopping = new AbortController()
  private waker = new AbortController()
  private hasLooked = false
  private running: Promise<void> | undefined

  constructor(options: SubscriptionPushesOptions) {
    this.options = options
  }

  get underWayCount(): number {
    return this.underWay.size
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
    for (const child of this.underWay.values()) child.kill(signal)
    const ended = Promise.all([...this.underWay.values()].map((child) => child.ended))
    const grace = new AbortController()
    await Promise.race([ended, delay(graceMs, undefined, { signal: grace.signal }).catch(() => {})])
    grace.abort()
    for (const child of this.underWay.values()) child.leave()
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

  /** Starts as many pushes as there is room for; returns in how many milliseconds to look again. */
  private async startDue(): Promise<number> {
    const room = pushChildrenMax - this.underWay.size
    const nowMs = performance.now()
    const held = [...this.failures].filter(([, { untilMs }]) => untilMs > nowMs)
    const found = await rideOut(() =>
      findWaitingSubscriptions(this.options.db, {
        own: [...this.own.keys()],
        // a push found at the start may have been this process's own before a restart
        othersAfterMs: this.hasLooked ? othersAfterMs : 0,
        except: [...this.underWay.keys(), ...held.map(([userId]) => userId)],
        limit: pushChildrenMax + 1,
      }),
    )
    this.hasLooked = true
    const next = this.stopping.signal.aborted ? [] : found.due.slice(0, Math.max(0, room))
    this.waiting = found.dueCount - next.length
    for (const user of next) this.start(user)
    const heldMs = held.map(([, { untilMs }]) => untilMs - nowMs)
    return Math.min(lookMsMax, found.nextMs ?? lookMsMax, ...heldMs)
  }

  private start(user: UserToServe): void {
    const child = this.options.start(user.email)
    this.underWay.set(user.id, child)
    void child.ended.then((end) => {
      this.underWay.delete(user.id)
      this.noteEnd(user.id, end)
      this.options.onEnded(user, end)
      this.look()
    })
  }

  /** After a process without a delivery the push is still owed: it is begun again, after a pause. */
  private noteEnd(userId: number, { outcome }: PushProcessEnd): void {
    if (outcome !== undefined) {
      this.own.delete(userId)
      this.failures.delete(userId)
      return
    }
    const times = (this.failures.get(userId)?.times ?? 0) + 1
    const untilMs = performance.now() + Math.min(holdMs * 2 ** (times - 1), holdMsMax)
    this.failures.set(userId, { times, untilMs })
  }
}
