/**
 * Everything that a run asks of the database. A run knows the effects of statements, never their SQL, so that a test can run it on a
 * model of the ledger in memory (`test/simulate/`). `database-ledger.ts` binds PostgreSQL to it.
 *
 * Most statements ride out an absence of the database by themselves: a try whose answer was lost is repeated, which is harmless. Those
 * under "one try" throw: the run itself decides what to do between two tries.
 */
import type { Leases, OtherWorker } from '../db/leases.ts'
import type { AttemptKind, DueFrom } from '../deliveries/due.ts'
import type { LedgerDelivery, RecordedAttempt, Takeover } from '../deliveries/ledger.ts'
import type { PlannedPush, RecordedOutcome, RecordedOutcomes, RecordedPushes } from '../deliveries/record.ts'
import type { CountingRun, EndToRecord, OpenRun, Run, RunToStart, VerdictToRecord } from '../deliveries/runs.ts'
import type { LeadInBody, LeadWithJson } from '../leads/lead-store.ts'
import type { Live } from '../matching/listed.ts'
import type { UserPlan } from './database/planner.ts'
import type { Unreached, UsersOfPass } from './database/users-left.ts'
import type { Write } from './receiver/health.ts'
import type { KnownPace } from './receiver/pace.ts'
import type { KnownTrouble, Trouble } from './receiver/trouble.ts'
import type { Week } from './whom/guard.ts'
import type { Cursor, Pass, UserToServe } from './whom/pass.ts'

export interface Ledger extends Leases {
  readonly runs: RunStore
  readonly users: UserStore
  readonly attempts: AttemptStore
  receiver(receiverUrl: string): ReceiverStore
  /** `findServer`: the server that a push reads from, as its worker knows it. `onErasure`: it waits for an erasure. */
  planner(live: Live, findServer: () => string, onErasure: () => void): PlanSource
}

export interface RunStore {
  /** Begins the one run of the process that has `workerIds`. */
  start(run: RunToStart & { workerIds: readonly number[] }): Promise<Run>
  /**
   * Records the end of a run. Returns false, and records nothing, if the run is gone or another server answers than the worker knows:
   * then its records may be gone.
   */
  end(runId: number, server: string, end: EndToRecord): Promise<boolean>
  /** How many statements of the run the database knows; undefined: it does not even know the run. */
  findStatements(runId: number): Promise<number | undefined>
  /** Records that the database lost confirmed records of the run, which began `ageMs` ago, even if its row is gone. */
  recordLoss(run: Run, start: RunToStart, from: { workerId: number; ageMs: number }): Promise<void>
  /** Runs for all users of `period` that left some, the oldest first. */
  findInterrupted(period: string): Promise<OpenRun[]>
  /** Records that another run has finished the work of such runs, except for `heldUsers`. */
  closeInterrupted(runIds: readonly number[], heldUsers: number): Promise<void>
  /** The figures that the guard compares. */
  findWeek(period: string): Promise<Week>
  /** Records the guard's findings, for later weeks. Returns the statement's number. */
  recordVerdict(run: CountingRun, verdict: VerdictToRecord): Promise<number | null>
  /** Whether the guard held the whole of the last run of `period` before `runId` that asked it. */
  wasHeldBefore(period: string, runId: number): Promise<boolean>
  /** Live workers other than ours with a run, a range of users or a delivery. */
  findOthersAtWork(workerIds: readonly number[]): Promise<OtherWorker[]>
}

export interface UserStore {
  /** Counts the users of a pass. Workers in `except` do not count as other processes; `counted` are user ids. */
  countOfPass(pass: Pass, except: readonly number[], counted: readonly number[]): Promise<UsersOfPass>
  /** How many users have a delivery that a live process other than `workerIds` is working on, besides those in its ranges. */
  countElsewhere(passes: readonly Pass[], workerIds: readonly number[]): Promise<number>
  /** Users whose delivery this run, or one that it goes on with, has begun without an attempt. */
  countUnreached(of: Unreached): Promise<{ users: number; uncounted: number }>
  /** The e-mails of subscribed users without queries and without a claim in `scope`. */
  findWithoutQueries(scope: string): AsyncGenerator<string>
  /** Users who are owed a subscription push, the oldest first, in pages; with `untilNone` until a look finds nobody. */
  findOwedSubscription(untilNone: boolean): AsyncGenerator<UserToServe[]>
  /** The ids of those of `users` who no longer exist. */
  findRemoved(users: readonly UserToServe[]): Promise<Set<number>>

  // one try

