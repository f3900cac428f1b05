/**
 * Sends the subscription pushes that are owed, in child processes, few at once. The line of those who wait is in the database:
 * whoever is owed a push is found there, also after a restart, or when another sidecar has died.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { pushChildrenMax } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { findWaitingSubscriptions } from '../push/subscriptions.ts'
import type { UserToServe } from '../push/users-to-serve.ts'
import type { PushProcess, PushProcessEnd } from './push-process.ts'

export interface SubscriptionPushesOptions {
  db: Database
  start(email: string): PushProcess
  onEnded(user: UserToServe, end: PushProcessEnd): void
  onTrouble(error: unknown): void
}

/** Somebody else's, who is at it or has died. */
const othersAfterMs = 10_000
/** So often at least it looks for what others have left. */
const lookMsMax = 30_000
/** A user with whom a process came to nothing waits so long, doubled each time. */
const holdMs = 3_000
const holdMsMax = 300_000
const rememberedMax = 1_000

export class SubscriptionPushes {
  /** Users who wait in line, as far as is known. */
  waiting = 0
  private readonly options: SubscriptionPushesOptions
  private readonly underWay = new Map<number, PushProcess>()
  /** Owed since a moment ago by what this process answered. */
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

  /** Looks now for what is owed. */
  look(): void {
    this.waker.abort()
  }

  /** Passes the signal on, and waits for the children, for `graceMs` at most; what they have under way they finish alone. */
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

  /** Starts what there is room for; returns when to look again. */
  private async startDue(): Promise<number> {
    const room = pushChildrenMax - this.underWay.size
    const nowMs = performance.now()
    const held = [...this.failures].filter(([, { untilMs }]) => untilMs > nowMs)
    const found = await rideOut(() =>
      findWaitingSubscriptions(this.options.db, {
        own: [...this.own.keys()],
        // what it finds at its start may have been its own
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

  /** Whatever is still owed after a process that came to nothing is begun again, and never at once. */
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
