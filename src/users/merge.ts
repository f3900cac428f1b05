/**
 * Merges the staged records of one file into the users, in the file's transaction: users are new, changed or unchanged.
 * Imports of users take turns. Comparing is one statement, which takes no lock; changes of known users are collected and written
 * at the end at once, so that nobody waits for long.
 */
import { type RawBuilder, sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { copyInto } from '../db/copy.ts'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'
import { type Connection, kyselyOn } from '../db/transaction.ts'
import { saveSearches } from '../matching/searches.ts'
import { countUnnamed } from '../records/named-in-raw.ts'
import { type RejectOptions, rejectFound, rejectStaged, type StagedReject } from '../records/staged-rejects.ts'
import { noteNamedUsers } from './complete.ts'
import { dropForgotten } from './forgotten.ts'
import { type Query, queryHash } from './query.ts'
import type { Resolver } from './stage.ts'

/** How records are resolved, and whom to tell. */
export interface MergeUsersOptions {
  resolver: Resolver
  signal?: AbortSignal | undefined
  onRejected: RejectOptions['onRejected']
  /** Called with the first record that has the same query twice. */
  onFolded?: ((record: FoldedRecord) => void) | undefined
  /** Of a complete import: takes the number of rejected records that name no user, a page of them at a time. */
  onUnnamed?: ((count: number) => void) | undefined
  /** Counts what the merge would do, and leaves the users as they are. */
  isDryRun?: boolean | undefined
}

/** How many records came to what. */
export interface UserMergeCounts {
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
  /** Records of users who were forgotten. */
  erased: number
  /** Queries that were the same as an earlier one of their user (contract 4.11). */
  folded: number
}

/**
 * Limits the users and queries of a part: PostgreSQL keeps the checks of their foreign keys until the statement ends, and their
 * distinct queries fit its working memory.
 */
const rowsPerPart = 30_000

/** Limits the searches in memory at a time: 50 of them may mean 4,000 postal codes each. */
const queriesPerFetch = 1_000

/** Of the queries whose searches are remembered: parts share most of theirs, and to resolve one is costly. */
const knownBytesMax = 12 * 1024 * 1024

/** A record that has the same query twice. */
export interface FoldedRecord {
  email: string
  line: number
}

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

/** How many queries were folded, and the first record with one. */
async function findFolded(db: Database): Promise<{ folded: number; first: FoldedRecord | undefined }> {
  const { rows } = await sql<FoldedRecord & { total: number }>`
    select email, line, sum(folded) over ()::bigint as total from staged_users where folded > 0 order by n limit 1
  `.execute(db)
  return { folded: rows[0]?.total ?? 0, first: rows[0] }
}

interface CollectedChanges extends Pick<UserMergeCounts, 'inserted' | 'updated' | 'unchanged'> {
  parts: number
}

/**
 * Collects in `changed_users` what the records change, in parts from 0. Of a new user `added` counts from 1; of a known one `id` is
 * set, and null means that the record does not change the field.
 */
async function collectChanges(db: Database): Promise<CollectedChanges> {
  await sql`
    insert into changed_users
    select u.id, case when u.id is null then count(*) filter (where u.id is null) over before end as added,
      sum(1 + coalesce(cardinality(c.queries), 0)) over before / ${sql.lit(rowsPerPart)} as part,
      s.email, s.receiver_key, s.subscribed, c.queries, case when c.queries is not null then s.home_key end as home_key
    -- looks each user up by itself: after many deletions the statistics take the users for few
    from staged_users s left join lateral (select * from users where email = s.email offset 0) u on true
    cross join lateral (
      select case when u.id is null or s.queries <> array(select json from queries where user_id = u.id order by position)
        then s.queries end as queries offset 0
    ) c
    -- who was known, has no key in the file and was removed a moment ago stays removed
    where case when u.id is null then s.raw is null
      else c.queries is not null or s.subscribed <> u.subscribed or key_mark(s.receiver_key) <> key_mark(u.receiver_key) end
    window before as (rows unbounded preceding)`.execute(db)
  await sql`analyze changed_users (id, added, part)`.execute(db)
  const { rows } = await sql<CollectedChanges>`
    select count(added) as inserted, count(id) as updated, (select count(*) from staged_users) - count(*) as unchanged,
      coalesce(max(part) + 1, 0) as parts from changed_users`.execute(db)
  return rows[0] as CollectedChanges
}

/**
 * The identity before the first of `count` new users, whose identities follow each other: only imports take any, and they take
 * turns.
 */
async function takeIds(db: Database, count: number): Promise<number> {
  const { rows } = await sql<{ last: number }>`
    select setval(ids, nextval(ids) + ${count}::bigint - 1) as last
    from (select pg_get_serial_sequence('users', 'id')::regclass) s (ids)`.execute(db)
  return (rows[0]?.last ?? 0) - count
}

/** The ids of searches by queries as JSON. The transaction keeps these searches from being deleted. */
type SearchIds = LRUCache<string, number>

/** The searches of queries, in their order; those that are not in `known` are resolved and stored. */
async function findSearchIds(
  db: Database,
  queries: readonly { json: string; query: Query }[],
  resolver: Resolver,
  known: SearchIds,
): Promise<number[]> {
  const unknown = queries.filter(({ json }) => !known.has(json))
  const searches = unknown.map(({ query }) => {
    const search = resolver.resolve(query)
    if ('refused' in search) throw new Error('a query that was refused was staged')
    return search
  })
  const stored = await saveSearches(db, searches)
  const found = new Map(unknown.map(({ json }, at) => [json, stored[at] as number]))
  const ids = queries.map(({ json }) => (found.get(json) ?? known.get(json)) as number)
  for (const [json, id] of found) known.set(json, id)
  return ids
}

/** Fills `given_queries` with the queries of a part, each once. */
async function resolveQueries(
  connection: Connection,
  part: number,
  known: SearchIds,
  { resolver, signal }: MergeUsersOptions,
): Promise<void> {
  const db = kyselyOn(connection)
  await sql`truncate given_queries`.execute(db)
  await sql`
    declare given no scroll cursor for
    select distinct json from changed_users cross join unnest(queries) json where part = ${sql.lit(part)}`.execute(db)
  for (;;) {
    signal?.throwIfAborted()
    const { rows } = await sql<{ json: string }>`fetch ${sql.lit(queriesPerFetch)} from given`.execute(db)
    if (rows.length === 0) break
    const queries = rows.map(({ json }) => ({ json, query: JSON.parse(json) as Query }))
    const ids = await findSearchIds(db, queries, resolver, known)
    await copyInto(connection, 'given_queries', async (copied, flush) => {
      for (const [at, { json, query }] of queries.entries()) {
        copied.begin(6)
        copied.text(query.type)
        copied.text(query.value)
        copied.double(query.radius)
        copied.text(queryHash(query))
        copied.text(json)
        copied.bigint(ids[at])
        if (copied.isFull) await flush()
      }
    })
  }
  await sql`close given`.execute(db)
}

/** Inserts the queries of the users in `changed_users c` for whom `where` holds. `id` is SQL for their identity. */
async function insertQueries(
  db: Database,
  table: 'queries' | 'changed_queries',
  id: RawBuilder<unknown>,
  where: RawBuilder<boolean>,
): Promise<void> {
  await sql`
    insert into ${sql.table(table)} (user_id, position, type, value, radius, hash, json, search_id)
    select ${id}, given.at - 1, q.type, q.value, q.radius, q.hash, q.json, q.search_id
    from changed_users c cross join unnest(c.queries) with ordinality given (json, at) join given_queries q on q.json = given.json
    where ${where}`.execute(db)
}

/** Inserts the new users with their queries, and collects in `changed_queries` those of known users. */
async function insertParts(
  connection: Connection,
  changes: CollectedChanges,
  options: MergeUsersOptions,
): Promise<void> {
  const db = kyselyOn(connection)
  const known: SearchIds = new LRUCache({
    maxSize: knownBytesMax,
    sizeCalculation: (_, json) => 200 + json.length,
  })
  const before = changes.inserted > 0 ? await takeIds(db, changes.inserted) : 0
  for (let part = 0; part < changes.parts; part++) {
    await resolveQueries(connection, part, known, options)
    const id = sql`${before}::bigint + c.added`
    const isNew = sql<boolean>`c.part = ${part} and c.added is not null`
    await sql`
      insert into users (id, email, receiver_key, subscribed, home_key) overriding system value
      select ${id}, email, receiver_key, coalesce(subscribed, true), coalesce(home_key, '') from changed_users c
      where ${isNew}`.execute(db)
    await insertQueries(db, 'queries', id, isNew)
    await insertQueries(db, 'changed_queries', sql`c.id`, sql`c.part = ${part} and c.id is not null`)
  }
}

/** Writes the collected changes. From here to the end of the transaction the users that change are locked, and no others. */
async function applyUpdates(db: Database): Promise<void> {
  await sql`analyze changed_queries`.execute(db)
  // locks in one order, so that no two imports wait for each other
  await sql`
    select count(*) from (select id from changed_users where id is not null order by id) c
    cross join lateral (select from users where id = c.id offset 0 for no key update) u`.execute(db)
  // what was owed before a user was unsubscribed is not owed again
  await sql`
    update subscription_pushes set owed_at = null where owed_at is not null and user_id in (
      select u.id from changed_users c join users u on u.id = c.id where not u.subscribed)`.execute(db)
  // a user removed meanwhile stays removed
  await sql`
    update users u set receiver_key = coalesce(c.receiver_key, u.receiver_key), subscribed = coalesce(c.subscribed, u.subscribed),
      home_key = coalesce(c.home_key, u.home_key),
      due_since = case when u.subscribed and exists (select from queries q where q.user_id = u.id) then u.due_since else now() end
    from changed_users c where u.id = c.id`.execute(db)
  await sql`delete from queries q using changed_users c where q.user_id = c.id and c.queries is not null`.execute(db)
  await sql`
    insert into queries select c.* from changed_queries c
    where exists (select from users u where u.id = c.user_id offset 0)`.execute(db)
}

/** Merges `staged_users`, and deletes and tells its bad records. Throws the reason of `signal`. */
export async function mergeUsers(connection: Connection, options: MergeUsersOptions): Promise<UserMergeCounts> {
  const db = kyselyOn(connection)
  const { onUnnamed } = options
  const onPage =
    onUnnamed &&
    (async (page: readonly StagedReject[]) =>
      onUnnamed(await countUnnamed(page, 'email', (emails) => noteNamedUsers(connection, emails))))
  const reject = { table: 'staged_users', key: 'email', onRejected: options.onRejected, onPage }
  const noKey = { path: 'receiverApiKey', message: 'is missing: a new user needs one' }
  // first: no bad record of theirs is told
  const known = await dropForgotten(connection)
  const repeated = await dropRepeated(db)
  // records that are bad by themselves need no turn
  const bad = await rejectStaged(connection, reject)
  await sql`select pg_advisory_xact_lock(${locks.usersImport})`.execute(db)
  // those who were forgotten meanwhile: who forgets a user takes the same turn
  const erased = known + (await dropForgotten(connection))
  const rejected = bad.rejected + (await rejectFound(connection, isUnknown, noKey, reject))
  const { folded, first } = await findFolded(db)
  if (first) options.onFolded?.(first)
  const changes = await collectChanges(db)
  const { inserted, updated, unchanged } = changes
  if (!options.isDryRun) {
    await insertParts(connection, changes, options)
    if (updated > 0) await applyUpdates(db)
  }
  return { inserted, updated, unchanged, rejected, repeated, erased, folded }
}
