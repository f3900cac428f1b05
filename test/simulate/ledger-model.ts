/**
 * The ledger in memory, a specification of what its statements do: each method is one statement (or one transaction), carried out at
 * one moment of the given clock. `test/integration/ledger-model.test.ts` holds it against PostgreSQL. What it leaves out: answers of
 * receivers, figures of sources, and the limits of pages, which no caller sees.
 */
import { gzipRefusalMs, paceDays, retryAfterMsMax } from '../../src/base/limits.ts'
import type { OtherWorker } from '../../src/db/leases.ts'
import { countBodyBytes } from '../../src/deliveries/body.ts'
import type { AttemptKind, DueFrom, DueLook } from '../../src/deliveries/due.ts'
import {
  type DeliveryState,
  type LedgerDelivery,
  outcomeLost,
  type RecordedAttempt,
  wasErased,
} from '../../src/deliveries/ledger.ts'
import type { PlannedPush, RecordedOutcome, RecordedOutcomes, RecordedPushes } from '../../src/deliveries/record.ts'
import type { CountingRun, OpenRun, Run } from '../../src/deliveries/runs.ts'
import type { UsersOfPass } from '../../src/push/database/users-left.ts'
import type { AttemptStore, Known, ReceiverNews, RunStore, UserStore } from '../../src/push/ledger.ts'
import { isAlike, troubleRules } from '../../src/push/receiver/trouble.ts'
import type { Week } from '../../src/push/whom/guard.ts'
import { type Cursor, rangeScopeOf as hashRangeScope, type Pass, type UserToServe } from '../../src/push/whom/pass.ts'
import { goldenRatio, reserveRank } from '../../src/push/whom/reserve.ts'
import {
  Conditions,
  claimKey,
  comparePlaces,
  type DeliveryRow,
  type LedgerState,
  newState,
  periodAt,
  periodBegins,
  type ReceiverRow,
  type RunRow,
  stateOf,
  toLedgerDelivery,
  type UserRow,
} from './ledger-state.ts'
import { remember } from './remember.ts'

/** A listing as it is matched. */
export interface Listed {
  place: string
  versionId: number
  json: Buffer
}

type AttemptName = Pick<RecordedAttempt, 'idempotencyKey' | 'attempt'>

const dayMs = 86_400_000
/** `findNextDue` and `recordDue` look back so far. */
const lookBackMs = 1_000
const subscriptionPauseMs = 60_000
const rangeScopeOf = remember((pass: Pass) => JSON.stringify(pass), hashRangeScope)
const nth = (kind: AttemptKind) => (kind === 'second' ? 2 : 1)

export class LedgerModel {
  state: LedgerState
  /** Among attempts that are due since the same moment, these go first, in any order: the ledger has none of its own. */
  preferred: ReadonlySet<string> = new Set()
  /** Keys whose second attempt was recorded before the first one's outcome. */
  readonly takenUnheard = new Set<string>()

  private readonly clock: () => number
  /** The users as they were sorted last; `changes`: how many had come and gone by then. */
  private inOrderOf: { users: LedgerState['users'] | undefined; changes: number; rows: readonly UserRow[] } = {
    users: undefined,
    changes: 0,
    rows: [],
  }
  private changes = 0
  private draws = 0

  /** `clock`: milliseconds since 1970. */
  constructor(clock: () => number, server = 'first') {
    this.clock = clock
    this.state = newState(server)
  }

  get now(): number {
    return this.clock()
  }

  get is(): Conditions {
    return new Conditions(this.state, this.now)
  }

  private newId(): number {
    return ++this.state.lastId
  }

  // Leases

  registerWorker(leaseMs: number): { id: number; server: string } {
    const id = this.newId()
    this.state.workers.set(id, { id, leaseUntil: this.now + leaseMs, renewedAt: this.now })
    return { id, server: this.state.server }
  }

  renewLease(id: number, leaseMs: number): string | undefined {
    const worker = this.state.workers.get(id)
    if (worker === undefined || !this.is.isLive(id)) return undefined
    worker.leaseUntil = this.now + leaseMs
    worker.renewedAt = this.now
    return this.state.server
  }

  forgetDeadWorkers(): void {
    const { is } = this
    const dead = [...this.state.workers.values()].filter((worker) => is.leaseEnd(worker) < this.now - dayMs)
    this.endLeases(dead.map(({ id }) => id))
  }

  takeRunAlong(from: readonly number[], to: number): void {
    for (const run of this.state.runs.values())
      if (from.includes(run.workerId) && run.outcome === 'running') run.workerId = to
  }

  endLeases(ids: readonly number[]): void {
    for (const id of ids) this.state.workers.delete(id)
    const isGone = ({ workerId }: { workerId: number }) => ids.includes(workerId)
    this.state.ranges = this.state.ranges.filter((range) => !isGone(range))
    this.state.erased = this.state.erased.filter((one) => !isGone(one))
  }

  // Runs

