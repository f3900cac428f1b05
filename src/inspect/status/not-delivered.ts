/** Deliveries that did not arrive, or not yet, by their cause: how many, and the first few of their users. */
import { type RawBuilder, sql } from 'kysely'
import { rideOut } from '../../db/away.ts'
import { isLive } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import { findAnswers } from '../../deliveries/answers.ts'
import { isTheLastWord } from '../../push/users-to-serve.ts'
import { type CauseGroup, causeOf } from './causes.ts'

/** Deliveries that did not arrive, by cause. */
export interface NotDelivered {
  deliveries: number
  /** The oldest of them. */
  since: Date
  /** The most frequent causes first. */
  groups: CauseGroup[]
}

/** The most error texts that are read: more than the program can produce. */
const errorsRead = 300
export const causesShown = 5
/** Users named for each cause. */
export const usersShown = 3

const why = sql`coalesce(d.end_reason, d.second_error, d.first_error)`

/** SQL: a delivery of the period that failed or is unknown, with no later one that is delivered or to come. */
const isEnded = (period: string) =>
  sql<boolean>`d.period = ${period} and d.status in ('failed', 'unknown') and ${isTheLastWord}`

const isStuck = sql<boolean>`d.status = 'pending' and not ${isLive(sql`d.worker_id`)}`

/** Failed and unknown deliveries of the period without a later one that is delivered or to come. */
export const findEnded = (db: Database, period: string, keepAnswers: 'on' | 'off') =>
  findByCause(db, isEnded(period), keepAnswers)

/** Pending deliveries of any period that no living process has in hand. */
export const findStuck = (db: Database, keepAnswers: 'on' | 'off') => findByCause(db, isStuck, keepAnswers)

async function findByCause(
  db: Database,
  condition: RawBuilder<boolean>,
  keepAnswers: 'on' | 'off',
): Promise<NotDelivered> {
  const { rows } = await rideOut(() =>
    sql<{ error: string | null; deliveries: number; since: Date }>`
      select ${why} as error, count(*) as deliveries, min(d.created_at) as since from deliveries d where ${condition}
      group by 1 order by 2 desc limit ${errorsRead}
    `.execute(db),
  )
  const found = new Map<string, CauseGroup & { errors: (string | null)[] }>()
  for (const { error, deliveries } of rows) {
    const { cause, remedy } =
      error === null ? { cause: 'no attempt has ended yet', remedy: '' } : causeOf({ error, httpStatus: null })
    const group = found.get(cause) ?? { cause, remedy, deliveries: 0, users: [], answers: [], errors: [] }
    found.set(cause, group)
    group.deliveries += deliveries
    group.errors.push(error)
  }
  const groups = [...found.values()].sort((a, b) => b.deliveries - a.deliveries)
  for (const group of groups.slice(0, causesShown)) {
    const isOfGroup = sql<boolean>`${condition} and ${hasError(group.errors)}`
    group.users = await findUsers(db, isOfGroup)
    if (keepAnswers === 'on') group.answers = await rideOut(() => findAnswers(db, isOfGroup))
  }
  return {
    deliveries: groups.reduce((sum, { deliveries }) => sum + deliveries, 0),
    since: new Date(Math.min(...rows.map(({ since }) => since.getTime()))),
    groups,
  }
}

const hasError = (errors: readonly (string | null)[]) =>
  sql<boolean>`coalesce(${why}, '') = any (${errors.map((error) => error ?? '')})`

async function findUsers(db: Database, condition: RawBuilder<boolean>): Promise<string[]> {
  const { rows } = await rideOut(() =>
    sql<{ email: string }>`
      select distinct u.email from deliveries d join users u on u.id = d.user_id
      where ${condition}
      order by u.email limit ${usersShown}
    `.execute(db),
  )
  return rows.map(({ email }) => email)
}
