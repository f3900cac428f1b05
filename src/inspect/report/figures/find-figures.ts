/**
 * Finds everything that a report shows, as plain data: one statement for each figure, however many users and leads there are. Figures
 * that take long are read beside each other, each from a state of the database of its own.
 */

import type { Database } from '../../../db/open.ts'
import { findPeriod } from '../../../deliveries/runs.ts'
import type { Finding } from '../../finding.ts'
import { findAlarms } from '../../status/alarms.ts'
import { countMissed, findDoubtful } from '../../status/missed.ts'
import type { NotDelivered } from '../../status/not-delivered.ts'
import { findLastRuns, findStatus, type RunReport, type Status } from '../../status/status.ts'
import { type FeedDay, findFeedDays } from './feed.ts'
import { findPlaces, type Places } from './places.ts'
import { findLedger, findMoment, readSnapshot, type Snapshot } from './reading.ts'
import { type Cut, findCauses, findHooks, findUsersInTrouble, type UserInTrouble } from './troubles.ts'
import { buildWeeks, findAmounts, findEnds, showEnded, type Week } from './weeks.ts'

/** The content of a report. */
export interface Figures {
  madeAt: Date
  status: Status
  /** The findings. */
  alarms: Finding[]
  /** Subscribed users without a query, who get nothing. */
  withoutQueries: number
  runs: RunReport[]
  weeks: Week[]
  /** Whether leads and bytes were counted in a part of the ledger. */
  isSampled: boolean
  causes: NotDelivered[]
  users: Cut<UserInTrouble>
  hooks: Awaited<ReturnType<typeof findHooks>>
  days: FeedDay[]
  places: Places
}

const runsShown = 12
/** This week and the one before: their failed deliveries can still be mended. */
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
  const [status, ends] = await Promise.all([
    findStatus(db, settings),
    readSnapshot(db, (snapshot) => findEnds(snapshot, settings.timeZone)),
  ])
  const periods = ends.map(({ period }) => period)
  const doubtful = await findDoubtful(db, periods, status.owed === 0 ? status.period : undefined)
  const missing = readSnapshot(db, (snapshot) => countMissed(snapshot, doubtful))
  // the ledger is read from the first week on; users who were missed are counted first only if that week may have some
  const [least, most] = [showEnded(ends, new Map()), showEnded(ends, new Map(doubtful.map((period) => [period, 1])))]
  const shown = least.length === most.length ? least : showEnded(ends, await missing)
  const [missed, alarms, runs, { ledger, amounts }, others] = await Promise.all([
    missing,
    findAlarms(db, status, settings),
    findLastRuns(db, runsShown),
    readSnapshot(db, (snapshot) => readLedger(snapshot, settings, shown[0]?.period ?? '')),
    readSnapshot(db, (snapshot) => readOthers(snapshot, settings, periods.slice(-weeksOfTrouble))),
  ])
  const weeks = buildWeeks(showEnded(ends, missed), amounts, ledger.share)
  return { ...others, status, alarms, runs, weeks, isSampled: ledger.share < 1 }
}

async function readLedger(snapshot: Snapshot, { ledgerBytesMax }: ReportSettings, since: string) {
  const ledger = await findLedger(snapshot, ledgerBytesMax)
  return { ledger, amounts: await findAmounts(snapshot, ledger, since) }
}

async function readOthers(snapshot: Snapshot, { timeZone, keepAnswers }: ReportSettings, troubled: readonly string[]) {
  return {
    ...(await findMoment(snapshot)),
    causes: await findCauses(snapshot, troubled, keepAnswers),
    users: await findUsersInTrouble(snapshot, troubled, keepAnswers),
    hooks: await findHooks(snapshot, keepAnswers),
    days: await findFeedDays(snapshot, timeZone),
    places: await findPlaces(snapshot),
  }
}