  startRun(run: Parameters<RunStore['start']>[0]): Run {
    const { command, timeZone, resumable, maxLeadAgeMs, workerIds } = run
    const period = periodAt(this.now, timeZone)
    const isWhole = (it: RunRow) => it.resumable || (it.command !== 'all' && it.command !== 'force')
    const last = this.runsBegun((it) => it.held === null && isWhole(it)).sort(
      (a, b) => Number(b.listings !== null) - Number(a.listings !== null) || b.startedAt - a.startedAt,
    )[0]
    const otherTimeZone = last && last.timeZone !== timeZone ? last.timeZone : undefined
    const begun = [...this.state.runs.values()].find(
      (it) => workerIds.includes(it.workerId) && it.outcome === 'running',
    )
    const id = begun?.id ?? this.newId()
    if (begun === undefined)
      this.addRun({ id, command, period, timeZone, workerId: workerIds.at(-1) ?? 0, resumable, startedAt: this.now })
    const open = this.openForcedBy(period)
    if (begun === undefined && command === 'force' && resumable && open === undefined)
      this.state.forcedScopes.set(period, { runId: id, isOver: false })
    const joined = begun && resumable ? this.state.forcedScopes.get(period)?.runId : open
    return { id, period, seenSince: new Date(this.now - maxLeadAgeMs), otherTimeZone, forcedBy: joined ?? id }
  }

  private openForcedBy(period: string): number | undefined {
    const scope = this.state.forcedScopes.get(period)
    return scope?.isOver ? undefined : scope?.runId
  }

  private addRun(run: Pick<RunRow, 'id' | 'command' | 'period' | 'timeZone' | 'workerId' | 'resumable' | 'startedAt'>) {
    const row: RunRow = {
      endedAt: null,
      outcome: 'running',
      statements: 0,
      cameToEnd: false,
      listings: null,
      ...run,
      filledFields: null,
      held: null,
      accepted: false,
      heldUsers: 0,
      heldByAnswers: null,
    }
    this.state.runs.set(run.id, row)
    return row
  }

  /** A run in the future was written by a wrong clock. */
  private runsBegun(is: (run: RunRow) => boolean): RunRow[] {
    return [...this.state.runs.values()].filter((run) => run.startedAt <= this.now && is(run))
  }

  endRun(...[runId, server, end]: Parameters<RunStore['end']>): boolean {
    const run = this.state.runs.get(runId)
    if (run === undefined || server !== this.state.server) return false
    const { outcome, cameToEnd, heldUsers, heldByAnswers = null, doubtfulKeys, acceptsAnswers, endsForcedBy } = end
    const endedAt = (run.outcome === outcome ? run.endedAt : null) ?? this.now
    Object.assign(run, { outcome, cameToEnd, heldUsers, heldByAnswers, endedAt })
    for (const d of this.state.deliveries.values()) {
      if (doubtfulKeys.includes(d.key)) d.doubtful = true
      else if (acceptsAnswers && d.period === run.period) d.doubtful = false
    }
    for (const scope of this.state.forcedScopes.values()) if (scope.runId === endsForcedBy) scope.isOver = true
    return true
  }

  findStatements(runId: number): number | undefined {
    return this.state.runs.get(runId)?.statements
  }

  /** Counts a statement of the run; null on another server, or where the run is gone. */
  private count({ runId, server }: CountingRun): number | null {
    const run = this.state.runs.get(runId)
    if (run === undefined || server !== this.state.server) return null
    run.statements++
    return run.statements
  }

  recordLoss(...[{ id, period }, start, { workerId, ageMs }]: Parameters<RunStore['recordLoss']>): void {
    const { command, resumable, timeZone } = start
    const begun = { id, command, period, timeZone, workerId, resumable, startedAt: this.now - ageMs }
    const run = this.state.runs.get(id) ?? this.addRun(begun)
    run.outcome = 'lost'
    run.endedAt = this.now
    const { forcedScopes } = this.state
    if (command === 'force' && resumable && !forcedScopes.has(period))
      forcedScopes.set(period, { runId: id, isOver: false })
  }

  findInterrupted(period: string): OpenRun[] {
    const { is } = this
    const left = this.runsBegun(
      (run) =>
        run.period === period &&
        (!run.cameToEnd || run.heldUsers > 0) &&
        run.resumable &&
        (run.command === 'all' || run.command === 'force') &&
        (run.outcome !== 'running' || !is.isLive(run.workerId)),
    )
    return left
      .sort((a, b) => a.startedAt - b.startedAt || a.id - b.id)
      .map(({ id, command, accepted, cameToEnd }) => {
        const forcedBy = command === 'force' ? (this.state.forcedScopes.get(period)?.runId ?? null) : null
        return { id, forcedBy, accepted: accepted && !cameToEnd, cameToEnd }
      })
  }

  closeInterrupted(runIds: readonly number[], heldUsers: number): void {
    for (const run of this.state.runs.values()) {
      if (!runIds.includes(run.id)) continue
      const outcome = run.outcome === 'running' ? 'interrupted' : run.outcome
      Object.assign(run, { cameToEnd: true, heldUsers, endedAt: run.endedAt ?? this.now, outcome })
    }
  }

  /** What the guard compares, where no listings were imported. */
  findWeek(period: string): Week {
    const earlier = this.runsBegun(({ command, listings, ...run }) => {
      return (
        run.period < period && (command === 'all' || command === 'force' || (command === 'resume' && listings !== null))
      )
    })
    const periods = [...new Set(earlier.map((run) => run.period))].sort().reverse()
    const importVolume = { listings: 0, filledFields: 0 }
    return { importVolume, before: [], isAccepted: false, sources: [], earlier: periods }
  }

  recordVerdict(...[{ runId, server }, verdict]: Parameters<RunStore['recordVerdict']>): number | null {
    const run = this.state.runs.get(runId)
    if (run === undefined) return null
    const { importVolume, held, accepted } = verdict
    Object.assign(run, { ...importVolume, held: held?.reason ?? null, accepted })
    if (server === this.state.server) run.statements++
    return run.statements
  }

