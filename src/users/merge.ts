/**
 * Merges the staged records of one file into the users, in the file's transaction: users are new, changed or unchanged.
 * Imports of users take turns. Comparing takes no lock, however long the file is; changes are collected and written at the
 * end at once, so that nobody waits for long.
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { copyInto } from '../db/copy.ts'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'
import { type Connection, kyselyOn } from '../db/transaction.ts'
import type { ResolvedSearch } from '../matching/search.ts'
import { type SearchIds, saveSearches } from '../matching/searches.ts'
import { type RejectOptions, rejectStaged } from '../records/staged-rejects.ts'
import { markOf } from '../secrets/cipher.ts'
import { type Query, queryHash, serialiseQuery } from './query.ts'
import type { Resolver } from './stage.ts'
import type { UserPatch } from './user.ts'

/** How records are resolved, and whom to tell. */
export interface MergeUsersOptions {
  resolver: Resolver
  signal?: AbortSignal | undefined
  onRejected: RejectOptions['onRejected']
  /** Called with the first record that has the same query twice. */
  onFolded?: ((record: FoldedRecord) => void) | undefined
}

/** How many records came to what. */
export interface UserMergeCounts {
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
  /** Queries that were the same as an earlier one of their user (contract 4.11). */
  folded: number
}

/** Limits the users, and the bytes of their records, in memory at a time: 50 of them may mean 4,000 postal codes each. */
const batchUsers = 1_000
const batchBytes = 256 * 1024

/** Searches whose ids are remembered, each some 200 bytes. */
const searchIdsMax = 20_000

/** A record that has the same query twice. */
export interface FoldedRecord {
  email: string
  line: number
}

interface StagedRow {
  email: string
  record: string
  /** Null where the user is new. */
  id: number | null
  receiver_key: string | null
  subscribed: boolean | null
  /** The JSON of the user's queries, in order; null for none. */
  queries: string[] | null
}

interface Change {
  email: string
  id: number | null
  /** Null where the record has no such field. */
  receiverKey: string | null
  subscribed: boolean | null
  /** Undefined where the queries are unchanged. */
  queries: { query: Query; search: ResolvedSearch }[] | undefined
}

type KnownChange = Change & { id: number }

/** What the record changes; undefined where it changes nothing. */
function planChange(row: StagedRow, resolver: Resolver): Change | undefined {
  const patch = JSON.parse(row.record) as Omit<UserPatch, 'email'>
  const receiverKey = patch.receiverApiKey ?? null
  const subscribed = patch.subscribed ?? null
  const known = row.queries ?? []
  const given = row.id === null ? (patch.queries ?? []) : patch.queries
  const isSame = given?.length === known.length && given.every((query, at) => serialiseQuery(query) === known[at])
  const queries = given && !(isSame && row.id !== null) ? given : undefined
  const isSameKey = receiverKey === null || markOf(receiverKey) === markOf(row.receiver_key ?? '')
  if (row.id !== null && !queries && isSameKey && (subscribed ?? row.subscribed) === row.subscribed) return undefined
  const resolved = queries?.map((query) => {
    const search = resolver.resolve(query)
    if ('refused' in search) throw new Error('a query that was refused was staged')
    return { query, search }
  })
  return { email: row.email, id: row.id, receiverKey, subscribed, queries: resolved }
}

/** The postal key of the first query that names a place: users near each other are served together (contract 4.9). */
const homeKeyOf = (queries: NonNullable<Change['queries']>) =>
  queries.find(({ search }) => search.homeKey !== '')?.search.homeKey ?? ''

/** SQL over `staged_users s`: a new user needs a receiver key. */
const isUnknown = 's.raw is not null and not exists (select from users u where u.email = s.email)'

/**
 * Deletes good records that a later one with the same e-mail replaces, good or bad, and returns their number. Bad records
 * stay: each is told.
 */
