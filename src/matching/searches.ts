/** Stores searches, each meaning once, and resolves them again when a newer program resolves queries in another way. */
import { type Selectable, sql } from 'kysely'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'
import type { Places } from '../places/places.ts'
import { type ResolvedSearch, resolverVersion, resolveSearch } from './search.ts'

type StoredSearch = Pick<ResolvedSearch, 'meaningSha256' | 'kind' | 'places' | 'words'>

const batchSize = 500
/** Each may mean 4,000 postal codes. */
const queriesPerFetch = 500

async function saveBatch(db: Database, searches: readonly StoredSearch[], ids: Map<string, number>): Promise<void> {
  const rows = searches.map(({ meaningSha256, kind, places, words }) => ({
    meaning_sha256: meaningSha256,
    kind,
    places,
    words,
    resolver: resolverVersion,
  }))
  // on a conflict nothing is returned, so that a row which is there already is not rewritten; the second look finds it
  await db
    .insertInto('searches')
    .values(rows)
    .onConflict((on) => on.column('meaning_sha256').doNothing())
    .execute()
  const found = await db
    .selectFrom('searches')
    .select(['id', 'meaning_sha256'])
    .where(
      'meaning_sha256',
      'in',
      rows.map((row) => row.meaning_sha256),
    )
    // keeps the rows from being deleted before a query refers to them
    .forKeyShare()
    .execute()
  for (const { id, meaning_sha256 } of found) ids.set(meaning_sha256.toString('hex'), id)
}

/** Inserts what is not there yet, in a stable order, and returns the ids of all, in the order given. `db` may be a transaction. */
export async function saveSearches(db: Database, searches: readonly StoredSearch[]): Promise<number[]> {
  const hexOf = ({ meaningSha256 }: StoredSearch) => meaningSha256.toString('hex')
  const hexes = searches.map(hexOf)
  const distinct = new Map(searches.map((search, at) => [hexes[at] as string, search]))
  const ids = new Map<string, number>()
  // two imports at once wait for each other's rows: sorted, they never wait in a circle
  const sorted = [...distinct].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, search]) => search)
  for (let at = 0; at < sorted.length; at += batchSize) await saveBatch(db, sorted.slice(at, at + batchSize), ids)
  return hexes.map((hex) => {
    const id = ids.get(hex)
    if (id === undefined) throw new Error('a search was not stored')
    return id
  })
}

/** Whether searches are stored that an older program resolved. */
export async function hasOutdated(db: Database): Promise<boolean> {
  const { rows } = await sql`select 1 from searches where resolver < ${resolverVersion} limit 1`.execute(db)
  return rows.length > 0
}

/**
 * Resolves again every query whose search an older program resolved, and returns how many queries now mean another search.
 * A query that is refused now keeps its search.
 */
export async function resolveOutdated(db: Database, places: Places): Promise<number> {
  let changed = 0
  for (;;) {
    const outdated = await db
      .selectFrom('searches')
      .select('id')
      .where('resolver', '<', resolverVersion)
      .limit(batchSize)
      .execute()
    if (outdated.length === 0) return changed
    const searchIds = outdated.map(({ id }) => id)
    changed += await db.transaction().execute(async (transaction) => {
      const moved = await moveQueries(transaction, places, searchIds)
      await transaction
        .updateTable('searches')
        .set({ resolver: resolverVersion })
        .where('id', 'in', searchIds)
        .execute()
      return moved
    })
  }
}

interface StoredQuery extends Pick<Selectable<Tables['queries']>, 'type' | 'value' | 'radius'> {
  userId: number
  position: number
  searchId: number
}

/** Resolves the queries of the searches anew, some at a time, since a search may be half of all users'; returns how many moved. */
async function moveQueries(transaction: Database, places: Places, searchIds: readonly number[]): Promise<number> {
  await sql`
    declare outdated_queries no scroll cursor for
    select user_id as "userId", position, type, value, radius, search_id as "searchId" from queries where search_id = any (${searchIds})
  `.execute(transaction)
  let moved = 0
  for (;;) {
    const { rows } = await sql<StoredQuery>`fetch ${sql.lit(queriesPerFetch)} from outdated_queries`.execute(
      transaction,
    )
    if (rows.length === 0) break
    moved += await moveSome(transaction, places, rows)
  }
  await sql`close outdated_queries`.execute(transaction)
  return moved
}

async function moveSome(transaction: Database, places: Places, queries: readonly StoredQuery[]): Promise<number> {
  const resolved = queries.map((query) => ({ query, search: resolveSearch(places, query) }))
  const kept = resolved.flatMap(({ query, search }) => ('refused' in search ? [] : [{ query, search }]))
  if (kept.length === 0) return 0
  const ids = await saveSearches(
    transaction,
    kept.map(({ search }) => search),
  )
  const moved = kept.flatMap(({ query }, at) =>
    ids[at] === query.searchId ? [] : [{ ...query, to: ids[at] as number }],
  )
  await sql`
    update queries q set search_id = n.search_id
    from unnest(${moved.map(({ userId }) => userId)}::bigint[], ${moved.map(({ position }) => position)}::integer[],
      ${moved.map(({ to }) => to)}::bigint[]) as n (user_id, position, search_id)
    where q.user_id = n.user_id and q.position = n.position
  `.execute(transaction)
  return moved.length
}
