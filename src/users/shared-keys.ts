/**
 * Finds users to whom an import gave a receiver key that others have too, so that the receiver takes their leads for one account's.
 * Keys are never shown.
 */
import { sql } from 'kysely'
import { plural } from '../base/amounts.ts'
import type { Database } from '../db/open.ts'

interface SharedKeys {
  /** Users who share their key. */
  users: number
  /** Keys that are shared. */
  keys: number
  /** Two users of one key each, for up to 3 keys. */
  examples: [string, string][]
}

/**
 * A sentence about the users who share a key with one of `changed_users`, whether these are merged or would be; undefined where each has a
 * key of their own. Users with other keys are not grouped.
 */
export async function findSharedKeys(db: Database): Promise<string | undefined> {
  const { rows } = await sql<SharedKeys>`
    with changed as materialized (
      select email, key_mark(receiver_key) as mark from changed_users where receiver_key is not null
    ),
    keyed as (
      select email, mark from changed
      union all
      select email, key_mark(receiver_key) from users u where key_mark(receiver_key) in (select mark from changed)
        and not exists (select from changed c where c.email = u.email)
    )
    select coalesce(sum(users), 0)::bigint as users, count(*) as keys,
      coalesce(json_agg(json_build_array(one, other) order by one) filter (where rank <= 3), '[]') as examples
    from (
      select *, row_number() over (order by one) as rank from (
        select count(*) as users, min(email) as one, max(email) as other from keyed group by mark having count(*) > 1
      ) s
    ) shared`.execute(db)
  const { users, keys, examples } = rows[0] as SharedKeys
  if (keys === 0) return undefined
  const pairs = examples.map(([one, other]) => `${one} and ${other}`)
  const more = keys > pairs.length ? `, and ${plural(keys - pairs.length, 'key')} more` : ''
  return `${plural(users, 'user')} share a receiver key with another user, so the receiver puts their leads into one account: ${pairs.join('; ')}${more}.`
}