  /** About `count` users of a pass who are owed it, drawn at random from all of them; none: nobody is. */
  draw(pass: Pass, count: number): Promise<UserToServe[]>
  /**
   * Takes the next range of at most `size` users behind `cursor` for the worker, and returns its users. An empty list: none are left.
   * Undefined: the worker has lost its lease, or another server answers than it knows.
   */
  takeRange(range: {
    worker: { id: number; server: string }
    pass: Pass
    cursor: Cursor | undefined
    size: number
  }): Promise<(UserToServe & Cursor)[] | undefined>
  /** Releases the process's ranges of a pass, except those that begin with one of `kept`. */
  releaseRanges(workerIds: readonly number[], pass: Pass, kept?: readonly Cursor[]): Promise<void>
}

/** The workers whose attempts are looked for. */
export interface DueLook {
  workerIds: readonly number[]
  takeover: Takeover
  from?: DueFrom | undefined
  /** Only attempts of this kind. */
  only?: AttemptKind | undefined
  /** Drawn at random from all that are due, not the earliest. */
  drawn?: boolean
}

/** Deliveries and their attempts: `deliveries/` says what each does. */
export interface AttemptStore {
  isAnythingAbandoned(): Promise<boolean>
  /** Releases the waiting deliveries of a process and yields them: due `now`, or `then`, at their own time. */
  releaseDeliveries(workerIds: readonly number[], due: 'now' | 'then'): AsyncGenerator<LedgerDelivery>
  /** Makes deliveries due now that were put off because a clock was ahead. */
  endFarPauses(): Promise<void>

  // one try

  /**
   * Ends deliveries that get no further attempt. Returns them, and those that an erasure has ended, except `known`: all have to be
   * reported.
   */
  endAbandoned(of: {
    workerIds: readonly number[]
    takeover: Takeover
    known: readonly string[]
  }): Promise<LedgerDelivery[]>
  /**
   * Takes back attempts of which certainly nothing went out; `isErased`: because a listing was erased. Returns the deliveries that
   * ended, now or before: all have to be reported.
   */
  takeBack(
    workerIds: readonly number[],
    attempts: readonly Pick<RecordedAttempt, 'idempotencyKey' | 'attempt'>[],
    isErased?: boolean,
  ): Promise<LedgerDelivery[]>
  /** The milliseconds until the next attempt is due; null if none waits. */
  findNextDue(look: DueLook): Promise<number | null>
  recordPushes<Push extends PlannedPush>(
    by: { workerId: number; server: string; runId: number; period: string; attemptsMax: number; gzip?: boolean },
    pushes: readonly Push[],
    outcomes: readonly RecordedOutcome[],
  ): Promise<RecordedPushes<Push>>
  recordOutcomes(run: CountingRun, outcomes: readonly RecordedOutcome[]): Promise<RecordedOutcomes>
  recordDue(
    look: DueLook & CountingRun & { limit: number; known: readonly string[]; gzip: boolean },
  ): Promise<{ attempts: RecordedAttempt[]; next: DueFrom | undefined; statement: number | null }>
  /** Attempts that the ledger has as this process's and under way, and that are not among `known`. */
  findUnheard(worker: { ids: readonly number[]; server: string }, known: readonly string[]): Promise<RecordedAttempt[]>
}

/** The content of a receiver's row. */
export interface Known {
  /** Null: no trouble of the receiver is known. */
  trouble: KnownTrouble | null
  pace: KnownPace
  /** Whether it takes compressed deliveries, or has refused one lately; null: it has said neither. */
  gzip: 'takes' | 'refused' | null
}

/** What a process finds, for the others. */
export type ReceiverNews =
  | Write
  /** Reserves the try that follows `tries` others of this trouble. */
  | { says: 'try'; trouble: Trouble; tries: number; kind: AttemptKind }
  | ({ says: 'pace' } & KnownPace)
  /** The refusal of any process outlives other answers. */
  | { says: 'gzip'; takes: boolean }

/** The row in which all processes share their knowledge of a receiver (contract 4.12, 4.17), by the database's clock. */
export interface ReceiverStore {
  /** Reads the row for a push that begins. With `isOnlyOne` the trouble of another URL is over: nobody pushes there any more. */
  begin(isOnlyOne: boolean): Promise<Known>
  /** False: the row says otherwise by now, such as that another process has the try. */
  tell(news: ReceiverNews): Promise<boolean>

  // one try

  read(): Promise<Known>
}

/** Plans the pushes of users, by matching and with a cache of what it has read. */
export interface PlanSource {
  /** The plans of `users`, in their order, group by group. Groups are read, and plans are made, on demand. */
  plan(users: readonly UserToServe[], compared: readonly string[]): AsyncGenerator<AsyncIterable<UserPlan>>
  /** The leads of a body in their order, with their JSON; undefined if one of them is gone. */
  readJson(contents: readonly LeadInBody[]): Promise<LeadWithJson[] | undefined>
  /** Drops all data that was read under another count of erasures than `erasures`. */
  forgetErased(erasures: number): Promise<void>
  /** Drops all data. On another server the same ids may mean other leads. */
  forget(): void
}