  wasHeldBefore(period: string, runId: number): boolean {
    const until = this.state.runs.get(runId)?.startedAt ?? Number.NEGATIVE_INFINITY
    const asked = [...this.state.runs.values()].filter(
      (run) => run.period === period && run.id !== runId && run.listings !== null && run.startedAt <= until,
    )
    return (asked.sort((a, b) => b.startedAt - a.startedAt)[0]?.held ?? null) !== null
  }

  findOthersAtWork(workerIds: readonly number[]): OtherWorker[] {
    const { is, state } = this
    const isAtWork = (id: number) =>
      [...state.deliveries.values()].some(({ status, workerId }) => status === 'pending' && workerId === id) ||
      state.ranges.some(({ workerId }) => workerId === id) ||
      [...state.runs.values()].some(({ outcome, workerId }) => outcome === 'running' && workerId === id)
    return [...state.workers.values()]
      .filter(({ id }) => is.isLive(id) && !workerIds.includes(id) && isAtWork(id))
      .map((worker) => ({ id: worker.id, leaseMs: is.leaseEnd(worker) - this.now }))
  }

  // Users

  private get subscribed(): UserRow[] {
    const { users } = this.state
    if (this.inOrderOf.users !== users || this.inOrderOf.changes !== this.changes)
      this.inOrderOf = { users, changes: this.changes, rows: [...users.values()].sort(comparePlaces) }
    return this.inOrderOf.rows.filter(({ subscribed }) => subscribed)
  }

  countOfPass(...[pass, except = [], counted = []]: Parameters<UserStore['countOfPass']>): UsersOfPass {
    const { is } = this
    const scope = rangeScopeOf(pass)
    const sum: UsersOfPass = { elsewhere: 0, free: 0, uncounted: 0, claimed: 0, begun: 0, withoutQueries: 0 }
    for (const user of this.subscribed) {
      if (is.isClaimed(pass.scope, user)) {
        sum.claimed++
        if (pass.kind === 'weekly' && this.isBegun(pass, user)) sum.begun++
      } else if (!is.isMeant(pass, user)) continue
      else if (user.places.length === 0) sum.withoutQueries++
      else if (is.isInRangeOfAnother(scope, user, except)) sum.elsewhere++
      else {
        sum.free++
        if (!counted.includes(user.id)) sum.uncounted++
      }
    }
    return sum
  }

  /** The user's weekly delivery has an attempt left to make, or is making it. */
  private isBegun({ period }: Pass, { id }: UserRow): boolean {
    return this.deliveries(
      (d) => d.userId === id && d.status === 'pending' && d.kind === 'weekly' && d.period === period,
    ).some(({ createdAt }) => createdAt >= periodBegins(period))
  }

  countElsewhere(passes: readonly Pass[], workerIds: readonly number[]): number {
    const { is, state } = this
    const inHand = this.deliveries(
      ({ status, workerId }) =>
        status === 'pending' && workerId !== null && !workerIds.includes(workerId) && is.isLive(workerId),
    )
    const isInRange = (user: UserRow | undefined) =>
      user !== undefined &&
      passes.some((pass) => is.isOwedBy(pass, user) && is.isInRangeOfAnother(rangeScopeOf(pass), user, workerIds))
    return [...new Set(inHand.map(({ userId }) => userId))].filter((id) => !isInRange(state.users.get(id))).length
  }

  countUnreached({ takeover, passes, runId, counted }: Parameters<UserStore['countUnreached']>[0]) {
    const { is, state } = this
    const ofPush = (d: DeliveryRow) =>
      this.deliveries((e) => e.runId === d.runId && e.userId === d.userId && e.kind === d.kind)
    const found = this.deliveries(
      (d) =>
        state.users.has(d.userId) &&
        is.isWanted(d) &&
        (d.runId === runId || is.isAbandoned(d, takeover)) &&
        ofPush(d).every((e) => e.status === 'pending' && e.attempts === 0) &&
        !passes.some((pass) => is.isOwedBy(pass, state.users.get(d.userId) as UserRow)),
    )
    const users = (some: readonly DeliveryRow[]) => new Set(some.map(({ userId }) => userId)).size
    const uncounted = found.filter((d) => d.runId !== runId && !counted.includes(d.userId))
    return { users: users(found), uncounted: users(uncounted) }
  }

  findWithoutQueries(scope: string): string[] {
    const { is } = this
    return this.subscribed
      .filter((user) => user.places.length === 0 && !is.isClaimed(scope, user))
      .map(({ email }) => email)
  }

  /** Users who are owed a subscription push since after `last`, the oldest first. */
  findOwedSubscription(last: { since: number; id: number }): { id: number; email: string; since: number }[] {
    const { is } = this
    const isAfter = (since: number, id: number) => since > last.since || (since === last.since && id > last.id)
    return [...this.state.users.values()]
      .flatMap((user) => {
        const { id, email, owedAt: since } = user
        return since !== null && is.isOwedSubscription(user) && isAfter(since, id) ? [{ id, email, since }] : []
      })
      .sort((a, b) => a.since - b.since || a.id - b.id)
  }

  findRemoved(users: readonly UserToServe[]): Set<number> {
    const isGone = ({ id, email }: UserToServe) => this.state.users.get(id)?.email !== email
    return new Set(users.filter(isGone).map(({ id }) => id))
  }

