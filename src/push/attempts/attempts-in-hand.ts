/**
 * The attempts of a push between the ledger and the wire. Outcomes gather while a statement is under way, and the next one records
 * them together; a statement whose answer was lost with the database is made good.
 */
import { LRUCache } from 'lru-cache'
import { pause } from '../../base/clock.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { AttemptKind } from '../../deliveries/due.ts'
import type { DeliveryKind, DeliveryState, LedgerDelivery, RecordedAttempt } from '../../deliveries/ledger.ts'
import type { PlannedPush, RecordedOutcome, RecordedPushes } from '../../deliveries/record.ts'
import { toDeliveryLine } from '../reporter.ts'
import { DueAttempts } from './due-attempts.ts'
import type { LoopContext } from './loop-context.ts'
import { OutcomeQueue } from './outcome-queue.ts'

/** Pushes that must be planned anew; `counted`: how many erasures there are by now. */
interface PlanAnew<Push> {
  pushes: readonly Push[]
  counted: number
}

const nothingAnew = { pushes: [], counted: 0 }

/** While another transaction changes a user, beginning the subscription push is tried so often, for so long; then it stays owed. */
const busyMs = 100
const busyMsMax = 5_000
const emailsMax = 10_000

/** Whether a run may meet the user of such a push again, or was asked for them by name. */
const mayReturn = (kind: DeliveryKind) => kind === 'subscription' || kind === 'single'

/**
 * The states of an attempt. In the ledger it is under way from `ready` on, until its outcome is recorded:
 *
 *   planned ── recordPushes ─┐                                                         ┌─ recordOutcomes ─┐
 *                            ├─► ready ── take ──► underWay ── noteOutcome ──► outcomes ┤                  ├─► ended, or due
 *   due ────── recordDue ────┘     │                  │                                └─ recordPushes ───┘
 *    ▲                             │ takeBack         │ endErased
 *    └─────────────────────────────┴──────────────────┘
 *
 * An attempt with an outcome stays in `underWay` until that is recorded. A statement whose answer was lost with the database may have
 * recorded attempts: `findRecordedUnheard` finds these, and they become `ready`.
 */
export class AttemptsInHand {
  ready: RecordedAttempt[] = []
  readonly due: DueAttempts

  private readonly context: LoopContext
  private busyMsLeft = busyMsMax
  private readonly underWay = new Map<string, RecordedAttempt>()
  private readonly outcomes: OutcomeQueue
  /** Keys that are being taken back: until that is certain, their attempts must not be found or recorded again. */
  private takingBack: readonly string[] = []
  private hasTakenOver = false
  /** The e-mails of deliveries that wait for an attempt, by key: the ledger has none for a user who was removed meanwhile. */
  private readonly emails = new LRUCache<string, string>({ maxSize: emailsMax, sizeCalculation: () => 1 })

  /** `onFlushed`: outcomes were recorded, or recording them failed for good. */
  constructor(context: LoopContext, onFlushed: (failure?: unknown) => void) {
    this.context = context
    this.due = new DueAttempts(context)
    this.outcomes = new OutcomeQueue({
      clock: context.clock,
      concurrency: context.settings.concurrency,
      underWay: () => this.underWay.size,
      record: (outcomes) => this.recordOutcomes(outcomes),
      onRecorded: onFlushed,
    })
  }

  /** How many attempts the ledger has as under way, made or not. */
  get unfinished(): number {
    return this.ready.length + this.underWay.size
  }

  /** How many of the `unfinished` end when the next pushes are begun: `recordPushes` records their outcomes. */
  get ending(): number {
    return this.outcomes.toLend
  }

  get underWayCount(): number {
    return this.underWay.size
  }

  get isIdle(): boolean {
    return this.unfinished === 0 && this.outcomes.isEmpty
  }

  get isDue(): boolean {
    return this.due.at !== undefined && this.due.at <= this.context.clock.now()
  }

  /** The next attempt to make; the caller makes it. */
  take(attempt: RecordedAttempt): void {
    this.ready.splice(this.ready.indexOf(attempt), 1)
    this.underWay.set(attempt.idempotencyKey, attempt)
  }

  /** The kind of the due attempt, first ones before second ones, held or not; or the milliseconds until the next is due. */
  async findNext(): Promise<AttemptKind | number | undefined> {
    await this.endAbandoned()
    const [firstMs, secondMs] = [await this.due.findNext('first'), await this.due.findNext('second')]
    if (firstMs !== null) return firstMs > 0 ? firstMs : 'first'
    if (secondMs !== null) return secondMs > 0 ? secondMs : 'second'
    return undefined
  }

