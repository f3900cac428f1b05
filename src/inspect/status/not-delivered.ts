/** Deliveries that did not arrive, or not yet, by their cause: how many, and the first few of their users. */
import { type RawBuilder, sql } from 'kysely'
import { rideOut } from '../../db/away.ts'
import { isLive } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import { type CauseGroup, causeOf } from './causes.ts'

export interface NotDelivered {
  deliveries: number
  /** The oldest of them. */
  since: Date
  /** The most frequent causes first. */
  groups: CauseGroup[]
}

/** Texts of errors: more than the program can make. */
const errorsRead = 300
export const causesShown = 5
/** Of each cause. */
export const usersShown = 3

const why = sql`coalesce(d.end_reason, d.second_error, d.first_error)`

/** Those of the period that failed or are unknown, and whose users got nothing since. */
const isEnded = (
  period: string,
) => sql<boolean>`d.period = ${period} and d.status in ('failed', 'unknown') and not exists (
  select from deliveries e where e.user_id = d.user_id and e.created_at > d.created_at and e.status = 'delivered' offset 0)`

const isStuck = sql<boolean>`d.status = 'pending' and not ${isLive(sql`d.worker_id`)}`

export const findEnded = (db: Database, period: string) => findByCause(db, isEnded(period))

/** Of any period, in the hands of no living process. */
export const findStuck = (db: Database) => findByCause(db, isStuck)

async function findByCause(db: Database, condition: RawBuilder<boolean>): Promise<NotDelivered> {
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
    const group = found.get(cause) ?? { cause, remedy, deliveries: 0, users: [], errors: [] }
    found.set(cause, group)
    group.deliveries += deliveries
    group.errors.push(error)
  }
  const groups = [...found.values()].sort((a, b) => b.deliveries - a.deliveries)
  for (const group of groups.slice(0, causesShown)) group.users = await findUsers(db, condition, group.errors)
  return {
    deliveries: groups.reduce((sum, { deliveries }) => sum + deliveries, 0),
    since: new Date(Math.min(...rows.map(({ since }) => since.getTime()))),
    groups,
  }
}

async function findUsers(
  db: Database,
  condition: RawBuilder<boolean>,
  errors: readonly (string | null)[],
): Promise<string[]> {
  const { rows } = await rideOut(() =>
    sql<{ email: string }>`
      select distinct u.email from deliveries d join users u on u.id = d.user_id
      where ${condition} and coalesce(${why}, '') = any (${errors.map((error) => error ?? '')})
      order by u.email limit ${usersShown}
    `.execute(db),
  )
  return rows.map(({ email }) => email)
}
