/**
 * The attempts of a push between the ledger and the wire. Their outcomes gather, and one statement records several: the next one that
 * begins pushes, or one of its own. A statement whose answer was lost with the database is made good.
 */
import { LRUCache } from 'lru-cache'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { AttemptKind } from '../../deliveries/due.ts'
import type {
  DeliveryFacts,
  DeliveryKind,
  DeliveryState,
  LedgerDelivery,
  RecordedAttempt,
} from '../../deliveries/ledger.ts'
import type { PlannedPush, RecordedOutcome, RecordedPushes } from '../../deliveries/record.ts'
import { toDeliveryLine } from '../reporter.ts'
import { DueAttempts } from './due-attempts.ts'
import type { LoopContext } from './loop-context.ts'

const emailsMax = 10_000
/** How long an outcome waits for others, or for a statement that begins pushes: one of its own would hold up the next one. */
const gatherMs = 50

/** Whether `n` of at most `max` rows are worth a statement now: a statement costs nearly the same for one row and for many. */
export const isWorthStatement = (n: number, max: number) => n * 4 >= max * 3

/** Whether a run may meet the user of such a push again, or was asked for them by name. */
const mayReturn = (kind: DeliveryKind) => kind === 'subscription' || kind === 'single'

/**
 * The states of an attempt. In the ledger it is under way from `ready` on, until its outcome is recorded:
 *
 *   planned ── recordPushes ─┐                                                      ┌─ recordOutcomes ─┐
 *                            ├─► ready ── take ──► made ── noteOutcome ──► outcomes ┤                  ├─► ended, or due
 *   due ────── recordDue ────┘     │                │                               └─ recordPushes ───┘
 *    ▲                             │ takeBack       │ takeBack
 *    └─────────────────────────────┴────────────────┘
 *
 * A statement whose answer was lost with the database may have recorded attempts: `findUnheard` finds these, and they become `ready`.
 */
export class AttemptsInHand {
  readonly ready: RecordedAttempt[] = []
  readonly due: DueAttempts

  private readonly context: LoopContext
  /** All of them by key, until the ledger has their outcomes, or has taken them back: it must neither find nor record them again. */
  private readonly all = new Map<string, RecordedAttempt>()
  private readonly outcomes: RecordedOutcome[] = []
  private gatheredFrom = 0
  /** A statement that begins pushes may have recorded attempts of which nobody heard. */
  private isUnheard = false
  /** The e-mails of deliveries that wait for an attempt, by key: the ledger has none for a user who was removed meanwhile. */
  private readonly emails = new LRUCache<string, string>({ maxSize: emailsMax, sizeCalculation: () => 1 })

  constructor(context: LoopContext) {
    this.context = context
    this.due = new DueAttempts(context)
  }

  /** How many attempts the ledger has as under way, made or not. */
  get unfinished(): number {
    return this.all.size
  }

  has(key: string): boolean {
    return this.all.has(key)
  }

  /** How many of the `unfinished` end with the next statement that records outcomes. */
  get ending(): number {
    return this.outcomes.length
  }

  /** In how many milliseconds outcomes are worth a statement of their own: they wait shortly for the other attempts under way. */
  get untilRecording(): number {
    const { length } = this.outcomes
    const { clock, settings } = this.context
    if (length === 0) return Number.POSITIVE_INFINITY
    if (length >= this.all.size - this.ready.length || isWorthStatement(length, settings.concurrency)) return 0
    return this.gatheredFrom + gatherMs - clock.now()
  }

  /** The next attempt to make; the caller makes it. */
  take(attempt: RecordedAttempt): void {
    this.ready.splice(this.ready.indexOf(attempt), 1)
  }

  /** Takes the ready attempts out that `isKept` does not keep; they must be taken back. */
  takeOut(isKept: (attempt: RecordedAttempt) => boolean): RecordedAttempt[] {
    const all = this.ready.splice(0)
    this.ready.push(...all.filter(isKept))
    return all.filter((attempt) => !isKept(attempt))
  }

  private add(attempts: readonly RecordedAttempt[]): void {
    this.ready.push(...attempts)
    for (const attempt of attempts) this.all.set(attempt.idempotencyKey, attempt)
  }

  private readonly keys = () => [...this.all.keys()]

  /** Ends deliveries that get no further attempt, and learns from the ledger when the next ones are due. */
  async lookAnew(): Promise<void> {
    await this.endAbandoned()
    this.due.lookAnew()
    for (const kind of ['first', 'second'] as const) await this.due.noteNext(kind)
  }

  /**
   * Records up to `room` attempts that are due, of one kind if `only` names it, and makes them ready. `drawn`: any of them, not the earliest.
   */
  async recordDue(room: number, only: AttemptKind | undefined, drawn = false): Promise<readonly RecordedAttempt[]> {
    const { receiver, run } = this.context
    const attempts = await this.due.take(room, only, this.keys, drawn)
    if (attempts.length === 0) await this.endAbandoned()
    if (attempts.length < room) await this.due.noteNext(only, attempts.length)
    // the run that had them may have found trouble of the receiver
    if (attempts.some(({ runId }) => runId !== run.id)) await receiver.look()
    this.add(attempts)
    return attempts
  }

  private async endAbandoned(): Promise<void> {
    const { ledger, worker, scope } = this.context
    const of = () => ({ workerIds: worker.ids, takeover: scope.takeover, known: this.keys() })
    const ended = await ledger.rideOut(() => ledger.attempts.endAbandoned(of()))
    this.tell(ended)
    await ledger.rideOut(() => worker.renew())
  }

