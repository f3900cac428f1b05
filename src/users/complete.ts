/**
 * `users import --complete`: the files of the command together are all users there are, so whoever is in none of them is
 * unsubscribed. That happens in the transaction of the last file; a file that breaks off unsubscribes nobody. Whether several files
 * have enough users is judged before the first of them goes in; where a pipe is among them, which cannot be read twice, all of them share
 * one transaction.
 */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { formatCount } from '../base/amounts.ts'
import { LeadpushError } from '../base/errors.ts'
import { rideOut } from '../db/away.ts'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'
import { type Connection, kyselyOn } from '../db/transaction.ts'

/** A complete import under way. */
export interface CompleteImport {
  id: string
  /** How many users were subscribed when it began. */
  subscribed: number
  /** Whether the guard is overruled. */
  accept: boolean
  /** How many users of earlier files were recorded. */
  listed: number
  /** How a message says what has them. */
  has: 'it has' | 'the files have'
}

/** Rows that a killed import left behind are deleted after so long. */
const leftBehindHours = 24

const emailHash = sql`sha256(convert_to(email, 'UTF8'))`
/** SQL over `users`. */
const isUnlisted = (id: string) => sql<boolean>`subscribed and not exists (
  select from listed_users where import_id = ${id} and email_sha256 = ${emailHash}
)`

export async function beginComplete(db: Database, accept: boolean, files: number): Promise<CompleteImport> {
  await rideOut(() =>
    sql`delete from listed_users where listed_at < now() - ${leftBehindHours} * interval '1 hour'`.execute(db),
  )
  const { rows } = await rideOut(() => sql<{ n: number }>`select count(*) as n from users where subscribed`.execute(db))
  const has = files > 1 ? 'the files have' : 'it has'
  return { id: randomUUID(), subscribed: rows[0]?.n ?? 0, accept, listed: 0, has }
}

/**
 * Records the users of a file, whose records are in `staged_users`: rejected ones too, if their e-mail could be read. Returns how many
 * no earlier file had.
 */
export async function recordListed(connection: Connection, { id }: CompleteImport): Promise<number> {
  const { numAffectedRows } = await sql`
    insert into listed_users (import_id, email_sha256)
    select distinct ${id}::uuid, ${emailHash} from staged_users where email is not null on conflict do nothing
  `.execute(kyselyOn(connection))
  return Number(numAffectedRows ?? 0)
}

/**
 * Unsubscribes the users who were in no file, and ends what is owed to them and not begun; returns their number, also in a dry run,
 * which leaves them subscribed. Throws `failed` where the files have fewer than half of those who were subscribed, unless that is
 * accepted, and where the database lost what an earlier file had (contract 4.7).
 */
export async function unsubscribeUnlisted(
  connection: Connection,
  complete: CompleteImport,
  { isDryRun = false }: { isDryRun?: boolean | undefined } = {},
): Promise<number> {
  const { id } = complete
  const db = kyselyOn(connection)
  await sql`select pg_advisory_xact_lock(${locks.usersImport})`.execute(db)
  const { rows } = await sql<{ n: number }>`select count(*) as n from listed_users where import_id = ${id}`.execute(db)
  if ((rows[0]?.n ?? 0) < complete.listed) throw lostFiles()
  await sql`create temp table unlisted_users (id bigint) on commit drop`.execute(db)
  const { numAffectedRows } = await sql`
    insert into unlisted_users select id from users where ${isUnlisted(id)}`.execute(db)
  const unlisted = Number(numAffectedRows ?? 0)
  guard(unlisted, complete)
  if (isDryRun) {
    await dropListed(db, complete)
    return unlisted
  }
  await sql`analyze unlisted_users`.execute(db)
  // in one order, as all who lock many users
  await sql`
    select count(*) from (select id from unlisted_users order by id) c
    cross join lateral (select from users where id = c.id offset 0 for no key update) u`.execute(db)
  await sql`
    update users u set subscribed = false, subscription_owed_at = null from unlisted_users c where u.id = c.id
  `.execute(db)
  await dropListed(db, complete)
  return unlisted
}

/** Throws `failed` where the files, whose users are recorded, have fewer than half of those who were subscribed, unless that is accepted. */
export async function judgeListed(db: Database, complete: CompleteImport): Promise<void> {
  const { rows } = await sql<{ n: number }>`select count(*) as n from users where ${isUnlisted(complete.id)}`.execute(
    db,
  )
  guard(rows[0]?.n ?? 0, complete)
}

/** Deletes what is kept of the import. */
export async function dropListed(db: Database, { id }: CompleteImport): Promise<void> {
  await sql`delete from listed_users where import_id = ${id}`.execute(db)
}

const lostFiles = () =>
  new LeadpushError('failed', 'the database lost what earlier files of this import had, so nobody is unsubscribed', {
    hint: 'A standby without the last changes took over: run the import again.',
  })

function guard(unlisted: number, { subscribed, accept, has }: CompleteImport): void {
  const listed = Math.max(0, subscribed - unlisted)
  if (unlisted === 0 || 2 * listed >= subscribed || accept) return
  throw new LeadpushError(
    'failed',
    `of ${formatCount(subscribed)} subscribed users ${has} ${formatCount(listed)}, fewer than half, so nobody is unsubscribed; if that is right, use --accept`,
  )
}
