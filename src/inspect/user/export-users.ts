/** `users export`: all users with their queries. PostgreSQL sorts them, and pages of a cursor bound the memory. */
import { sql } from 'kysely'
import type { OpenDatabase } from '../../db/open.ts'
import { kyselyOn, withTransaction } from '../../db/transaction.ts'
import { receiverKeyOf } from '../../secrets/cipher.ts'
import { openIntact, type Vault } from '../../secrets/vault.ts'
import type { ExportedUser } from '../../users/export-line.ts'

/** A user may have 1,000 queries of 500 characters. */
const usersPerFetch = 50

/** A user whose stored key cannot be decrypted. */
export interface DamagedUser {
  email: string
  isDamaged: true
}

type Row = Pick<ExportedUser, 'email' | 'subscribed' | 'queries'> & { receiver_key: string }

/** Hands all users to `onPage`, in the order of the bytes of their e-mails; with their receiver keys if there is a `vault` for these. */
export async function exportUsers(
  opened: OpenDatabase,
  vault: Vault | undefined,
  onPage: (page: (ExportedUser | DamagedUser)[]) => Promise<void>,
): Promise<void> {
  const toUser = async ({ email, subscribed, queries, receiver_key }: Row): Promise<ExportedUser | DamagedUser> => {
    if (!vault) return { email, subscribed, queries }
    const receiverApiKey = await openIntact(vault, receiver_key, receiverKeyOf(email))
    return receiverApiKey === undefined ? { email, isDamaged: true } : { email, receiverApiKey, subscribed, queries }
  }
  const work = async (db: ReturnType<typeof kyselyOn>) => {
    await sql`
      declare exported no scroll cursor for
      select u.email, u.subscribed, u.receiver_key, coalesce((
        select json_agg(json_build_object('type', q.type, 'value', q.value, 'radius', q.radius) order by q.position)
        from queries q where q.user_id = u.id), '[]') as queries
      from (select id, email, subscribed, receiver_key from users order by email collate "C" offset 0) u
    `.execute(db)
    for (;;) {
      const { rows } = await sql<Row>`fetch ${sql.lit(usersPerFetch)} from exported`.execute(db)
      if (rows.length > 0) await onPage(await Promise.all(rows.map(toUser)))
      if (rows.length < usersPerFetch) return
    }
  }
  // rolled back: a standby has no transaction to commit
  await withTransaction(opened, (connection) => work(kyselyOn(connection)), undefined, 'rollback')
}