  /** Records up to `room` attempts that are due, and makes them ready. Returns how many. */
  async recordDue(room: number, only: AttemptKind | undefined = this.due.only): Promise<number> {
    const { due } = this
    const { receiver, run, clock } = this.context
    const attempts = await due.take(room, only, () => this.knownKeys())
    if (attempts.length === 0) await this.endAbandoned()
    if (attempts.length < room) await due.noteNext(only)
    // a due attempt could not be taken: its row is locked, or the lease was lost a moment ago
    if (attempts.length === 0 && due.at !== undefined) due.at = Math.max(due.at, clock.now() + 100)
    const hasTakenOver = attempts.some(({ runId }) => runId !== run.id)
    // the run that had them may have found trouble of the receiver
    if (hasTakenOver && !this.hasTakenOver) await receiver.lookAnew()
    this.hasTakenOver = hasTakenOver
    await this.countUsers(attempts)
    this.ready.push(...attempts)
    return attempts.length
  }

  private async endAbandoned(): Promise<void> {
    const { ledger, worker, takeover } = this.context
    const ended = await ledger.attempts.endAbandoned({ workerIds: worker.ids, takeover, known: this.knownKeys() })
    await this.countUsers(ended)
    // the ledger has no e-mail for a user who was removed meanwhile
    for (const delivery of ended)
      this.tell({ ...delivery, email: delivery.email ?? this.emails.get(delivery.idempotencyKey) ?? null })
    await ledger.rideOut(() => worker.renew())
  }

  private tell(delivery: LedgerDelivery): void {
    this.context.reporter.line(toDeliveryLine(delivery))
  }

  /** Counts the users of deliveries that an earlier run had begun, unless this run has begun another for them. */
  private async countUsers(deliveries: readonly { runId: number; userId: number }[]): Promise<void> {
    const { ledger, run, users } = this.context
    const ids = deliveries.flatMap(({ runId, userId }) => (runId === run.id ? [] : [userId]))
    if (ids.length === 0) return
    const begun = users.hasForgotten ? await ledger.users.findBegun(run.id, ids) : undefined
    for (const id of ids) if (!begun?.has(id)) users.add(id, true)
  }

  private knownKeys(): string[] {
    return [...this.underWay.keys(), ...this.ready.map(({ idempotencyKey }) => idempotencyKey), ...this.takingBack]
  }

  /**
   * Begins `pushes`, which were planned under one count of erasures, with up to `room` first attempts of their deliveries; the
   * others are due at once. Records the outcomes of other attempts along with that. Returns the pushes that must be planned anew, since
   * they were planned under another count of erasures than is `counted` now, or from another server.
   */
  async recordPushes<Push extends PlannedPush>(pushes: readonly Push[], room: number): Promise<PlanAnew<Push>> {
    const { ledger, worker, run, records, clock, receiver } = this.context
    const { erasures = 0, server = '' } = pushes[0] ?? {}
    const outcomes = this.outcomes.lend()
    const gzip = receiver.usesGzip
    try {
      return await ledger.rideOut(async (isRepeat) => {
        if (isRepeat) for (const attempt of await this.due.findUnheard(this.knownKeys())) this.begin(attempt)
        for (let [left, attemptsMax] = [pushes, room]; ; ) {
          const on = worker.server === server ? server : ''
          const by = { workerId: worker.id, server: on, runId: run.id, period: run.period, attemptsMax, gzip }
          const recorded = await ledger.attempts.recordPushes(by, left, outcomes)
          records.note(recorded.statement, by)
          this.noteRecorded(outcomes.splice(0), recorded.told)
          this.noteBegun(recorded)
          attemptsMax -= recorded.attempts.length
          const isSeen = recorded.live && recorded.erasures === erasures
          if (isSeen) left = recorded.busy
          if (!recorded.live) await worker.renew()
          // nothing more is begun: a push that was planned while the records were looked for could be tried for ever
          if (worker.lost.aborted) return nothingAnew
          if (recorded.erasures !== erasures || worker.server !== server)
            return { pushes: left, counted: recorded.erasures }
          if (!isSeen) continue
          if (left.length === 0) return nothingAnew
          if (this.busyMsLeft <= 0) {
            for (const { userId } of left) this.context.users.leftOwed.add(userId)
            return nothingAnew
          }
          this.busyMsLeft -= busyMs
          await pause(clock, busyMs)
        }
      })
    } finally {
      this.outcomes.takeBack()
    }
  }

