/** Finds everything that a report shows, as plain data: what `status` shows, and the last weeks and days beside it. */
import type { Database } from '../../../db/open.ts'
import type { Finding } from '../../finding.ts'
import { findAlarms } from '../../status/alarms.ts'
import type { HookInTrouble } from '../../status/hooks-in-trouble.ts'
import { findEnded, type NotDelivered } from '../../status/not-delivered.ts'
import { findLastRuns, findStatus, findTroubledHooks, type RunReport, type Status } from '../../status/status.ts'
import { type FeedDay, findFeedDays } from './feed.ts'
import { findWeeks, type ReportedWeek } from './weeks.ts'

/** The content of a report. */
export interface Figures {
  madeAt: Date
  status: Status
  /** The findings. */
  alarms: Finding[]
  runs: RunReport[]
  weeks: ReportedWeek[]
  /** Why deliveries of the period did not arrive. */
  causes: NotDelivered[]
  hooks: HookInTrouble[]
  days: FeedDay[]
}

const runsShown = 12
const hooksShown = 100

export interface ReportSettings {
  timeZone: string
  maxLeadAgeMs: number
  feedMaxAgeMs: number | undefined
  keepAnswers: 'on' | 'off'
}

/** Throws `usage` for a time zone that the database does not know. */
export async function findFigures(db: Database, settings: ReportSettings): Promise<Figures> {
  const { timeZone, keepAnswers } = settings
  const status = await findStatus(db, settings)
  const [alarms, runs, weeks, causes, hooks, days] = await Promise.all([
    findAlarms(db, status, settings),
    findLastRuns(db, runsShown),
    findWeeks(db, timeZone, status),
    findEnded(db, status.period, keepAnswers),
    findTroubledHooks(db, keepAnswers, hooksShown),
    findFeedDays(db, timeZone),
  ])
  return { madeAt: new Date(), status, alarms, runs, weeks, causes, hooks, days }
}