  /** Reports deliveries that got no outcome. */
  private tell(deliveries: readonly LedgerDelivery[]): void {
    for (const delivery of deliveries) {
      const { idempotencyKey: key } = delivery
      const email = delivery.email ?? this.all.get(key)?.email ?? this.emails.get(key) ?? null
      this.tellOne({ ...delivery, email }, delivery)
    }
  }

  /** Reports a delivery, and counts its user. */
  private tellOne(delivery: DeliveryFacts & Pick<LedgerDelivery, 'email'>, state: DeliveryState): void {
    const { run, users, reporter } = this.context
    users.add(delivery.userId, delivery.runId !== run.id || mayReturn(delivery.kind))
    reporter.line(toDeliveryLine(delivery, state))
  }

  /**
   * Begins `pushes`, which were planned under one count of erasures and from one server, with up to `room` first attempts of their
   * deliveries; the others are due at once. Records the outcomes of other attempts along with that. Returns the pushes that are still to be
   * begun: all of them or none; all, if this process had lost its lease, or they must be planned anew. `erasures`: the count now.
   */
  async recordPushes<Push extends PlannedPush>(
    pushes: readonly Push[],
    room: number,
  ): Promise<{ left: readonly Push[]; erasures: number }> {
    const { ledger, worker, run, records, receiver } = this.context
    const { erasures = 0, server = '' } = pushes[0] ?? {}
    const outcomes = [...this.outcomes]
    const of = { runId: run.id, period: run.period, attemptsMax: room, gzip: receiver.usesGzip }
    return await ledger.rideOut(async (isRepeat) => {
      this.isUnheard ||= isRepeat
      if (this.isUnheard) {
        this.add(await this.due.findUnheard(this.keys()))
        this.due.note('first')
      }
      const by = { workerId: worker.id, server: worker.server === server ? server : '', ...of }
      const recorded = await ledger.attempts.recordPushes(by, pushes, outcomes)
      records.note(recorded.statement, by)
      this.noteRecorded(outcomes.splice(0), recorded.told)
      this.noteBegun(recorded)
      if (recorded.live) this.isUnheard = false
      else await worker.renew()
      const isSeen = recorded.live && recorded.erasures === erasures
      return { left: isSeen ? [] : pushes, erasures: recorded.erasures }
    })
  }

  private noteBegun({ begun, attempts }: RecordedPushes): void {
    this.add(attempts)
    for (const { email, deliveries } of begun)
      for (const { idempotencyKey } of deliveries) {
        if (this.all.has(idempotencyKey)) continue
        this.emails.set(idempotencyKey, email)
        this.due.note('first')
      }
  }

  /** Notes the outcome of an attempt; a later statement records it. */
  noteOutcome({ idempotencyKey, attempt }: RecordedAttempt, outcome: AttemptOutcome): void {
    const { clock, settings } = this.context
    if (this.outcomes.length === 0) this.gatheredFrom = clock.now()
    const retryDelayMs = Math.max(settings.retryDelayMs, outcome.retryAfterMs ?? 0)
    this.outcomes.push({ idempotencyKey, attempt, retryDelayMs, ...outcome })
  }

  /** Records the outcomes that have gathered. No other statement may be recording some. */
  async recordOutcomes(): Promise<void> {
    const { ledger, records } = this.context
    const outcomes = [...this.outcomes]
    await ledger.rideOut(async () => {
      const { run } = records
      const recorded = await ledger.attempts.recordOutcomes(run, outcomes)
      records.note(recorded.statement, run)
      this.noteRecorded(outcomes, recorded.told)
    })
  }

  /** `outcomes` are the first ones of those that wait. */
  private noteRecorded(outcomes: readonly RecordedOutcome[], told: readonly DeliveryState[]): void {
    this.outcomes.splice(0, outcomes.length)
    this.gatheredFrom = this.context.clock.now()
    const stateOf = new Map(told.map((state) => [state.idempotencyKey, state]))
    for (const { idempotencyKey, retryDelayMs } of outcomes) {
      const [attempt, state] = [this.all.get(idempotencyKey), stateOf.get(idempotencyKey)]
      this.all.delete(idempotencyKey)
      if (attempt === undefined || state === undefined) continue
      if (state.status !== 'pending') this.tellOne(attempt, state)
      else {
        this.emails.set(idempotencyKey, attempt.email)
        this.due.note('second', retryDelayMs)
      }
    }
  }

  /**
   * Takes back recorded attempts of which certainly nothing went out: those that are ready, or `attempts` that were taken. They do not
   * count, and are due again. `isErased`: their bodies can no longer be built, since one of their listings was erased.
   */
  async takeBack(attempts: readonly RecordedAttempt[] = this.ready.splice(0), isErased = false): Promise<void> {
    if (attempts.length === 0) return
    const { ledger, worker } = this.context
    this.tell(await ledger.rideOut(() => ledger.attempts.takeBack(worker.ids, attempts, isErased)))
    for (const { idempotencyKey, attempt } of attempts) {
      this.all.delete(idempotencyKey)
      this.due.note(attempt === 1 ? 'first' : 'second')
    }
  }

  /** Releases the deliveries that this process still has: due `now`, or `then`, at their own time. */
  async release(due: 'now' | 'then'): Promise<void> {
    const { ledger, worker } = this.context
    await this.takeBack()
    for await (const delivery of ledger.attempts.releaseDeliveries(worker.ids, due)) this.tell([delivery])
  }
}