  takeRange({
    worker,
    pass,
    cursor,
    size,
  }: Parameters<UserStore['takeRange']>[0]): (UserToServe & Cursor)[] | undefined {
    const { is, state } = this
    const scope = rangeScopeOf(pass)
    const users = this.subscribed
      .filter((user) => cursor === undefined || comparePlaces(cursor, user) < 0)
      .filter((user) => is.isOwedBy(pass, user) && !is.isInRangeOfAnother(scope, user, []))
      .slice(0, size)
      .map(({ id, email, homeKey }) => ({ id, email, homeKey }))
    const [first, last] = [users[0], users.at(-1)]
    if (first === undefined || last === undefined) return []
    if (!is.isLiveOn(worker)) return undefined
    // one that a dead worker left
    state.ranges = state.ranges.filter((it) => it.scope !== scope || comparePlaces(it.first, first) !== 0)
    state.ranges.push({ workerId: worker.id, scope, first, last })
    return users
  }

  /** By the count of draws, so that a run can be played again. */
  private shuffle<Row>(rows: readonly Row[], userOf: (row: Row) => number): Row[] {
    this.draws++
    const chance = (row: Row) => Math.imul(Math.imul(userOf(row) + 1, 0x9e3779b1) ^ this.draws, 0x85ebca6b) >>> 0
    return rows.toSorted((a, b) => chance(a) - chance(b))
  }

  draw(...[pass, count, reservedBelow]: Parameters<UserStore['draw']>): UserToServe[] {
    const first = goldenRatio * (++this.draws) ** 2
    const owed = this.subscribed.filter((user) => this.is.isOwedBy(pass, user))
    const [reserved, others] = [true, false].map((isReserved) =>
      owed
        .filter(({ id }) => reserveRank(id) < reservedBelow === isReserved)
        .map(({ id, email }, at) => ({ id, email, step: (first + goldenRatio * at) % 1 }))
        .sort((a, b) => a.step - b.step),
    )
    return [...(reserved ?? []), ...(others ?? [])].slice(0, count).map(({ id, email }) => ({ id, email }))
  }

  releaseRanges(...[workerIds, pass, kept = []]: Parameters<UserStore['releaseRanges']>): void {
    const scope = rangeScopeOf(pass)
    this.state.ranges = this.state.ranges.filter(
      (range) =>
        range.scope !== scope ||
        !workerIds.includes(range.workerId) ||
        kept.some((cursor) => comparePlaces(cursor, range.first) === 0),
    )
  }

  /** How many leads the user's last delivery in the scopes `compared` had, if it was for the same queries. */
  findLeadsBefore({ email }: UserToServe, queriesMark: number, compared: readonly string[]): number | undefined {
    for (const scope of compared) {
      const claim = this.state.claims.get(claimKey(scope, email))
      if (claim && claim.queriesMark === queriesMark && claim.leads !== null) return claim.leads
    }
    return undefined
  }

  // Attempts

  private deliveries(is: (delivery: DeliveryRow) => boolean): DeliveryRow[] {
    const found: DeliveryRow[] = []
    for (const delivery of this.state.deliveries.values()) if (is(delivery)) found.push(delivery)
    return found
  }

  /** Claims each push in its scope and writes its deliveries, the first `attemptsMax` with their first attempt. */
  recordPushes<Push extends PlannedPush>(
    by: Parameters<AttemptStore['recordPushes']>[0],
    pushes: readonly Push[],
    outcomes: readonly RecordedOutcome[] = [],
  ): RecordedPushes<Push> {
    const { workerId, server, runId, period, attemptsMax, gzip = false } = by
    const { state, now } = this
    const statement = this.count({ runId, server })
    const live = this.is.isLiveOn({ id: workerId, server })
    const { erasures } = state
    const recorded: RecordedPushes<Push> = { live, erasures, begun: [], attempts: [], told: [], statement }
    let left = attemptsMax
    const keys = pushes.flatMap(({ deliveries }) => deliveries.map(({ idempotencyKey }) => idempotencyKey))
    const isRepeated = keys.some((key) => state.deliveries.has(key))
    for (const push of live && erasures === (pushes[0]?.erasures ?? 0) ? pushes : []) {
      const room = Math.max(0, left)
      left -= push.deliveries.length
      const user = this.findEligible(push)
      if (user === undefined) continue
      const { kind, userId, email } = push
      const granted = kind === 'single' ? !isRepeated : kind === 'subscription' ? this.takeOwed(user) : this.claim(push)
      if (!granted) continue
      recorded.begun.push(push)
      for (const [at, delivery] of push.deliveries.entries()) {
        const { idempotencyKey: key, part, parts, queries, leads, bytes, queryList, contents } = delivery
        if (state.deliveries.has(key)) throw new Error(`the key ${key} was given before`)
        const isStarted = at < room
        state.deliveries.set(key, {
          key,
          runId,
          userId,
          kind,
          period,
          part,
          parts,
          queries,
          leads,
          bytes,
          queryList,
          versionIds: contents.map(({ versionId }) => versionId),
          createdAt: now,
          status: 'pending',
          attempts: isStarted ? 1 : 0,
          underWay: isStarted,
          workerId,
          gzip: isStarted && gzip,
          dueAt: now,
          endReason: null,
          doubtful: false,
          first: { at: isStarted ? now : null, status: null, error: null, maybeArrived: false },
          second: { at: null, status: null, error: null, maybeArrived: false },
        })
        const { receiverKey } = user
        const of = { userId, email, receiverKey, kind, runId, period, gzip }
        if (isStarted) recorded.attempts.push({ attempt: 1, ...of, ...delivery })
      }
    }
    recorded.told = this.noteOutcomes(outcomes)
    return recorded
  }

