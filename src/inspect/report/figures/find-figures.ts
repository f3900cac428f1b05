/** Finds everything that a report shows, as plain data: one statement for each figure, however many users and leads there are. */
import type { Database } from '../../../db/open.ts'
import { findPeriod } from '../../../deliveries/runs.ts'
import { type Alarm, findAlarms } from '../../status/alarms.ts'
import { findLastRuns, findStatus, type RunReport, type Status } from '../../status/status.ts'
import { type FeedDay, findFeedDays } from './feed.ts'
import { findWhereAll, type WhereAll } from './places.ts'
import { findLedger, findMoment, readSnapshot, type Snapshot } from './reading.ts'
import { findSent, type Latency } from './sent.ts'
import { type CauseShown, type Cut, findCauses, findHooks, findUsersInTrouble, type UserInTrouble } from './troubles.ts'
import { buildWeeks, findEnded, type Week } from './weeks.ts'

/** The content of a report. */
export interface Figures {
  madeAt: Date
  status: Status
  /** What somebody should look at. */
  alarms: Alarm[]
  /** Subscribed users without a query, who get nothing. */
  withoutQueries: number
  runs: RunReport[]
  weeks: Week[]
  latency: Latency
  /** Whether leads, bytes, times and latency come from a part of the ledger. */
  isSampled: boolean
  causes: CauseShown[]
  users: Cut<UserInTrouble>
  hooks: Awaited<ReturnType<typeof findHooks>>
  days: FeedDay[]
  where: WhereAll
}

const runsShown = 12
/** This week and the one before: what can still be mended. */
const weeksOfTrouble = 2

export interface ReportSettings {
  timeZone: string
  maxLeadAgeMs: number
  feedMaxAgeMs: number | undefined
  keepAnswers: 'on' | 'off'
  /** A larger ledger is sampled. */
  ledgerBytesMax?: number
}

/** Throws `usage` for a time zone that the database does not know. */
export async function findFigures(db: Database, settings: ReportSettings): Promise<Figures> {
  // comes first, so that an unknown time zone is reported as such
  await findPeriod(db, settings)
  const status = await findStatus(db, settings)
  const [alarms, runs, found] = await Promise.all([
    findAlarms(db, status, settings),
    findLastRuns(db, runsShown),
    readSnapshot(db, (snapshot) => readFigures(snapshot, settings, status)),
  ])
  return { status, alarms, runs, ...found }
}

async function readFigures(snapshot: Snapshot, settings: ReportSettings, { owed, period }: Status) {
  const ledger = await findLedger(snapshot, settings.ledgerBytesMax)
  const ended = await findEnded(snapshot, settings.timeZone, owed === 0 ? period : undefined)
  const periods = ended.map(({ period }) => period)
  const { amounts, latency } = await findSent(snapshot, ledger, periods[0] ?? '')
  const troubled = periods.slice(-weeksOfTrouble)
  return {
    ...(await findMoment(snapshot)),
    weeks: buildWeeks(ended, amounts, ledger.share),
    latency,
    isSampled: ledger.share < 1,
    causes: await findCauses(snapshot, troubled, settings.keepAnswers),
    users: await findUsersInTrouble(snapshot, troubled, settings.keepAnswers),
    hooks: await findHooks(snapshot, settings.keepAnswers),
    days: await findFeedDays(snapshot, settings.timeZone),
    where: await findWhereAll(snapshot),
  }
}
