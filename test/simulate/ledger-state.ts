/**
 * What the ledger's tables hold, as values, and what their rows mean: the counterpart of `sql/` and of the conditions that statements
 * share. Times are milliseconds of the database's clock.
 */
import type { DeliveryKind, DeliveryState, LedgerDelivery, Takeover } from '../../src/deliveries/ledger.ts'
import type { RunCommand, RunOutcome } from '../../src/deliveries/runs.ts'
import type { Trouble } from '../../src/push/receiver/trouble.ts'
import type { Pass } from '../../src/push/whom/pass.ts'
import { weeklyScope } from '../../src/push/whom/pass.ts'

export interface UserRow {
  id: number
  email: string
  receiverKey: string
  homeKey: string
  subscribed: boolean
  /** The places of the user's queries. */
  places: readonly string[]
  owedAt: number | null
  begunAt: number | null
}

export interface WorkerRow {
  id: number
  leaseUntil: number
  renewedAt: number
}

export interface RunRow {
  id: number
  command: RunCommand
  period: string
  timeZone: string
  workerId: number
  resumable: boolean
  startedAt: number
  endedAt: number | null
  outcome: RunOutcome
  statements: number
  cameToEnd: boolean
  listings: number | null
  filledFields: number | null
  held: string | null
  accepted: boolean
  heldUsers: number
  heldByAnswers: string | null
}

/** One of the two attempts of a delivery. */
export interface AttemptCell {
  at: number | null
  status: number | null
  error: string | null
  maybeArrived: boolean
}

export interface DeliveryRow {
  key: string
  runId: number
  userId: number
  kind: DeliveryKind
  period: string
  part: number
  parts: number
  queries: number
  leads: number
  bytes: number
  queryList: string
  versionIds: readonly number[]
  createdAt: number
  status: DeliveryState['status']
  attempts: number
  underWay: boolean
  workerId: number | null
  gzip: boolean
  dueAt: number
  first: AttemptCell
  second: AttemptCell
  endReason: string | null
  doubtful: boolean
}

export interface RangeRow {
  workerId: number
  scope: string
  first: Place
  last: Place
}

export interface Place {
  homeKey: string
  id: number
}

export interface ReceiverRow {
  trouble: Trouble | null
  troubleSince: number | null
  tries: number
  nextAt: number
  secondAt: number | null
  wellAt: number | null
  wellBy: number | null
  pausedUntil: number | null
  rate: number | null
  rateAt: number | null
  takesGzip: boolean
  refusedGzipAt: number | null
}

export interface LedgerState {
  /** Which server answers: it changes with every start, and where another one takes over. */
  server: string
  erasures: number
  lastId: number
  lastVersion: number
  /** The current version of each listing, by its place. */
  listings: { place: string; versionId: number }[]
  /** The JSON of each version that is not erased. */
  versions: Map<number, string>
  users: Map<number, UserRow>
  workers: Map<number, WorkerRow>
  runs: Map<number, RunRow>
  /** By scope and e-mail. */
  claims: Map<string, { claimedAt: number; leads: number | null; queriesMark: number | null }>
  deliveries: Map<string, DeliveryRow>
  /** By their periods. */
  forcedScopes: Map<string, { runId: number; isOver: boolean }>
  ranges: RangeRow[]
  /** Deliveries that an erasure has ended, and which their worker tells. */
  erased: { workerId: number; key: string }[]
  /** By their URLs. */
  receivers: Map<string, ReceiverRow>
}

export const newState = (server: string): LedgerState => ({
  server,
  erasures: 1,
  lastId: 0,
  lastVersion: 0,
  listings: [],
  versions: new Map(),
  users: new Map(),
  workers: new Map(),
  runs: new Map(),
  claims: new Map(),
  deliveries: new Map(),
  forcedScopes: new Map(),
  ranges: [],
  erased: [],
  receivers: new Map(),
})

const hourMs = 3_600_000
const dayMs = 24 * hourMs
/** The time zones that the model knows have no summer time. */
const offsetHours: Readonly<Record<string, number>> = { UTC: 0, 'Asia/Tokyo': 9, 'Pacific/Honolulu': -10 }

export function periodAt(now: number, timeZone: string): string {
  const local = now + (offsetHours[timeZone] ?? 0) * hourMs
  // the week belongs to the year of its Thursday; the first day of 1970 was one
  const thursday = Math.floor(local / dayMs / 7 + 3 / 7) * 7 * dayMs
  const year = new Date(thursday).getUTCFullYear()
  const week = Math.floor((thursday - Date.UTC(year, 0, 1)) / dayMs / 7) + 1
  return `${year}-W${String(week).padStart(2, '0')}`
}

/** The earliest time at which the period can begin, in any time zone. */
export function periodBegins(period: string): number {
  const [year, week] = period.split('-W').map(Number) as [number, number]
  const fourth = Date.UTC(year, 0, 4)
  const monday = fourth - ((new Date(fourth).getUTCDay() + 6) % 7) * dayMs + (week - 1) * 7 * dayMs
  return monday - dayMs
}

export const claimKey = (scope: string, email: string) => `${scope} ${email}`
export const comparePlaces = (a: Place, b: Place) =>
  a.homeKey === b.homeKey ? a.id - b.id : a.homeKey < b.homeKey ? -1 : 1

/** The conditions, at one moment. */
export class Conditions {
  readonly state: LedgerState
  readonly now: number

  constructor(state: LedgerState, now: number) {
    this.state = state
    this.now = now
  }

