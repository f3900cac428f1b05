/** Finds, lists, subscribes, unsubscribes and removes users, for the commands. */
import { sql } from 'kysely'
import { LeadpushError } from '../base/errors.ts'
import { subscriptionPauseMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import { briefly } from '../db/durably.ts'
import type { Database } from '../db/open.ts'
import { isErased } from '../leads/erasures.ts'
import { receiverKeyOf } from '../secrets/cipher.ts'
import type { Vault } from '../secrets/vault.ts'
import type { Query } from './query.ts'

/** A user, and the state of their subscription. */
export interface FoundUser {
  user: { id: number; email: string }
  subscribed: boolean
  /** Whether a subscription push is owed. */
  owed: boolean
}

export const normaliseEmail = (email: string) => email.trim().toLowerCase()

/** Finds a user by e-mail, in any case. Throws `usage` if there is no such user. */
export async function findUser(db: Database, email: string): Promise<FoundUser> {
  // PostgreSQL takes no text with NUL, so no user has one
  const found = email.includes('\0')
    ? undefined
    : await rideOut(() =>
        db
          .selectFrom('users')
          .select(['id', 'email', 'subscribed', 'subscription_owed_at'])
          .where('email', '=', normaliseEmail(email))
          .executeTakeFirst(),
      )
  if (!found) {
    if (await rideOut(() => isErased(db, { user: normaliseEmail(email) }))) {
      throw new LeadpushError('usage', `${JSON.stringify(email)} was forgotten: no import brings that e-mail back.`, {
        hint: '`leadpush users forget` is for good. Whoever comes back needs another e-mail.',
      })
    }
    throw new LeadpushError('usage', `There is no user ${JSON.stringify(email)}.`, {
      hint: '`leadpush users list` shows them, `leadpush users import FILE` brings them in.',
    })
  }
  const { id, subscribed, subscription_owed_at } = found
  return { user: { id, email: found.email }, subscribed, owed: subscription_owed_at !== null }
}

/** The key that the receiver gave a user. Throws `usage` where there is no such user, and as `Vault.open` does. */
export async function findReceiverKey(db: Database, vault: Vault, email: string): Promise<string> {
  const { user } = await findUser(db, email)
  const found = db.selectFrom('users').select('receiver_key').where('id', '=', user.id)
  const { receiver_key } = await rideOut(() => found.executeTakeFirstOrThrow())
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

/** All users in the order of their e-mails, page by page. */
export async function* listUsers(db: Database): AsyncGenerator<ListedUser[]> {
  let last = ''
  for (;;) {
    const { rows } = await rideOut(() =>
      sql<ListedUser>`
        select u.email, u.subscribed, coalesce((
          select json_agg(json_build_object('type', q.type, 'value', q.value, 'radius', q.radius) order by q.position)
          from queries q where q.user_id = u.id), '[]') as queries
        from users u where u.email > ${last} order by u.email limit ${usersPerPage}
      `.execute(db),
    )
    yield rows
    if (rows.length < usersPerPage) return
    last = rows.at(-1)?.email ?? ''
  }
}

/** SQL: whether the user's last subscription push began so recently that no further one becomes owed (contract 5.3). */
const pushedLately = sql<boolean>`coalesce(subscription_begun_at > now() - ${subscriptionPauseMs} * interval '1 millisecond', false)`

/** Whether a subscription push is owed; it is not sent before the user has queries. */
export type SubscriptionOwed = { owed: false } | { owed: true; hasQueries: boolean }

/** Records that a subscription push is owed to the user, if subscribed and unless the last one began less than a minute ago. */
export async function recordSubscriptionOwed(db: Database, userId: number): Promise<SubscriptionOwed> {
  const { rows } = await sql<{ hasQueries: boolean }>`
    update users u set subscription_owed_at = coalesce(subscription_owed_at, now())
    where id = ${userId} and subscribed and (subscription_owed_at is not null or not ${pushedLately})
    returning exists (select from queries q where q.user_id = u.id) as "hasQueries"
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
  return await rideOut(async (isRepeat) => {
    const { rows } = await sql<{ was: boolean; owed: boolean; tooSoon: boolean }>`
        with brief as materialized (${briefly}),
        before as (
          select id, subscribed, subscription_owed_at is not null as owed,
            ${pushedLately} as recent
          from users, brief where id = ${userId} for update of users
        )
        update users u set subscribed = true, due_since = case when b.subscribed then u.due_since else now() end,
          subscription_owed_at = case when b.owed or b.subscribed or b.recent then u.subscription_owed_at else now() end
        from before b where u.id = b.id
        returning b.subscribed as was, u.subscription_owed_at is not null as owed,
          not b.subscribed and b.recent as "tooSoon"
      `.execute(db)
    const found = rows[0] ?? { was: false, owed: false, tooSoon: false }
    // an earlier call, whose answer was lost, may have been the one that subscribed them
    return isRepeat && found.owed ? { ...found, was: false } : found
  })
}

/** Unsubscribes a user; an owed subscription push that has not begun ends with it. */
export async function recordUnsubscription(db: Database, userId: number): Promise<void> {
  await rideOut(() =>
    sql`
      with brief as materialized (${briefly})
      update users set subscribed = false, subscription_owed_at = null from brief where id = ${userId}
    `.execute(db),
  )
}

/** Deletes a user and their queries. Their integrations must have ended before. */
export async function removeUser(db: Database, userId: number): Promise<void> {
  await db.deleteFrom('users').where('id', '=', userId).execute()
}
