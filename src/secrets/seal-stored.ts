/**
 * Brings the secrets that are stored into the form that is in force: encrypts plain ones, encrypts others with the current data key,
 * or decrypts all. It goes by pages, each in a transaction of its own, so a stopped one is gone on with by the next.
 */

import { type RawBuilder, sql } from 'kysely'
import type { Database, OpenDatabase } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import { vacuumTables } from '../db/tidy.ts'
import { type Place, prefixOf, receiverKeyOf, signingSecretsOf } from './cipher.ts'
import { holdAlone, openIntact, type Vault } from './vault.ts'

/** How many values were changed, and how many could not be decrypted and stay as they are. */
export interface SealedCounts {
  receiverKeys: number
  signingSecrets: number
  damaged: number
}

interface Column {
  table: 'users' | 'integrations'
  column: 'receiver_key' | 'signing_secret' | 'previous_signing_secret'
  /** SQL: what tells the owner of a row. */
  owner: RawBuilder<string>
  place: (owner: string) => Place
}

const columns: readonly Column[] = [
  { table: 'users', column: 'receiver_key', owner: sql`email`, place: receiverKeyOf },
  ...(['signing_secret', 'previous_signing_secret'] as const).map((column) => ({
    ...{ table: 'integrations' as const, column },
    owner: sql<string>`user_id::text`,
    place: (owner: string) => signingSecretsOf(Number(owner)),
  })),
]

const rowsPerPage = 1_000

/** SQL over a column: whether its value is in another form than that of `currentId`. */
const isToChange = (column: Column['column'], currentId: string | undefined) =>
  currentId === undefined
    ? sql<boolean>`(length(${sql.ref(column)}) > 50 and starts_with(${sql.ref(column)}, 'sealed:'))`
    : sql<boolean>`(not starts_with(${sql.ref(column)}, ${prefixOf(currentId)}))`

/** SQL over a row: whether it is a secret that counts no more, since the overlap of its rotation is over. */
const isOver = (column: Column['column']) =>
  column === 'previous_signing_secret' ? sql<boolean>`previous_until <= clock_timestamp()` : sql<boolean>`false`

async function dropOver(transaction: Database, ids: readonly number[]): Promise<void> {
  if (ids.length === 0) return
  await sql`
    update integrations set previous_api_key_sha256 = null, previous_signing_secret = null, previous_until = null
    where id = any(${ids}::bigint[])
  `.execute(transaction)
}

/** Changes the page after `lastId`, and returns its last id; undefined for no row left. */
async function sealPage(
  transaction: Database,
  vault: Vault,
  { table, column, owner, place }: Column,
  lastId: number,
): Promise<{ lastId: number; changed: number; damaged: number } | undefined> {
  await vault.hold(transaction)
  const { rows } = await sql<{ id: number; owner: string; stored: string; isOver: boolean }>`
    select id, ${owner} as owner, ${sql.ref(column)} as stored, ${isOver(column)} as "isOver" from ${sql.table(table)}
    where id > ${lastId} and ${isToChange(column, vault.currentId)} order by id limit ${rowsPerPage} for no key update
  `.execute(transaction)
  const last = rows.at(-1)
  if (!last) return undefined
  // a damaged one would keep the old key needed for good
  const over = rows.filter((row) => row.isOver).map(({ id }) => id)
  await dropOver(transaction, over)
  const changes: { id: number; anew: string }[] = []
  for (const { id, owner, stored } of rows.filter((row) => !row.isOver)) {
    const plain = await openIntact(vault, stored, place(owner))
    if (plain !== undefined) changes.push({ id, anew: vault.seal(plain, place(owner)) })
  }
  await sql`
    update ${sql.table(table)} t set ${sql.ref(column)} = n.anew
    from unnest(${changes.map(({ id }) => id)}::bigint[], ${changes.map(({ anew }) => anew)}::text[]) as n (id, anew) where t.id = n.id
  `.execute(transaction)
  return { lastId: last.id, changed: changes.length, damaged: rows.length - over.length - changes.length }
}

/** Deletes data keys that nothing is encrypted with any more. */
async function dropUnused(transaction: Database): Promise<void> {
  await holdAlone(transaction)
  const isUsed = columns.map(
    ({ table, column }) =>
      sql`exists (select from ${sql.table(table)} where starts_with(${sql.ref(column)}, 'sealed:' || k.id || ':'))`,
  )
  await sql`delete from data_keys k where not current and not (${sql.join(isUsed, sql` or `)})`.execute(transaction)
}

/**
 * Brings all stored secrets into the vault's form. Rows that a vacuum cannot reach yet keep the old values on disk for a while.
 */
export async function sealStored(opened: OpenDatabase, vault: Vault): Promise<SealedCounts> {
  const { db } = opened
  const counts: SealedCounts = { receiverKeys: 0, signingSecrets: 0, damaged: 0 }
  if (!vault.isInUse) return counts
  for (const column of columns) {
    for (let lastId = 0; ; ) {
      const page = await rideOut(db, () => db.transaction().execute((each) => sealPage(each, vault, column, lastId)))
      if (!page) break
      lastId = page.lastId
      counts[column.table === 'users' ? 'receiverKeys' : 'signingSecrets'] += page.changed
      counts.damaged += page.damaged
    }
  }
  await rideOut(db, () => db.transaction().execute(dropUnused))
  const changed = columns.filter(({ table }) => counts[table === 'users' ? 'receiverKeys' : 'signingSecrets'] > 0)
  await vacuumTables(opened, [...new Set(changed.map(({ table }) => table))])
  return counts
}

/** How many secrets are stored as they are, and how many are encrypted. */
export async function countStored(db: Database): Promise<{ plain: number; sealed: number }> {
  const { rows } = await sql<{ plain: number; sealed: number }>`
    select count(*) filter (where not is_sealed) as plain, count(*) filter (where is_sealed) as sealed from (
      ${sql.join(
        columns.map(
          ({ table, column }) =>
            sql`select ${isToChange(column, undefined)} as is_sealed from ${sql.table(table)} where ${sql.ref(column)} is not null`,
        ),
        sql` union all `,
      )}
    ) s
  `.execute(db)
  return rows[0] ?? { plain: 0, sealed: 0 }
}
