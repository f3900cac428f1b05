/** Deliveries that did not arrive, or have not arrived yet, by cause, for `status` and the report. */
import { type RawBuilder, sql } from 'kysely'
import { isLive } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import { answerOf } from '../../deliveries/answers.ts'
import { isTheLastWord } from '../../push/database/users-to-serve.ts'
import { type AnswerCount, answersShown, type CauseGroup, causeOf } from './causes.ts'

/** Deliveries with one cause, by how they ended. */
export interface NotDelivered extends CauseGroup {
  failed: number
  unknown: number
  first: Date
  last: Date
}

/** The most error texts that are read: more than the program can produce. */
const errorsRead = 300
export const causesShown = 5
/** Users named for each cause. */
export const usersShown = 3

/** SQL: a delivery of the period that failed or is unknown, without a later one that arrived or is pending. */
const isEnded = (period: string) =>
  sql<boolean>`d.period = ${period} and d.status in ('failed', 'unknown') and ${isTheLastWord}`

/** SQL: a delivery that waits for an attempt, and that no living process is working on. */
const isStuck = sql<boolean>`d.status = 'pending' and not ${isLive(sql`d.worker_id`)}`

/** Failed and unknown deliveries of the period without a later one that arrived or is pending. */
export const findEnded = (db: Database, period: string, keepAnswers: 'on' | 'off') =>
  findByCause(db, isEnded(period), keepAnswers)

/** Pending deliveries of any period that no living process is working on. */
export const findStuck = (db: Database, keepAnswers: 'on' | 'off') => findByCause(db, isStuck, keepAnswers)

type Counts = Pick<NotDelivered, 'deliveries' | 'failed' | 'unknown' | 'first' | 'last'>

interface ErrorRow extends Counts {
  error: string | null
  httpStatus: number | null
  pending: boolean
}

const earlier = (a: Date, b: Date) => (a < b ? a : b)

function addRow(found: Map<string, NotDelivered & { errors: string[] }>, row: ErrorRow): void {
  const { error, httpStatus, pending, ...counts } = row
  const { what, toDo } =
    pending && error === null ? { what: 'no attempt has ended yet', toDo: '' } : causeOf({ error, httpStatus })
  const group = found.get(what)
  if (!group) found.set(what, { what, toDo, ...counts, users: [], answers: [], errors: [error ?? ''] })
  else {
    for (const key of ['deliveries', 'failed', 'unknown'] as const) group[key] += counts[key]
    group.first = earlier(group.first, counts.first)
    group.last = earlier(group.last, counts.last) === group.last ? counts.last : group.last
    group.errors.push(error ?? '')
  }
}

/** The most frequent first; the first `causesShown` causes have a few of their users and the receiver's words. */
async function findByCause(
  db: Database,
  condition: RawBuilder<boolean>,
  keepAnswers: 'on' | 'off',
): Promise<NotDelivered[]> {
  const { rows } = await sql<ErrorRow>`
    select error_of(d) as error, case when error_of(d) is null then http_status_of(d) end as "httpStatus",
      d.status = 'pending' as pending, count(*) as deliveries, count(*) filter (where d.status = 'failed') as failed,
      count(*) filter (where d.status = 'unknown') as unknown,
      min(d.created_at) as first, max(d.created_at) as last
    from deliveries d where ${condition} group by 1, 2, 3 order by count(*) desc limit ${errorsRead}
  `.execute(db)
  const found = new Map<string, NotDelivered & { errors: string[] }>()
  for (const row of rows) addRow(found, row)
  const groups = [...found.values()].sort((a, b) => b.deliveries - a.deliveries)
  for (const group of groups.slice(0, causesShown)) {
    const isOfGroup = sql<boolean>`${condition} and coalesce(error_of(d), '') = any (${group.errors})`
    group.users = await findUsers(db, isOfGroup)
    if (keepAnswers === 'on') group.answers = await findAnswers(db, isOfGroup)
  }
  return groups.map(({ errors: _, ...group }) => group)
}

async function findUsers(db: Database, condition: RawBuilder<boolean>): Promise<string[]> {
  const { rows } = await sql<{ email: string }>`
    select distinct u.email from deliveries d join users u on u.id = d.user_id where ${condition} order by u.email limit ${usersShown}
  `.execute(db)
  return rows.map(({ email }) => email)
}

/** The most frequent answers among the deliveries `d` that fulfil `condition`. */
async function findAnswers(db: Database, condition: RawBuilder<boolean>): Promise<AnswerCount[]> {
  const { rows } = await sql<AnswerCount>`
    select answer, count(*) as deliveries from (select ${answerOf} as answer from deliveries d where ${condition}) s
    where answer is not null group by answer order by 2 desc, answer limit ${answersShown}
  `.execute(db)
  return rows
}