  /** A user who is there, by the same e-mail, and may be served. */
  private findEligible({ userId, email, kind }: PlannedPush): UserRow | undefined {
    const user = this.state.users.get(userId)
    const isMeant = user?.email === email && (user.subscribed || kind === 'single')
    return isMeant ? user : undefined
  }

  private takeOwed(user: UserRow): boolean {
    if (user.owedAt === null) return false
    user.owedAt = null
    user.begunAt = this.now
    return true
  }

  private claim({ scope, email, kind, deliveries, queriesMark }: PlannedPush): boolean {
    const key = claimKey(scope ?? '', email)
    if (scope === null || this.state.claims.has(key)) return false
    const leads = deliveries.reduce((sum, { leads }) => sum + leads, 0)
    const compared =
      kind === 'weekly' ? { leads, queriesMark: queriesMark ?? null } : { leads: null, queriesMark: null }
    this.state.claims.set(key, { claimedAt: this.now, ...compared })
    return true
  }

  recordOutcomes(run: CountingRun, outcomes: readonly RecordedOutcome[]): RecordedOutcomes {
    const statement = this.count(run)
    const told = this.noteOutcomes(outcomes)
    return { told, statement: told.length > 0 ? statement : null }
  }

  /** An outcome may come late: it is its own attempt's, and a success makes the delivery delivered. */
  private noteOutcomes(outcomes: readonly RecordedOutcome[]): DeliveryState[] {
    const { state } = this
    if (state.erased.length > 0)
      state.erased = state.erased.filter(({ key }) => !outcomes.some(({ idempotencyKey }) => idempotencyKey === key))
    return outcomes.flatMap((outcome) => {
      const { idempotencyKey, attempt, ok, maybeArrived, httpStatus, error, retryDelayMs } = outcome
      const d = this.state.deliveries.get(idempotencyKey)
      if (d === undefined || d.attempts < attempt) return []
      const other = attempt === 1 ? d.second : d.first
      const isLast = d.attempts === attempt
      const goesOn = d.endReason === null || (d.attempts === 2 && d.underWay)
      if (ok || d.status === 'delivered') d.status = 'delivered'
      else if (d.status !== 'pending' || attempt === 2 || !goesOn)
        d.status = maybeArrived || other.maybeArrived ? 'unknown' : 'failed'
      Object.assign(attempt === 1 ? d.first : d.second, { status: httpStatus, error, maybeArrived })
      if (isLast) {
        d.underWay = false
        d.dueAt = this.now + Math.round(retryDelayMs)
      }
      if (attempt === 2) d.endReason = null
      return [stateOf(d)]
    })
  }

  /** Records the next attempt of deliveries that are due: those that a dead process left under way, then second ones, then first ones. */
  recordDue({
    workerIds,
    server,
    runId,
    limit,
    takeover,
    known,
    from,
    only,
    drawn = false,
    gzip = false,
  }: Parameters<AttemptStore['recordDue']>[0]): ReturnType<AttemptStore['recordDue']> extends Promise<infer T>
    ? T
    : never {
    const { is, now } = this
    const workerId = workerIds.at(-1) ?? 0
    if (!is.isLiveOn({ id: workerId, server })) return { attempts: [], next: undefined, statement: null }
    const isToMake = (d: DeliveryRow) => d.endReason === null && !known.includes(d.key) && is.isWanted(d)
    const isAskedFor = (kind: AttemptKind) => only === undefined || only === kind
    const waiting = (kind: AttemptKind) =>
      this.deliveries(
        (d) =>
          isAskedFor(kind) &&
          is.isWaiting(d, nth(kind)) &&
          d.dueAt >= (from?.[kind] ?? Number.NEGATIVE_INFINITY) &&
          d.dueAt <= now &&
          isToMake(d) &&
          is.isForUs(d, workerIds, takeover),
      )
    const lost = this.deliveries(
      (d) => from === undefined && isAskedFor('second') && is.isLost(d, takeover) && isToMake(d),
    )
    const draw = (some: DeliveryRow[]) => {
      const userOf = (d: DeliveryRow) => `${d.period} ${d.userId}`
      const made = this.deliveries((d) => d.attempts > 0 && !d.underWay)
      const [tried, failed] = [made, made.filter((d) => d.status !== 'delivered')].map((of) => new Set(of.map(userOf)))
      const rank = (d: DeliveryRow) =>
        d.attempts > 0 ? 0 : Number(tried?.has(userOf(d))) + Number(failed?.has(userOf(d)))
      return this.shuffle(some, ({ userId }) => userId).sort((a, b) => rank(a) - rank(b) || a.part - b.part)
    }
    const inOrder = (some: DeliveryRow[]) => (drawn ? draw(some) : this.inOrder(some))
    const due = [lost, waiting('second'), waiting('first')].flatMap(inOrder).slice(0, limit)
    const statement = due.length > 0 ? this.count({ runId, server }) : null
    const next = this.lookFrom(due, new Set(lost), from)
    for (const d of due) {
      if (d.underWay) {
        d.first.maybeArrived = true
        d.first.error ??= outcomeLost
        this.takenUnheard.add(d.key)
      }
      d.gzip = d.attempts === 0 ? gzip : d.gzip && d.first.status !== 415
      d.attempts++
      d.underWay = true
      d.workerId = workerId
      d.first.at ??= now
      d.second.at = d.attempts === 2 ? now : null
    }
    return { attempts: due.map((d) => this.toAttempt(d)), next, statement }
  }

