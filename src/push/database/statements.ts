/** The statements of a run, by the names under which it asks for them. */
import type { Database } from '../../db/open.ts'
import {
  endFarPauses,
  findNextDue,
  findRecordedUnheard,
  recordDueAttempts,
  releaseDeliveries,
} from '../../deliveries/due.ts'
import { endAbandoned, isAnythingAbandoned, takeBack } from '../../deliveries/ledger.ts'
import { recordOutcomes, recordPushes } from '../../deliveries/record.ts'
import {
  closeInterruptedRuns,
  endRun,
  findInterruptedRuns,
  findOthersAtWork,
  findStatements,
  recordLoss,
  recordVerdict,
  startRun,
  wasHeldBefore,
} from '../../deliveries/runs.ts'
import { findWeek } from './find-week.ts'
import { countUnreached, countUsersElsewhere, countUsersOfPass } from './users-left.ts'
import {
  drawUsers,
  findRemoved,
  findUsersOwedSubscription,
  findUsersWithoutQueries,
  releaseRanges,
  takeRange,
} from './users-to-serve.ts'

/** Functions as they are on one database. */
export type Bound<Of> = {
  [name in keyof Of]: Of[name] extends (db: Database, ...rest: infer Rest) => infer Result
    ? (...rest: Rest) => Result
    : never
}

export const bind = <Of extends Record<string, (db: Database, ...rest: never[]) => unknown>>(db: Database, of: Of) =>
  Object.fromEntries(
    Object.entries(of).map(([name, statement]) => [name, (...rest: never[]) => statement(db, ...rest)]),
  ) as Bound<Of>

export const runStatements = {
  start: startRun,
  end: endRun,
  findStatements,
  recordLoss,
  findInterrupted: findInterruptedRuns,
  closeInterrupted: closeInterruptedRuns,
  findWeek,
  recordVerdict,
  wasHeldBefore,
  findOthersAtWork,
}

export const userStatements = {
  countOfPass: countUsersOfPass,
  countElsewhere: countUsersElsewhere,
  countUnreached,
  findWithoutQueries: findUsersWithoutQueries,
  findOwedSubscription: findUsersOwedSubscription,
  findRemoved,
  draw: drawUsers,
  takeRange,
  releaseRanges,
}

export const attemptStatements = {
  isAnythingAbandoned,
  endAbandoned,
  takeBack,
  releaseDeliveries,
  findNextDue,
  endFarPauses,
  recordPushes,
  recordOutcomes,
  recordDue: recordDueAttempts,
  findUnheard: findRecordedUnheard,
}