async function dropRepeated(db: Database): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from staged_users s using (
      select email, max(n) as n from staged_users group by email having count(*) > 1
    ) last
    where s.email = last.email and s.n < last.n and s.problem is null`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** The batches, each as the first and last number of its records. */
async function planBatches(db: Database): Promise<{ first: number; last: number }[]> {
  await sql`create index on staged_users (n)`.execute(db)
  await sql`analyze staged_users`.execute(db)
  const { rows } = await sql<{ first: number; last: number }>`
    select min(n) as first, max(n) as last from (
      select n, row_number() over (order by n) / ${sql.lit(batchUsers)} as by_users,
        sum(octet_length(record)) over (order by n) / ${sql.lit(batchBytes)} as by_bytes from staged_users
    ) s group by by_users, by_bytes order by 1`.execute(db)
  return rows
}

async function findBatch(db: Database, { first, last }: { first: number; last: number }): Promise<StagedRow[]> {
  const { rows } = await sql<StagedRow>`
    select s.email, s.record, u.id, u.receiver_key, u.subscribed,
      (select array_agg(q.json order by q.position) from queries q where q.user_id = u.id) as queries
    -- looks each user up by itself: after many deletions the statistics take the users for few
    from staged_users s left join lateral (select * from users where email = s.email offset 0) u on true
    where s.n between ${first} and ${last} order by s.n
  `.execute(db)
  return rows
}

/** How many queries were folded, and the first record with one. */
async function findFolded(db: Database): Promise<{ folded: number; first: FoldedRecord | undefined }> {
  const { rows } = await sql<FoldedRecord & { total: number }>`
    select email, line, sum(folded) over ()::bigint as total from staged_users where folded > 0 order by n limit 1
  `.execute(db)
  return { folded: rows[0]?.total ?? 0, first: rows[0] }
}

/**
 * The first of `count` identities of new users, which follow each other: only imports take any, and they take turns. They are taken
 * before the rows are written, since the queries go into a copy of their own.
 */
async function takeIds(db: Database, count: number): Promise<number> {
  const { rows } = await sql<{ first: number }>`
    select setval(ids, nextval(ids) + ${count}::bigint - 1) - ${count}::bigint + 1 as first
    from (select pg_get_serial_sequence('users', 'id')::regclass) s (ids)`.execute(db)
  return rows[0]?.first as number
}

async function insertUsers(connection: Connection, changes: readonly KnownChange[]): Promise<void> {
  if (changes.length === 0) return
  await copyInto(connection, 'users (id, email, receiver_key, subscribed, home_key)', async (rows, flush) => {
    for (const { id, email, receiverKey, subscribed, queries } of changes) {
      rows.begin(5)
      rows.bigint(id)
      rows.text(email)
      rows.text(receiverKey ?? undefined)
      rows.boolean(subscribed ?? true)
      rows.text(homeKeyOf(queries ?? []))
      if (rows.isFull) await flush()
    }
  })
}

async function collectUpdates(connection: Connection, changes: readonly KnownChange[]): Promise<void> {
  if (changes.length === 0) return
  await copyInto(connection, 'changed_users (id, receiver_key, subscribed, home_key)', async (rows, flush) => {
    for (const { id, receiverKey, subscribed, queries } of changes) {
      rows.begin(4)
      rows.bigint(id)
      rows.text(receiverKey ?? undefined)
      if (subscribed === null) rows.null()
      else rows.boolean(subscribed)
      rows.text(queries && homeKeyOf(queries))
      if (rows.isFull) await flush()
    }
  })
}

const queryColumns = 'user_id, position, type, value, radius, hash, json, search_id'

async function insertQueries(
  connection: Connection,
  table: 'queries' | 'changed_queries',
  changes: readonly KnownChange[],
  searchIds: SearchIds,
): Promise<void> {
  const queriesOf = ({ queries = [] }: KnownChange) => queries
  const searches = changes.flatMap((change) => queriesOf(change).map(({ search }) => search))
  if (searches.length === 0) return
  const ids = (await saveSearches(kyselyOn(connection), searches, searchIds)).values()
  await copyInto(connection, `${table} (${queryColumns})`, async (rows, flush) => {
    for (const change of changes) {
      for (const [position, { query }] of queriesOf(change).entries()) {
        rows.begin(8)
        rows.bigint(change.id)
        rows.integer(position)
        rows.text(query.type)
        rows.text(query.value)
        rows.double(query.radius)
        rows.text(queryHash(query))
        rows.text(serialiseQuery(query))
        rows.bigint(ids.next().value)
        if (rows.isFull) await flush()
      }
    }
  })
}

async function createChanges(db: Database): Promise<void> {
  await sql`
    create temp table changed_users (id bigint primary key, receiver_key text, subscribed boolean, home_key text) on commit drop
  `.execute(db)
  await sql`create temp table changed_queries (like queries) on commit drop`.execute(db)
}

/** Writes the collected changes. From here to the end of the transaction the users that change are locked, and no others. */
async function applyUpdates(db: Database): Promise<void> {
  await sql`analyze changed_users, changed_queries`.execute(db)
  // locks in one order, so that no two imports wait for each other
  await sql`
    select count(*) from (select id from changed_users order by id) c
    cross join lateral (select from users where id = c.id offset 0 for no key update) u`.execute(db)
  // a user removed meanwhile stays removed. As with `users unsubscribe`, an owed push that has not begun ends
  await sql`
    update users u set receiver_key = coalesce(c.receiver_key, u.receiver_key), subscribed = coalesce(c.subscribed, u.subscribed),
      home_key = coalesce(c.home_key, u.home_key),
      due_since = case when u.subscribed and exists (select from queries q where q.user_id = u.id) then u.due_since else now() end,
      subscription_owed_at = case when coalesce(c.subscribed, u.subscribed) then u.subscription_owed_at end
    from changed_users c where u.id = c.id`.execute(db)
  await sql`delete from queries q using changed_users c where q.user_id = c.id and c.home_key is not null`.execute(db)
  await sql`
    insert into queries select c.* from changed_queries c
    where exists (select from users u where u.id = c.user_id offset 0)`.execute(db)
}

/** Merges `staged_users`, and deletes and tells its bad records. Throws the reason of `signal`. */
export async function mergeUsers(connection: Connection, options: MergeUsersOptions): Promise<UserMergeCounts> {
  const db = kyselyOn(connection)
  const { onRejected } = options
  const otherwise = { path: 'receiverApiKey', message: 'is missing: a new user needs one' }
  const reject = (where: string) => rejectStaged(connection, { table: 'staged_users', where, otherwise, onRejected })
  const repeated = await dropRepeated(db)
  // records that are bad by themselves need no turn
  const bad = await reject('s.problem is not null')
  await sql`select pg_advisory_xact_lock(${locks.usersImport})`.execute(db)
  const rejected = bad.rejected + (await reject(isUnknown)).rejected
  const { folded, first } = await findFolded(db)
  if (first) options.onFolded?.(first)
  await createChanges(db)
  const searchIds = new LRUCache<string, number>({ max: searchIdsMax })
  let [inserted, updated, unchanged] = [0, 0, 0]
  for (const batch of await planBatches(db)) {
    options.signal?.throwIfAborted()
    const rows = await findBatch(db, batch)
    const changes = rows.flatMap((row) => planChange(row, options.resolver) ?? [])
    const fresh = changes.filter(({ id }) => id === null)
    const firstId = fresh.length === 0 ? 0 : await takeIds(db, fresh.length)
    const added = fresh.map((change, at) => ({ ...change, id: firstId + at }))
    const changed = changes.filter((change): change is KnownChange => change.id !== null)
    await insertUsers(connection, added)
    await insertQueries(connection, 'queries', added, searchIds)
    await collectUpdates(connection, changed)
    await insertQueries(connection, 'changed_queries', changed, searchIds)
    inserted += added.length
    updated += changed.length
    unchanged += rows.length - changes.length
  }
  if (updated > 0) await applyUpdates(db)
  return { inserted, updated, unchanged, rejected, repeated, folded }
}