  private noteBegun({ begun, attempts }: RecordedPushes): void {
    // the statement returns them in any order; users who may be met again come first, or they would be counted twice
    for (const push of begun.filter(({ kind }) => mayReturn(kind))) this.context.users.add(push.userId, true)
    for (const push of begun) this.context.users.add(push.userId, false)
    this.ready.push(...attempts)
    const started = new Set(attempts.map(({ idempotencyKey }) => idempotencyKey))
    for (const { email, deliveries } of begun)
      for (const { idempotencyKey } of deliveries) {
        if (started.has(idempotencyKey)) continue
        this.emails.set(idempotencyKey, email)
        this.due.at = 0
      }
  }

  private begin(attempt: RecordedAttempt): void {
    const { part, userId, kind } = attempt
    if (part === 1 && attempt.attempt === 1) this.context.users.add(userId, mayReturn(kind))
    this.ready.push(attempt)
    this.due.at = 0
  }

  /** Notes the outcome of an attempt; a later statement records it. */
  noteOutcome({ idempotencyKey, attempt }: RecordedAttempt, outcome: AttemptOutcome): void {
    const retryDelayMs = Math.max(this.context.settings.retryDelayMs, outcome.retryAfterMs ?? 0)
    this.outcomes.put({ idempotencyKey, attempt, retryDelayMs, ...outcome })
  }

  private async recordOutcomes(outcomes: readonly RecordedOutcome[]): Promise<void> {
    const { ledger, records } = this.context
    await ledger.rideOut(async () => {
      const { run } = records
      const recorded = await ledger.attempts.recordOutcomes(run, outcomes)
      records.note(recorded.statement, run)
      this.noteRecorded(outcomes, recorded.told)
    })
  }

  /** `outcomes` are the first ones of the queue. */
  private noteRecorded(outcomes: readonly RecordedOutcome[], told: readonly DeliveryState[]): void {
    this.outcomes.drop(outcomes.length)
    for (const state of told) this.noteState(state, outcomes)
    for (const { idempotencyKey } of outcomes) this.underWay.delete(idempotencyKey)
  }

  private noteState(state: DeliveryState, outcomes: readonly RecordedOutcome[]): void {
    const attempt = this.underWay.get(state.idempotencyKey)
    const outcome = outcomes.find(({ idempotencyKey }) => idempotencyKey === state.idempotencyKey)
    if (attempt && state.status !== 'pending') this.context.reporter.line(toDeliveryLine(attempt, state))
    else if (attempt) {
      this.emails.set(attempt.idempotencyKey, attempt.email)
      this.due.noteIn(outcome?.retryDelayMs ?? 0)
    }
  }

  /** Gives up an attempt whose body can no longer be built, since one of its listings was erased. */
  async endErased(attempt: RecordedAttempt): Promise<void> {
    const { idempotencyKey, email } = attempt
    const { ledger, worker } = this.context
    const ended = await ledger.attempts.endErased(worker.ids, attempt)
    for (const delivery of ended) this.tell({ ...delivery, email })
    this.underWay.delete(idempotencyKey)
    // a first attempt is due again, without the listing
    this.due.at = 0
  }

  /** Takes back recorded attempts that were not made, including `unmade`, which was taken: they are due again. */
  async takeBack(unmade?: RecordedAttempt): Promise<void> {
    const { ledger, worker } = this.context
    if (unmade && this.underWay.delete(unmade.idempotencyKey)) this.ready.push(unmade)
    const unsent = this.ready
    if (unsent.length === 0) return
    this.ready = []
    const emailOf = new Map(unsent.map(({ idempotencyKey, email }) => [idempotencyKey, email]))
    this.takingBack = [...this.takingBack, ...emailOf.keys()]
    for (const ended of await ledger.attempts.takeBack(worker.ids, unsent)) {
      this.tell({ ...ended, email: emailOf.get(ended.idempotencyKey) ?? null })
    }
    this.takingBack = this.takingBack.filter((key) => !emailOf.has(key))
    this.due.at = 0
  }

  /** Gives back the deliveries that this process still has: due `now`, or `then`, at their own time. */
  async giveBack(due: 'now' | 'then'): Promise<void> {
    const { ledger, worker } = this.context
    await this.takeBack()
    for await (const delivery of ledger.attempts.giveBack(worker.ids, due)) this.tell(delivery)
  }

  /** Resolves once the statement under way has recorded its outcomes. */
  async flushed(): Promise<void> {
    await this.outcomes.recorded()
  }
}
