/**
 * `users import --complete`: the files of the command together are all users there are, so the users who are in none of them are
 * unsubscribed, at the end of the transaction that the files share. A file that breaks off unsubscribes nobody.
 */
import { formatCount } from '../base/amounts.ts'
import { LeadpushError } from '../base/errors.ts'
import { locks } from '../db/locks.ts'
import type { Connection } from '../db/transaction.ts'
import type { ImportCounts, Together } from '../records/import-each.ts'

interface CompleteOptions {
  /** Whether the files may have fewer than half of the users who were subscribed. */
  accept?: boolean | undefined
  isDryRun?: boolean | undefined
}

/** Notes the users of a file, whose records are in `staged_users`: rejected ones too, if their e-mail could be read. */
export async function recordListed(connection: Connection): Promise<void> {
  await connection.query('insert into listed_users select distinct email from staged_users where email is not null')
}

/** Notes those of `emails`, found in the raw text of rejected records, that a user has, and returns their places among them. */
export async function noteNamedUsers(connection: Connection, emails: readonly string[]): Promise<number[]> {
  const { rows } = await connection.query<{ place: number }>(
    `with known as materialized (
       select place, u.email from unnest($1::text[]) with ordinality named (email, place)
       cross join lateral (select email from users where email = named.email offset 0) u
     ), noted as (insert into listed_users select distinct email from known)
     select place - 1 as place from known`,
    [emails],
  )
  return rows.map(({ place }) => place)
}

/** What the files of a complete import have in common. `unnamed` counts the rejected records that may be of any user. */
export function unsubscribing(
  { accept = false, isDryRun = false }: CompleteOptions,
  files: number,
  unnamed: { count: number },
): Together<ImportCounts & { unsubscribed: number; unnamed?: number }> {
  let subscribed = 0
  return {
    table: 'listed_users',
    async begin(connection) {
      unnamed.count = 0
      const { rows } = await connection.query<{ n: number }>('select count(*) as n from users where subscribed')
      subscribed = rows[0]?.n ?? 0
    },
    async end(connection, { broken }) {
      if (broken) return {}
      await connection.query('select pg_advisory_xact_lock($1)', [locks.usersImport])
      const unsubscribed = await findUnlisted(connection)
      const listed = Math.max(0, subscribed - unsubscribed)
      if (unsubscribed > 0 && 2 * listed < subscribed && !accept) throw tooFew(listed, subscribed, files)
      if (unnamed.count > 0 && !accept) return { unnamed: unnamed.count }
      if (!isDryRun) await unsubscribe(connection)
      return { unsubscribed }
    },
  }
}

/** Makes `unlisted_users` of the subscribed users who are in no file, and returns their number. */
async function findUnlisted(connection: Connection): Promise<number> {
  await connection.query('analyze listed_users')
  const { rowCount } = await connection.query(
    `create temp table unlisted_users on commit drop as
     select id from users u where subscribed and not exists (select from listed_users l where l.email = u.email)`,
  )
  await connection.query('analyze unlisted_users')
  return rowCount ?? 0
}

/** Unsubscribes them. */
async function unsubscribe(connection: Connection): Promise<void> {
  // in one order, as all who lock many users
  await connection.query(`
    select count(*) from (select id from unlisted_users order by id) c
    cross join lateral (select from users where id = c.id offset 0 for no key update) u`)
  await connection.query(`
    update users u set subscribed = false from unlisted_users c where u.id = c.id`)
}

function tooFew(listed: number, subscribed: number, files: number): LeadpushError {
  const has = files > 1 ? 'the files have' : 'the file has'
  const message = `Of ${formatCount(subscribed)} subscribed users ${has} ${formatCount(listed)}, fewer than half: nothing was changed.`
  return new LeadpushError('failed', message, {
    hint: 'If the others are to be unsubscribed, import again with --accept. If these are not all the files, give all of them.',
  })
}
