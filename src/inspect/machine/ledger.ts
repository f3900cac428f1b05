/** Checks the records of past pushes: work left undone, and whether the tables are kept in order. */
import { sql } from 'kysely'
import { bytes as formatBytes, plural } from '../../base/amounts.ts'
import { isLive } from '../../db/leases.ts'
import type { Database, OpenDatabase } from '../../db/open.ts'
import { findUpkeep, type ServerFacts, type Upkeep } from '../../db/survey.ts'
import { findInterruptedRuns } from '../../deliveries/runs.ts'
import { findAlarms } from '../status/alarms.ts'
import { findStatus } from '../status/status.ts'
import { type Check, type CheckContext, failure, judge, skipped, type Trouble, type Verdict, warning } from './check.ts'

/** By then an hourly `push --resume` should have made the attempt. */
const overdueHours = 2

interface LeftBehind {
  /** Deliveries whose attempt is long overdue. */
  overdue: number
  /** Deliveries that the last whole push found, or made itself, and left with an attempt to come. */
  leftByLast: number
  /** When that push began; null: none did lately. */
  lastRunAt: Date | null
}

async function findLeftBehind(db: Database): Promise<LeftBehind> {
  const { rows } = await sql<LeftBehind>`
    select count(*) filter (where d.due_at < now() - ${overdueHours} * interval '1 hour') as overdue,
      count(*) filter (where d.run_id = last.id or d.created_at < last.started_at) as "leftByLast", last.started_at as "lastRunAt"
    from (select) one left join (
      select id, started_at from runs where command in ('all', 'force', 'resume') and outcome in ('complete', 'failures')
        and started_at > now() - ${overdueHours} * interval '1 hour' order by started_at desc limit 1
    ) last on true left join deliveries d on d.status = 'pending' and not ${isLive(sql`d.worker_id`)}
    group by last.started_at
  `.execute(db)
  return rows[0] ?? { overdue: 0, leftByLast: 0, lastRunAt: null }
}

const resume = 'Run `leadpush push --resume`, and let cron do so every hour.'
const seeWhy = 'See in `leadpush status` why; the next push that cron begins tries again.'

async function checkLedger(context: CheckContext): Promise<Verdict> {
  const { timeZone, maxLeadAgeMs, feedMaxAgeMs } = context.inspection.settings
  if (timeZone === undefined || maxLeadAgeMs === undefined) return skipped('settings that it needs are wrong')
  const { db } = context.opened as OpenDatabase
  const status = await findStatus(db, { timeZone, maxLeadAgeMs })
  const { overdue, leftByLast, lastRunAt } = await findLeftBehind(db)
  const interrupted = await findInterruptedRuns(db, status.period)
  const runs = interrupted.filter(({ startedAt }) => lastRunAt === null || startedAt >= lastRunAt)
  const troubles: Trouble[] = []
  // the last push printed why it left these; another push would leave them too. What came after it is for the next one
  if (leftByLast > 0 && leftByLast === status.stuck && runs.length === 0) {
    const message = `Deliveries that the last push left with an attempt to come: ${status.stuck}.`
    troubles.push(warning(message, seeWhy))
    status.stuck = 0
  } else if (overdue > 0) {
    const message = `Deliveries have waited for more than ${overdueHours} hours, and no process is working on them: ${overdue}.`
    troubles.push(failure(message, resume))
  }
  // `findAlarms` reports held users
  if (runs.length > 0 && !status.held) {
    const what = `${plural(runs.length, 'run')} of ${status.period}`
    troubles.push(warning(`Interrupted, and not resumed: ${what}.`, resume))
  }
  const settings = { maxLeadAgeMs, feedMaxAgeMs }
  for (const { what, toDo } of await findAlarms(db, overdue > 0 ? { ...status, stuck: 0 } : status, settings)) {
    troubles.push(warning(`${what}.`, `${toDo.charAt(0).toUpperCase()}${toDo.slice(1)}`))
  }
  const { subscribed, delivered, owed, period } = status
  return judge(`${period}: ${plural(subscribed, 'subscribed user')}, ${delivered} delivered, ${owed} owed`, troubles)
}

const frozenAgeMax = 1_000_000_000

/** Whether PostgreSQL keeps the tables in order: vacuum, transaction age, indexes. */
export function judgeUpkeep(upkeep: Upkeep, autovacuum: boolean): Verdict {
  const { databaseBytes, frozenAge, withoutAutovacuum, bloated, invalidIndexes } = upkeep
  const troubles: Trouble[] = []
  if (!autovacuum) {
    troubles.push(warning('autovacuum is off: tables grow, and plans go by old figures.', 'Set autovacuum = on.'))
  }
  if (withoutAutovacuum.length > 0) {
    const message = `autovacuum is off for ${withoutAutovacuum.join(', ')}.`
    troubles.push(warning(message, `For each: alter table ${withoutAutovacuum[0]} reset (autovacuum_enabled).`))
  }
  if (bloated.length > 0) {
    const message = `Many rows of ${bloated.join(', ')} are dead: autovacuum does not keep up, or an old transaction is open.`
    troubles.push(warning(message, `Look for it in pg_stat_activity, then: vacuum (analyze) ${bloated.join(', ')}.`))
  }
  if (frozenAge > frozenAgeMax) {
    const message = `The oldest transaction is ${(frozenAge / 1e9).toFixed(1)} thousand million back: at 2.1 the database stops.`
    troubles.push(
      warning(message, 'Look for what holds vacuum up (pg_stat_activity, replication slots), then run vacuumdb.'),
    )
  }
  if (invalidIndexes.length > 0) {
    const message = `Indexes that are not valid: ${invalidIndexes.join(', ')}.`
    troubles.push(
      warning(
        message,
        `For each: reindex index concurrently ${invalidIndexes[0]}; \`leadpush prune\` drops one that ends in _ccnew.`,
      ),
    )
  }
  return judge(`${formatBytes(databaseBytes)}; autovacuum is on, all indexes are valid`, troubles)
}

export const ledgerChecks: readonly Check[] = [
  // counting all users may take seconds
  { name: 'ledger', title: 'Ledger', needs: 'tables', limitMs: 12_000, run: checkLedger },
  {
    name: 'upkeep',
    title: 'Upkeep',
    needs: 'tables',
    run: async ({ opened, facts }) =>
      judgeUpkeep(await findUpkeep((opened as OpenDatabase).db), (facts as ServerFacts).autovacuum),
  },
]