  private inOrder(deliveries: readonly DeliveryRow[]): DeliveryRow[] {
    const rank = ({ key }: DeliveryRow) => (this.preferred.has(key) ? 0 : 1)
    return deliveries.toSorted((a, b) => a.dueAt - b.dueAt || rank(a) - rank(b))
  }

  /** Where the next look may begin: a little before what was taken last of each kind. */
  private lookFrom(due: readonly DeliveryRow[], lost: ReadonlySet<DeliveryRow>, from?: DueFrom): DueFrom | undefined {
    if (due.length === 0) return undefined
    const next = { ...(from ?? { first: Number.NEGATIVE_INFINITY, second: Number.NEGATIVE_INFINITY }) }
    for (const d of due) {
      const kind = d.attempts === 0 ? 'first' : 'second'
      if (!lost.has(d)) next[kind] = Math.max(next[kind], d.dueAt - lookBackMs)
    }
    return next
  }

  private toAttempt(d: DeliveryRow): RecordedAttempt {
    const { email = '', receiverKey = '' } = this.state.users.get(d.userId) ?? {}
    const { key: idempotencyKey, runId, userId, kind, period, part, parts, queries, leads, bytes, queryList, gzip } = d
    return {
      idempotencyKey,
      runId,
      userId,
      kind,
      period,
      part,
      parts,
      queries,
      leads,
      bytes,
      queryList,
      gzip,
      attempt: d.attempts as 1 | 2,
      email,
      receiverKey,
      contents: d.versionIds.map((versionId) => ({ versionId })),
    }
  }

  findUnheard(...[{ ids, server }, known]: Parameters<AttemptStore['findUnheard']>): RecordedAttempt[] {
    if (server !== this.state.server) return []
    const isOurs = ({ workerId }: DeliveryRow) => workerId !== null && ids.includes(workerId)
    return this.deliveries((d) => d.status === 'pending' && d.underWay && isOurs(d) && !known.includes(d.key))
      .filter(({ userId }) => this.state.users.has(userId))
      .map((d) => this.toAttempt(d))
  }

  findNextDue({ workerIds, takeover, from, only }: DueLook): number | null {
    const { is, now } = this
    const times = (['first', 'second'] as const).flatMap((kind) =>
      this.deliveries(
        (d) =>
          (only === undefined || only === kind) &&
          is.isWaiting(d, nth(kind)) &&
          d.dueAt >= (from?.[kind] ?? Number.NEGATIVE_INFINITY) &&
          is.isForUs(d, workerIds, takeover),
      ).map(({ dueAt }) => dueAt),
    )
    if (only === 'second' && this.deliveries((d) => is.isLost(d, takeover)).length > 0) times.push(now)
    return times.length > 0 ? Math.min(...times) - now : null
  }

  isAnythingAbandoned(): boolean {
    const { is } = this
    return this.deliveries((d) => d.status === 'pending' && is.isAbandoned(d, 'all')).length > 0
  }

  endAbandoned(of: Parameters<AttemptStore['endAbandoned']>[0] = {}): LedgerDelivery[] {
    const { workerIds = [], takeover = 'all', known = [] } = of
    const { is, state } = this
    const isOurs = (workerId: number | null) => workerId !== null && workerIds.includes(workerId)
    const emailOf = ({ userId }: DeliveryRow) => state.users.get(userId)?.email ?? null
    const tooLate = takeover === 'all' ? this.deliveries((d) => d.status === 'pending' && is.isTooLate(d)) : []
    const told = this.takeErased(workerIds, (key) => !known.includes(key)).map((d) => toLedgerDelivery(d, emailOf(d)))
    const over = this.deliveries((d) => {
      if (d.status !== 'pending' || known.includes(d.key)) return false
      if (!isOurs(d.workerId) && !is.isAbandoned(d, takeover)) return false
      const isGone = !state.users.has(d.userId)
      if (!d.underWay) return isGone || d.endReason !== null || !is.isWanted(d)
      return (d.attempts === 2 || d.endReason !== null || isGone) && !is.isLive(d.workerId)
    })
    const ended = over.map((d) => {
      const isLostSecond = d.underWay && d.attempts === 2
      const why = state.users.has(d.userId) ? 'the user unsubscribed before it was begun' : 'the user was removed'
      d.endReason = isLostSecond ? null : (d.endReason ?? why)
      this.endLost(d)
      d.status = d.first.maybeArrived || d.second.maybeArrived ? 'unknown' : 'failed'
      return toLedgerDelivery(d, emailOf(d))
    })
    for (const d of tooLate) if (d.status === 'pending') state.deliveries.delete(d.key)
    return [...ended, ...told]
  }

  /** Deliveries that an erasure has ended, and which the caller tells. */
  private takeErased(workerIds: readonly number[], is: (key: string) => boolean): DeliveryRow[] {
    const { state } = this
    const taken = state.erased.filter(({ workerId, key }) => workerIds.includes(workerId) && is(key))
    if (taken.length > 0) state.erased = state.erased.filter((it) => !taken.includes(it))
    return taken.flatMap(({ key }) => state.deliveries.get(key) ?? [])
  }

  private takeErasedOf(workerIds: readonly number[], taken: readonly AttemptName[]): LedgerDelivery[] {
    const isOf = (key: string) => taken.some(({ idempotencyKey }) => idempotencyKey === key)
    return this.takeErased(workerIds, isOf).map((d) => toLedgerDelivery(d, null))
  }

  /** Of an attempt under way nobody will record an outcome. */
  private endLost(d: DeliveryRow): void {
    if (!d.underWay) return
    const cell = d.attempts === 2 ? d.second : d.first
    cell.maybeArrived = true
    cell.error ??= outcomeLost
    d.underWay = false
  }