  /** A lease that was renewed in the future counts as over. */
  leaseEnd({ leaseUntil, renewedAt }: WorkerRow): number {
    return renewedAt > this.now + 1_000 ? Number.NEGATIVE_INFINITY : leaseUntil
  }

  isLive(workerId: number | null): boolean {
    const worker = workerId === null ? undefined : this.state.workers.get(workerId)
    return worker !== undefined && this.leaseEnd(worker) > this.now
  }

  /** Whether the worker holds its lease, on the server that it knows. */
  isLiveOn({ id, server }: { id: number; server: string }): boolean {
    return server === this.state.server && this.isLive(id)
  }

  isAbandoned({ workerId, kind, userId }: DeliveryRow, takeover: Takeover): boolean {
    if (takeover === 'own' || this.isLive(workerId)) return false
    if (takeover === 'all') return true
    return kind === 'subscription' && (takeover === 'subscriptions' || userId === takeover.subscriptionOf)
  }

  /** Nothing of its push was ever sent, and its period is over. */
  isTooLate(d: DeliveryRow): boolean {
    const run = this.state.runs.get(d.runId)
    if (d.attempts > 0 || (d.kind !== 'weekly' && d.kind !== 'forced') || this.isLive(d.workerId)) return false
    if (run === undefined || d.period === periodAt(this.now, run.timeZone)) return false
    const isOfPush = (e: DeliveryRow) => e.runId === d.runId && e.userId === d.userId && e.kind === d.kind
    return !this.some((e) => isOfPush(e) && e.attempts > 0)
  }

  /** A user who unsubscribed still gets deliveries that had an attempt, and those of `--user`. */
  isWanted({ userId, attempts, kind }: DeliveryRow): boolean {
    const user = this.state.users.get(userId)
    return user !== undefined && (user.subscribed || attempts > 0 || kind === 'single')
  }

  isWaiting({ status, underWay, attempts }: DeliveryRow, nth: 1 | 2): boolean {
    return status === 'pending' && !underWay && attempts === nth - 1
  }

  isForUs(d: DeliveryRow, workerIds: readonly number[], takeover: Takeover): boolean {
    const isOurs = d.workerId !== null && workerIds.includes(d.workerId)
    return isOurs || (this.isAbandoned(d, takeover) && !this.isTooLate(d))
  }

  /** A dead process left the first attempt under way. */
  isLost(d: DeliveryRow, takeover: Takeover): boolean {
    return d.status === 'pending' && d.underWay && d.attempts === 1 && this.isAbandoned(d, takeover)
  }

  isClaimed(scope: string, { email }: UserRow): boolean {
    return this.state.claims.has(claimKey(scope, email))
  }

  isOwedSubscription({ subscribed, owedAt, places }: UserRow): boolean {
    return subscribed && owedAt !== null && places.length > 0
  }

  private isTheLastWord(d: DeliveryRow): boolean {
    return !this.some(
      (e) =>
        e.userId === d.userId &&
        e.createdAt > d.createdAt &&
        (e.status === 'pending' || (e.status === 'delivered' && !e.doubtful)),
    )
  }

  isMeant({ meant, period }: Pass, user: UserRow): boolean {
    switch (meant.who) {
      case 'everybody':
        return true
      case 'served': {
        const run = meant.before === undefined ? undefined : this.state.runs.get(meant.before)
        const beginning = run?.startedAt ?? this.now
        const claim = this.state.claims.get(claimKey(weeklyScope(period), user.email))
        return claim !== undefined && claim.claimedAt < beginning
      }
      case 'failed':
        return this.some(
          (d) =>
            d.userId === user.id &&
            d.period === period &&
            ((meant.ends as readonly string[]).includes(d.status) || (d.doubtful && meant.ends.includes('doubtful'))) &&
            d.createdAt >= periodBegins(period) &&
            this.isTheLastWord(d),
        )
    }
  }

  /** Whether the pass has the user to serve yet. */
  isOwedBy(pass: Pass, user: UserRow): boolean {
    return user.subscribed && user.places.length > 0 && !this.isClaimed(pass.scope, user) && this.isMeant(pass, user)
  }

  /** Whether the user lies in a range that a live process other than `except` has. */
  isInRangeOfAnother(scope: string, user: UserRow, except: readonly number[]): boolean {
    return this.state.ranges.some(
      (range) =>
        range.scope === scope &&
        !except.includes(range.workerId) &&
        this.isLive(range.workerId) &&
        comparePlaces(range.first, user) <= 0 &&
        comparePlaces(user, range.last) <= 0,
    )
  }

  private some(is: (delivery: DeliveryRow) => boolean): boolean {
    for (const delivery of this.state.deliveries.values()) if (is(delivery)) return true
    return false
  }
}

/** What is reported of a delivery. */
export function stateOf(d: DeliveryRow): DeliveryState {
  const isOfSecond =
    d.attempts === 2 && (d.status !== 'delivered' || (d.second.status !== null && isSuccess(d.second.status)))
  const error = d.status === 'delivered' ? null : (d.endReason ?? d.second.error ?? d.first.error)
  const httpStatus = isOfSecond ? d.second.status : d.first.status
  return { idempotencyKey: d.key, status: d.status, attempts: d.attempts, httpStatus, error }
}

const isSuccess = (status: number) => status >= 200 && status <= 299

export function toLedgerDelivery(d: DeliveryRow, email: string | null): LedgerDelivery {
  const { runId, userId, kind, period, part, parts, queries, leads, bytes } = d
  return { runId, userId, kind, period, part, parts, queries, leads, bytes, email, ...stateOf(d) }
}
