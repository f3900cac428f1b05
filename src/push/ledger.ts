/**
 * Everything that a run asks of the database. A run knows the effects of statements, never their SQL, so that a test can run it on a
 * model of the ledger in memory (`test/simulate/`). `database/statements.ts` names them.
 */
import type { Leases } from '../db/leases.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import type { Live } from '../matching/listed.ts'
import type { Planner } from './database/planner.ts'
import type { attemptStatements, Bound, runStatements, userStatements } from './database/statements.ts'
import type { Write } from './receiver/health.ts'
import type { KnownPace } from './receiver/pace.ts'
import type { KnownTrouble, Trouble } from './receiver/trouble.ts'

export interface Ledger extends Leases {
  readonly runs: RunStore
  readonly users: UserStore
  readonly attempts: AttemptStore
  receiver(receiverUrl: string, runId: number): ReceiverStore
  /** `findServer`: the server that a push reads from, as its worker knows it. `onErasure`: it waits for an erasure. */
  planner(live: Live, findServer: () => string, onErasure: () => void): PlanSource
}

/** Statements on the rows of runs. */
export type RunStore = Bound<typeof runStatements>
/** Statements that find, count and share users. */
export type UserStore = Bound<typeof userStatements>
/** Deliveries and their attempts. */
export type AttemptStore = Bound<typeof attemptStatements>

/** The content of a receiver's row. */
export interface Known {
  /** Null: no trouble of the receiver is known. */
  trouble: KnownTrouble | null
  pace: KnownPace
  /** How long ago the last success was that a run has told of, if it was another run; else null. */
  wellMs: number | null
  /** Whether it takes compressed deliveries, or has refused one lately; null: it has said neither. */
  gzip: 'takes' | 'refused' | null
}

/** What a process finds, for the others. */
export type ReceiverNews =
  | Write
  /** Reserves the try that follows `tries` others of this trouble. */
  | { says: 'try'; trouble: Trouble; tries: number; kind: AttemptKind }
  | ({ says: 'pace' } & KnownPace)
  /** This run had one so long ago. */
  | { says: 'success'; agoMs: number }
  /** The refusal of any process outlives other answers. */
  | { says: 'gzip'; takes: boolean }

/** The row in which all processes share their knowledge of a receiver (contract 4.12, 4.17), by the database's clock. */
export interface ReceiverStore {
  /** Reads the row for a push that begins. With `isOnlyOne` the trouble of another URL is over: nobody pushes there any more. */
  begin(isOnlyOne: boolean): Promise<Known>
  /** False: the row says otherwise by now, such as that another process has the try. */
  tell(news: ReceiverNews): Promise<boolean>
  read(): Promise<Known>
}

/** Plans the pushes of users, by matching and with a cache of what it has read. */
export type PlanSource = Pick<Planner, 'planGroups' | 'readJson' | 'forgetErased' | 'forget'>
