/** Checks time: this machine's clock against the database's, and the zone in which the week turns. */
import type { OpenDatabase } from '../../db/open.ts'
import type { ServerFacts } from '../../db/survey.ts'
import { findOtherTimeZone, findPeriod } from '../../deliveries/runs.ts'
import { findSettingProblems } from '../validate/settings.ts'
import { type Check, type CheckContext, failure, judge, skipped, type Verdict, warning } from './check.ts'

/** A synchronised clock is right to some milliseconds. Receivers of triggers refuse timestamps that are 5 minutes off. */
const aheadMsWarn = 1_000
const aheadMsMax = 5 * 60_000

/** `aheadMs`: how far the database's clock is ahead of this machine's; `aheadErrorMs`: how far that measurement may be off. */
export function judgeClock({ aheadMs, aheadErrorMs }: Pick<ServerFacts, 'aheadMs' | 'aheadErrorMs'>): Verdict {
  const seconds = `${(Math.abs(aheadMs) / 1_000).toFixed(Math.abs(aheadMs) < 10_000 ? 3 : 0)} s`
  const message = `This machine's clock is ${seconds} ${aheadMs > 0 ? 'behind' : 'ahead of'} the database's.`
  const remedy = 'Turn time synchronisation on (systemd-timesyncd, chrony) on both machines.'
  const surelyMs = Math.abs(aheadMs) - aheadErrorMs
  if (surelyMs > aheadMsMax) {
    const consequence = 'Receivers of triggers refuse its timestamps, and certificates seem expired or not yet valid.'
    return judge('', [failure(`${message} ${consequence}`, remedy)])
  }
  return judge(`${seconds} from the database's`, surelyMs > aheadMsWarn ? [warning(message, remedy)] : [])
}

async function checkTimeZone(context: CheckContext): Promise<Verdict> {
  const { settings, wrong } = context.inspection
  const { timeZone, maxLeadAgeMs } = settings
  if (wrong.has('timeZone') || timeZone === undefined) return skipped('LEADPUSH_TIME_ZONE is wrong')
  const { db } = context.opened as OpenDatabase
  // throws where PostgreSQL does not know the zone
  const { period } = await findPeriod(db, { timeZone, maxLeadAgeMs: maxLeadAgeMs ?? 0 })
  if (context.noTables !== undefined) return judge(`${timeZone}: it is ${period}`, [])
  const otherTimeZone = await findOtherTimeZone(db, timeZone)
  const problems = findSettingProblems({ receiverUrl: '', allowInsecureHooks: undefined, timeZone }, otherTimeZone)
  return judge(
    `${timeZone}: it is ${period}`,
    problems.map(({ path, message, hint = '' }) => warning(`${path} ${message}.`, hint)),
  )
}

export const clockChecks: readonly Check[] = [
  { name: 'clock', title: 'Clock', needs: 'database', run: async ({ facts }) => judgeClock(facts as ServerFacts) },
  { name: 'time-zone', title: 'Time zone', needs: 'database', run: checkTimeZone },
]
