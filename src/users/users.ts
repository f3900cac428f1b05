/** Finds, lists, subscribes, unsubscribes and removes users, for the commands. */

import { type RawBuilder, sql } from 'kysely'
import { LeadpushError } from '../base/errors.ts'
import { subscriptionPauseMs } from '../base/limits.ts'
import { briefly } from '../db/durably.ts'
import type { Database } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import { isErased } from '../leads/erasures.ts'
import { receiverKeyOf } from '../secrets/cipher.ts'
import type { Vault } from '../secrets/vault.ts'
import type { Query } from './query.ts'
import { normaliseEmail } from './user.ts'

/** A user, and the state of their subscription. */
export interface FoundUser {
  user: { id: number; email: string }
  subscribed: boolean
  /** Whether a subscription push is owed. */
  owed: boolean
}

/** SQL: whether a subscription push is owed to the user `u` and not begun. */
export const isPushOwed = sql<boolean>`(u.subscribed and exists (
  select from subscription_pushes o where o.user_id = u.id and o.owed_at is not null offset 0))`

/** Finds a user by e-mail, in any case. Throws `usage` if there is no such user. */
export async function findUser(db: Database, email: string): Promise<FoundUser> {
  // PostgreSQL takes no text with NUL, so no user has one
  const found = email.includes('\0')
    ? undefined
    : await sql<FoundUser['user'] & Omit<FoundUser, 'user'>>`
          select id, email, subscribed, ${isPushOwed} as owed from users u where email = ${normaliseEmail(email)}
        `.execute(db)
  const [row] = found?.rows ?? []
  if (!row) {
    if (await isErased(db, { user: normaliseEmail(email) })) {
      throw new LeadpushError('usage', `${JSON.stringify(email)} was forgotten: no import brings that e-mail back.`, {
        hint: '`leadpush users forget` is for good. Whoever comes back needs another e-mail.',
      })
    }
    throw new LeadpushError('usage', `There is no user ${JSON.stringify(email)}.`, {
      hint: '`leadpush users list` shows them, `leadpush users import FILE` brings them in.',
    })
  }
  const { subscribed, owed } = row
  return { user: { id: row.id, email: row.email }, subscribed, owed }
}

/** The key that the receiver gave a user. Throws `usage` where there is no such user, and as `Vault.open` does. */
export async function findReceiverKey(db: Database, vault: Vault, email: string): Promise<string> {
  const { user } = await findUser(db, email)
  const found = db.selectFrom('users').select('receiver_key').where('id', '=', user.id)
  const { receiver_key } = await found.executeTakeFirstOrThrow()
  return await vault.open(receiver_key, receiverKeyOf(user.email))
}

/** Whether any user has that receiver key. */
export async function isReceiverKey(db: Database, vault: Vault, key: string): Promise<boolean> {
  const { rows } =
    await sql`select from users where key_mark(receiver_key) = ${vault.markReceiverKey(key)} limit 1`.execute(db)
  return rows.length > 0
}

/** A user as `users list` shows them. */
export interface ListedUser {
  email: string
  subscribed: boolean
  queries: Query[]
}

const usersPerPage = 1_000
/** Their order is no index's: each look reads all users. */
const usersPerLook = 50_000

async function findNext(db: Database, last: string): Promise<{ id: number; email: string }[]> {
  const { rows } = await sql<{ id: number; email: string }>`
      select id, email from users where email collate "C" > ${last} order by email collate "C" limit ${usersPerLook}
    `.execute(db)
  return rows
}

/** All users in the order of the bytes of their e-mails, page by page. */
export async function* listUsers(db: Database): AsyncGenerator<ListedUser[]> {
  for (let next = await findNext(db, ''); next.length > 0; next = await findNext(db, next.at(-1)?.email ?? '')) {
    for (let at = 0; at < next.length; at += usersPerPage) {
      const ids = next.slice(at, at + usersPerPage).map(({ id }) => id)
      const { rows } = await sql<ListedUser>`
          select u.email, u.subscribed, coalesce((
            select json_agg(json_build_object('type', q.type, 'value', q.value, 'radius', q.radius) order by q.position)
            from queries q where q.user_id = u.id), '[]') as queries
          from users u where u.id = any (${ids}) order by u.email collate "C"
        `.execute(db)
      yield rows
    }
    if (next.length < usersPerLook) return
  }
}

/**
 * SQL: owes a subscription push to the users of the row source `whom`, unless their last one began less than a minute ago
 * (contract 5.3). `since`: since when, where one may be owed already.
 */
const owePush = (whom: RawBuilder<unknown>, since = sql`now()`) => sql`
  insert into subscription_pushes as p (user_id, owed_at) select id, now() from ${whom}
  on conflict (user_id) do update set owed_at = ${since}
    where p.begun_at is null or p.begun_at <= now() - ${subscriptionPauseMs} * interval '1 millisecond'
  returning user_id`

/** Whether a subscription push is owed; it is not sent before the user has queries. */
export type SubscriptionOwed = { owed: false } | { owed: true; hasQueries: boolean }

/** Records that a subscription push is owed to the user, if subscribed and unless the last one began less than a minute ago. */
export async function recordSubscriptionOwed(db: Database, userId: number): Promise<SubscriptionOwed> {
  const { rows } = await sql<{ hasQueries: boolean }>`
    with owed as (${owePush(sql`users where id = ${userId} and subscribed`, sql`coalesce(p.owed_at, now())`)})
    select exists (select from queries q where q.user_id = owed.user_id) as "hasQueries" from owed
  `.execute(db)
  return rows[0] ? { owed: true, hasQueries: rows[0].hasQueries } : { owed: false }
}

/**
 * Subscribes a user. `was`: was subscribed before; `owed`: a subscription push is owed now; `tooSoon`: none is, because the
 * last one began less than a minute ago (contract 5.3).
 */
export async function recordSubscription(
  db: Database,
  userId: number,
): Promise<{ was: boolean; owed: boolean; tooSoon: boolean }> {
  return await rideOut(db, async (isRepeat) => {
    const { rows } = await sql<{ was: boolean; owed: boolean; tooSoon: boolean }>`
        with brief as materialized (${briefly}),
        before as (select u.id, subscribed, ${isPushOwed} as owed from users u, brief where u.id = ${userId} for no key update of u),
        fresh as (update users u set subscribed = true, due_since = now() from before b where u.id = b.id and not b.subscribed returning u.id),
        owed as (${owePush(sql`fresh`)})
        select b.subscribed as was, b.owed or o.user_id is not null as owed, not b.subscribed and o.user_id is null as "tooSoon"
        from before b left join owed o on true
      `.execute(db)
    const found = rows[0] ?? { was: false, owed: false, tooSoon: false }
    // an earlier call, whose answer was lost, may have been the one that subscribed them
    return isRepeat && found.owed ? { ...found, was: false } : found
  })
}

/** Unsubscribes a user: no subscription push is owed any more. */
export async function recordUnsubscription(db: Database, userId: number): Promise<void> {
  await rideOut(db, () =>
    sql`
      with brief as materialized (${briefly})
      update users set subscribed = false from brief where id = ${userId}
    `.execute(db),
  )
}

/** Deletes a user and their queries. Their integrations must have ended before. */
export async function removeUser(db: Database, userId: number): Promise<void> {
  await db.deleteFrom('users').where('id', '=', userId).execute()
}