  /** Those of the attempts that are under way, as far as the process has them. */
  private findOurs(workerIds: readonly number[], taken: readonly AttemptName[]): DeliveryRow[] {
    return taken.flatMap(({ idempotencyKey, attempt }) => {
      const d = this.state.deliveries.get(idempotencyKey)
      const isOurs = d?.status === 'pending' && d.underWay && d.workerId !== null && workerIds.includes(d.workerId)
      return d && isOurs && d.attempts === attempt ? [d] : []
    })
  }

  private undo(d: DeliveryRow): void {
    if (d.attempts === 1) d.first.at = null
    d.attempts--
    d.underWay = false
    d.dueAt = this.now
    d.second.at = null
  }

  takeBack(workerIds: readonly number[], taken: readonly AttemptName[], isErased = false): LedgerDelivery[] {
    const ours = this.findOurs(workerIds, taken)
    for (const d of ours) {
      if (d.attempts === 1 && (isErased || d.endReason !== null)) this.makeAnew(d)
      if (d.attempts === 2 && isErased) d.endReason = wasErased
      this.undo(d)
      if (d.endReason !== null) d.status = d.first.maybeArrived ? 'unknown' : 'failed'
    }
    const ended = ours.filter(({ status }) => status !== 'pending').map((d) => toLedgerDelivery(d, null))
    return [...ended, ...this.takeErasedOf(workerIds, taken)]
  }

  /** Without the listings that were erased, under its key. */
  private makeAnew(d: DeliveryRow): void {
    d.versionIds = d.versionIds.filter((id) => this.state.versions.has(id))
    d.leads = d.versionIds.length
    d.bytes = this.bodyBytes(d.queryList, d.versionIds)
    d.endReason = null
  }

  /** The listings of `places`, each in its present version. */
  findListed(places: readonly string[]): Listed[] {
    return this.state.listings
      .filter(({ place }) => places.includes(place))
      .map(({ place, versionId }) => ({
        place,
        versionId,
        json: Buffer.from(this.state.versions.get(versionId) ?? ''),
      }))
  }

  private bodyBytes(queryList: string, versionIds: readonly number[]): number {
    const leadBytes = versionIds.reduce((sum, id) => sum + Buffer.byteLength(this.state.versions.get(id) ?? ''), 0)
    return countBodyBytes(1, Buffer.byteLength(queryList), versionIds.length, leadBytes)
  }

  releaseDeliveries(workerIds: readonly number[], due: 'now' | 'then' = 'now'): LedgerDelivery[] {
    const { is, now, state } = this
    const isOurs = ({ workerId }: DeliveryRow) => workerId !== null && workerIds.includes(workerId)
    return ([2, 1] as const).flatMap((nth) =>
      this.inOrder(this.deliveries((d) => is.isWaiting(d, nth) && isOurs(d) && state.users.has(d.userId))).map((d) => {
        d.workerId = null
        // all are due, in the same order
        if (due === 'now' && d.dueAt > now) d.dueAt = Math.min(now, d.dueAt - retryAfterMsMax)
        return toLedgerDelivery(d, state.users.get(d.userId)?.email ?? null)
      }),
    )
  }

  endFarPauses(): void {
    for (const d of this.state.deliveries.values())
      if (d.status === 'pending' && !d.underWay && d.dueAt > this.now + 2 * retryAfterMsMax) d.dueAt = this.now
  }

  // The receiver's row

  private receiver(url: string): ReceiverRow | undefined {
    return this.state.receivers.get(url)
  }

  readReceiver(url: string, runId: number): Known {
    const { now } = this
    const row = this.receiver(url)
    if (row === undefined) return { trouble: null, pace: { pausedMs: 0, allowedRate: null }, wellMs: null, gzip: null }
    const { trouble, tries, nextAt, secondAt, pausedUntil, wellAt, wellBy, rate, rateAt } = row
    // a time too far ahead comes from a wrong clock
    const until = (time: number | null, max: number) =>
      time !== null && time >= now && time <= now + max ? time - now : 0
    const isRefused = row.refusedGzipAt !== null && row.refusedGzipAt > now - gzipRefusalMs
    const isKnown = rateAt !== null && rateAt >= now - paceDays * dayMs && rateAt <= now
    return {
      trouble: trouble && {
        trouble,
        tries,
        nextMs: until(nextAt, troubleRules[trouble.is].pauseMsMax),
        secondMs: until(
          secondAt && secondAt + troubleRules[trouble.is].secondPauseMs,
          troubleRules[trouble.is].secondPauseMs,
        ),
      },
      pace: { pausedMs: until(pausedUntil, retryAfterMsMax), allowedRate: isKnown ? rate : null },
      wellMs: wellAt !== null && wellBy !== runId && wellAt <= now ? now - wellAt : null,
      gzip: isRefused ? 'refused' : row.takesGzip ? 'takes' : null,
    }
  }

  beginReceiver(url: string, runId: number, isOnlyOne: boolean): Known {
    const { receivers } = this.state
    if (!receivers.has(url)) {
      const none = {
        trouble: null,
        troubleSince: null,
        secondAt: null,
        wellAt: null,
        wellBy: null,
        pausedUntil: null,
        rate: null,
        rateAt: null,
      }
      receivers.set(url, { ...none, tries: 0, nextAt: this.now, takesGzip: false, refusedGzipAt: null })
    }
    if (isOnlyOne)
      for (const [other, row] of receivers)
        if (other !== url && row.trouble !== null) Object.assign(row, { trouble: null, troubleSince: null })
    return this.readReceiver(url, runId)
  }

