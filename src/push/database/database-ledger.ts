/** The ledger of a run on PostgreSQL. */
import { rideOut } from '../../db/away.ts'
import { databaseLeases } from '../../db/leases.ts'
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
import type { AttemptStore, Ledger, PlanSource, RunStore, UserStore } from '../ledger.ts'
import { findWeek } from './find-week.ts'
import { Planner } from './planner.ts'
import { databaseReceiver } from './receivers.ts'
import { countUnreached, countUsersElsewhere, countUsersOfPass } from './users-left.ts'
import {
  drawUsers,
  findRemoved,
  findUsersOwedSubscription,
  findUsersWithoutQueries,
  releaseRanges,
  takeRange,
} from './users-to-serve.ts'

export const databaseLedger = (db: Database): Ledger => ({
  ...databaseLeases(db),
  runs: runsOf(db),
  users: usersOf(db),
  attempts: attemptsOf(db),
  receiver: (receiverUrl) => databaseReceiver(db, receiverUrl),
  planner: (...of) => planSourceOf(new Planner(db, ...of)),
})

const runsOf = (db: Database): RunStore => ({
  start: (run) => startRun(db, run),
  end: (runId, server, end) => endRun(db, runId, server, end),
  findStatements: (runId) => findStatements(db, runId),
  recordLoss: (run, start, from) => recordLoss(db, run, start, from),
  findInterrupted: (period) => findInterruptedRuns(db, period),
  closeInterrupted: (runIds, heldUsers) => closeInterruptedRuns(db, runIds, heldUsers),
  findWeek: (period) => findWeek(db, period),
  recordVerdict: (run, verdict) => recordVerdict(db, run, verdict),
  wasHeldBefore: (period, runId) => wasHeldBefore(db, period, runId),
  findOthersAtWork: (workerIds) => rideOut(() => findOthersAtWork(db, workerIds)),
})

const usersOf = (db: Database): UserStore => ({
  countOfPass: (pass, except, counted) => countUsersOfPass(db, pass, except, counted),
  countElsewhere: (passes, workerIds) => countUsersElsewhere(db, passes, workerIds),
  countUnreached: (of) => countUnreached(db, of),
  findWithoutQueries: (scope) => findUsersWithoutQueries(db, scope),
  findOwedSubscription: (untilNone) => findUsersOwedSubscription(db, untilNone),
  findRemoved: (users) => rideOut(() => findRemoved(db, users)),
  draw: (pass, count) => rideOut(() => drawUsers(db, pass, count)),
  takeRange: (range) => takeRange(db, range),
  releaseRanges: (workerIds, pass, kept) => releaseRanges(db, workerIds, pass, kept),
})

const attemptsOf = (db: Database): AttemptStore => ({
  isAnythingAbandoned: () => rideOut(() => isAnythingAbandoned(db)),
  endAbandoned: (of) => endAbandoned(db, of),
  takeBack: (...of) => takeBack(db, ...of),
  releaseDeliveries: (workerIds, due) => releaseDeliveries(db, workerIds, due),
  findNextDue: (look) => findNextDue(db, look),
  endFarPauses: () => rideOut(() => endFarPauses(db)),
  recordPushes: (by, pushes, outcomes) => recordPushes(db, by, pushes, outcomes),
  recordOutcomes: (run, outcomes) => recordOutcomes(db, run, outcomes),
  recordDue: (look) => recordDueAttempts(db, look),
  findUnheard: (worker, known) => findRecordedUnheard(db, worker, known),
})

const planSourceOf = (planner: Planner): PlanSource => ({
  async *plan(users, compared) {
    for await (const group of planner.read(users, compared)) yield planner.planGroup(group)
  },
  readJson: (contents) => rideOut(() => planner.leads.readJson(contents)),
  forgetErased: (erasures) => planner.forgetErased(erasures),
  forget: () => planner.forget(),
})
