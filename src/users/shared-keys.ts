/** Finds users who have one receiver key, so that the receiver takes their leads for one account's. Keys are never shown. */
import { sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'

export interface SharedKeys {
  /** Users who share their key. */
  users: number
  /** Keys that are shared. */
  keys: number
  /** Two users of one key each, for up to 3 keys. */
  examples: [string, string][]
}

/** Undefined where every user has a key of their own. */
export async function findSharedKeys(db: Database): Promise<SharedKeys | undefined> {
  const { rows } = await rideOut(() =>
    sql<SharedKeys>`
      select coalesce(sum(users), 0)::bigint as users, count(*) as keys,
        coalesce(json_agg(json_build_array(one, other) order by one) filter (where rank <= 3), '[]') as examples
      from (
        select *, row_number() over (order by one) as rank from (
          select count(*) as users, min(email) as one, max(email) as other from users
          group by key_mark(receiver_key) having count(*) > 1
        ) s
      ) shared
    `.execute(db),
  )
  return rows[0] && rows[0].keys > 0 ? rows[0] : undefined
}