  tellReceiver(url: string, runId: number, news: ReceiverNews): boolean {
    const row = this.receiver(url)
    const change = row && this.changeOf(row, runId, news)
    if (change) Object.assign(row, change)
    return change !== undefined
  }

  /** Undefined: the row says otherwise by now. */
  private changeOf(row: ReceiverRow, runId: number, news: ReceiverNews): Partial<ReceiverRow> | undefined {
    const { now } = this
    const { trouble, tries, secondAt } = row
    const isOfAnother = (news: ReceiverNews & { says: 'try' | 'taken back' }) =>
      !isAlike(trouble ?? undefined, news.trouble) || tries !== news.tries
    switch (news.says) {
      case 'well':
        return { trouble: null, troubleSince: null }
      case 'trouble': {
        if (isAlike(trouble ?? undefined, news.trouble) || (news.trouble.is === 'asks' && trouble)) return undefined
        const nextAt = now + troubleRules[news.trouble.is].pauseMs(0)
        return { trouble: news.trouble, troubleSince: now, tries: 0, nextAt, secondAt: null }
      }
      case 'try': {
        const { pauseMs, secondPauseMs } = troubleRules[news.trouble.is]
        const isEarly = secondAt !== null && secondAt <= now && secondAt > now - secondPauseMs
        if (isOfAnother(news) || (news.kind === 'second' && isEarly)) return undefined
        const nextAt = now + pauseMs(tries + 1)
        return { tries: tries + 1, nextAt, secondAt: news.kind === 'second' ? now : secondAt }
      }
      case 'taken back':
        if (isOfAnother(news)) return undefined
        return { tries: tries - 1, nextAt: now, secondAt: news.kind === 'second' ? null : secondAt }
      case 'pace': {
        const until = row.pausedUntil !== null && row.pausedUntil <= now + retryAfterMsMax ? row.pausedUntil : 0
        return { pausedUntil: Math.max(now + news.pausedMs, until), rate: news.allowedRate, rateAt: now }
      }
      case 'success': {
        const wellAt = now - news.agoMs
        const isKnown = row.wellAt !== null && row.wellAt <= now && row.wellAt >= wellAt
        return isKnown ? undefined : { wellAt, wellBy: runId }
      }
      case 'gzip': {
        // a refusal outlives what other answers say
        const isRefused = row.refusedGzipAt !== null && row.refusedGzipAt > now - gzipRefusalMs
        return { takesGzip: news.takes && !isRefused, refusedGzipAt: news.takes ? row.refusedGzipAt : now }
      }
    }
  }

  // What others do beside a push

  addUser(user: Omit<UserRow, 'owedAt' | 'begunAt'>): void {
    this.changes++
    this.state.users.set(user.id, { owedAt: null, begunAt: null, ...user })
  }

  removeUser(id: number): void {
    this.changes++
    this.state.users.delete(id)
  }

  setPlaces(id: number, places: readonly string[]): void {
    const user = this.state.users.get(id)
    if (user) user.places = places
  }

  /** Subscribing owes a push, unless the last one began less than a minute ago. */
  subscribe(id: number): { was: boolean; owed: boolean; tooSoon: boolean } {
    const user = this.state.users.get(id)
    if (user === undefined) return { was: false, owed: false, tooSoon: false }
    const was = user.subscribed
    const isRecent = user.begunAt !== null && user.begunAt > this.now - subscriptionPauseMs
    user.subscribed = true
    if (!was && !isRecent) user.owedAt = this.now
    return { was, owed: user.owedAt !== null, tooSoon: !was && isRecent }
  }

  unsubscribe(id: number): void {
    const user = this.state.users.get(id)
    if (user) user.subscribed = false
  }

  addListing(place: string, json: string, versionId = this.nextVersion): number {
    this.state.listings.push({ place, versionId })
    this.state.versions.set(versionId, json)
    this.state.lastVersion = versionId
    return versionId
  }

  private get nextVersion(): number {
    return this.state.lastVersion + 1
  }

  /** Erases a listing. Deliveries that nobody has seen are made anew; others end, with the attempt under way if there is one. */
  erase(versionId: number): { ended: number; underWay: string[] } {
    const { is, state } = this
    state.listings = state.listings.filter((listing) => listing.versionId !== versionId)
    if (!state.versions.delete(versionId)) return { ended: 0, underWay: [] }
    state.erasures++
    const meant = this.deliveries((d) => d.status === 'pending' && d.versionIds.includes(versionId))
    const underWay: string[] = []
    for (const d of meant) {
      if (d.attempts === 0) this.makeAnew(d)
      else if (d.underWay && is.isLive(d.workerId)) {
        d.endReason = wasErased
        underWay.push(d.key)
      } else {
        d.endReason = d.underWay && d.attempts === 2 ? null : wasErased
        this.endLost(d)
        d.status = d.first.maybeArrived || d.second.maybeArrived ? 'unknown' : 'failed'
        const { workerId, key } = d
        if (workerId !== null && state.workers.has(workerId)) state.erased.push({ workerId, key })
      }
    }
    return { ended: meant.filter(({ status }) => status !== 'pending').length, underWay }
  }

  /** Another server takes over, or this one starts anew. */
  failOver(server: string, state = this.state): void {
    this.state = { ...state, server }
  }

  snapshot(): LedgerState {
    return structuredClone(this.state)
  }
}
