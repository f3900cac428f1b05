/** Checks time: this machine's clock against the database's, and the zone in which the week turns. */
import type { ServerFacts } from '../../db/survey.ts'
import { findOtherTimeZone, findPeriod } from '../../deliveries/runs.ts'
import { type Found, note, problem } from '../finding.ts'
import { type Check, type CheckContext, factsOf, openedOf } from './check.ts'

/** A synchronised clock is right to some milliseconds. Receivers of triggers refuse timestamps that are 5 minutes off. */
const aheadMsNote = 1_000
const aheadMsMax = 5 * 60_000

/** `aheadMs`: how far the database's clock is ahead of this machine's; `aheadErrorMs`: how far that measurement may be off. */
export function judgeClock({ aheadMs, aheadErrorMs }: Pick<ServerFacts, 'aheadMs' | 'aheadErrorMs'>): Found[] {
  const seconds = `${(Math.abs(aheadMs) / 1_000).toFixed(Math.abs(aheadMs) < 10_000 ? 3 : 0)} s`
  const what = `This machine's clock is ${seconds} ${aheadMs > 0 ? 'behind' : 'ahead of'} the database's`
  const toDo = 'Turn time synchronisation on (systemd-timesyncd, chrony) on both machines.'
  const surelyMs = Math.abs(aheadMs) - aheadErrorMs
  if (surelyMs > aheadMsMax) {
    const consequence = 'receivers of triggers refuse its timestamps, and certificates seem expired or not yet valid'
    return [problem(`${what}: ${consequence}`, toDo)]
  }
  return surelyMs > aheadMsNote ? [note(what, toDo)] : []
}

async function checkTimeZone(context: CheckContext): Promise<Found[]> {
  const { settings, wrong } = context.inspection
  const { timeZone, maxLeadAgeMs = 0 } = settings
  if (wrong.has('timeZone') || timeZone === undefined) return []
  const { db } = openedOf(context)
  // throws if PostgreSQL does not know the zone
  await findPeriod(db, { timeZone, maxLeadAgeMs })
  const other = context.noTables === undefined ? await findOtherTimeZone(db, timeZone) : undefined
  if (other === undefined) return []
  const what = `is ${timeZone}, and the last run used ${other}: weeks overlap where machines differ, and a weekly push is held`
  const toDo = 'Give all machines that share a database the same time zone.'
  return [{ ...note(what, toDo, 'LEADPUSH_TIME_ZONE'), where: 'settings' }]
}

export const clockChecks: readonly Check[] = [
  { code: 'clock', title: 'clock', needs: 'database', run: (context) => judgeClock(factsOf(context)) },
  { code: 'time-zone', title: 'time zone', needs: 'database', run: checkTimeZone },
]
