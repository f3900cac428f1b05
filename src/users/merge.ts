/**
 * Merges the staged records of one file into the users: who is new, whose record says something else than before, who is as
 * they were. All of it in the transaction of the file; imports of users take turns.
 */
import { sql } from 'kysely'
import { locks } from '../db/locks.ts'
import type { Database } from '../db/open.ts'
import { type Connection, kyselyOn } from '../db/transaction.ts'
import { type RejectOptions, rejectStaged } from '../leads/staged-rejects.ts'
import type { ResolvedSearch } from '../matching/search.ts'
import { saveSearches } from '../matching/searches.ts'
import { type Query, queryHash, serialiseQuery } from './query.ts'
import type { Resolver } from './stage.ts'
import type { UserPatch } from './user.ts'

export interface MergeUsersOptions {
  resolver: Resolver
  signal?: AbortSignal | undefined
  onRejected: RejectOptions['onRejected']
}

export interface UserMergeCounts {
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
}

/** So many users, and so many bytes of their records, are in the process at a time: 50 of them may mean 4,000 postal codes. */
const batchUsers = 1_000
const batchBytes = 256 * 1024

interface StagedRow {
  email: string
  record: string
  /** Null where the user is new. */
  id: number | null
  receiver_key: string | null
  subscribed: boolean | null
  /** Their JSON, in the user's order. */
  queries: string[] | null
}

interface Change {
  email: string
  id: number | null
  receiverKey: string
  subscribed: boolean
  /** Undefined where they are as they were. */
  queries: { query: Query; search: ResolvedSearch }[] | undefined
}

/** What the record changes; undefined for nothing. */
function planChange(row: StagedRow, resolver: Resolver): Change | undefined {
  const patch = JSON.parse(row.record) as Omit<UserPatch, 'email'>
  const receiverKey = patch.receiverApiKey ?? row.receiver_key ?? ''
  const subscribed = patch.subscribed ?? row.subscribed ?? true
  const known = row.queries ?? []
  const given = row.id === null ? (patch.queries ?? []) : patch.queries
  const isSame = given?.length === known.length && given.every((query, at) => serialiseQuery(query) === known[at])
  const queries = given && !(isSame && row.id !== null) ? given : undefined
  if (row.id !== null && !queries && receiverKey === row.receiver_key && subscribed === row.subscribed) return undefined
  const resolved = queries?.map((query) => {
    const search = resolver.resolve(query)
    if ('refused' in search) throw new Error('a query that was refused was staged')
    return { query, search }
  })
  return { email: row.email, id: row.id, receiverKey, subscribed, queries: resolved }
}

/** contract 4.9 has users near each other served together: the place of the first query that has one. */
const placeOf = (queries: NonNullable<Change['queries']>) =>
  queries.find(({ search }) => search.place !== '')?.search.place ?? ''

/** SQL over `staged_users s`: a new user needs a receiver key. */
const isUnknown = 's.raw is not null and not exists (select from users u where u.email = s.email)'

/** Of the records with one e-mail the last counts, good or bad; whatever is bad by itself is told. Returns how many do not count. */
async function dropRepeated(db: Database): Promise<number> {
  const { numAffectedRows } = await sql`
    delete from staged_users s using (
      select email, max(n) as n from staged_users group by email having count(*) > 1
    ) last
    where s.email = last.email and s.n < last.n and s.problem is null`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/** The batches, as first and last numbers of records. */
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
  // locked in one order, so that what subscribes or removes users meanwhile waits, and nobody in a circle
  await sql`
    select 1 from users where email in (select email from staged_users where n between ${first} and ${last})
    order by id for no key update`.execute(db)
  const { rows } = await sql<StagedRow>`
    select s.email, s.record, u.id, u.receiver_key, u.subscribed,
      (select array_agg(q.json order by q.position) from queries q where q.user_id = u.id) as queries
    from staged_users s left join users u on u.email = s.email where s.n between ${first} and ${last} order by s.n
  `.execute(db)
  return rows
}

async function insertUsers(db: Database, changes: readonly Change[]): Promise<Map<string, number>> {
  if (changes.length === 0) return new Map()
  const { rows } = await sql<{ id: number; email: string }>`
    insert into users (email, receiver_key, subscribed, place)
    select * from unnest(${changes.map(({ email }) => email)}::text[], ${changes.map((change) => change.receiverKey)}::text[],
      ${changes.map(({ subscribed }) => subscribed)}::boolean[],
      ${changes.map(({ queries }) => placeOf(queries ?? []))}::text[])
    returning id, email`.execute(db)
  return new Map(rows.map(({ id, email }) => [email, id]))
}

async function updateUsers(db: Database, changes: readonly Change[]): Promise<void> {
  if (changes.length === 0) return
  // like `users unsubscribe`: what is owed and was not begun ends
  await sql`
    update users u set receiver_key = c.receiver_key, subscribed = c.subscribed, place = coalesce(c.place, u.place),
      due_since = case when u.subscribed and exists (select from queries q where q.user_id = u.id) then u.due_since else now() end,
      subscription_owed_at = case when c.subscribed then u.subscription_owed_at end
    from unnest(${changes.map(({ id }) => id)}::bigint[], ${changes.map((change) => change.receiverKey)}::text[],
      ${changes.map(({ subscribed }) => subscribed)}::boolean[],
      ${changes.map(({ queries }) => (queries ? placeOf(queries) : null))}::text[])
      as c (id, receiver_key, subscribed, place)
    where u.id = c.id`.execute(db)
  const replaced = changes.filter(({ queries }) => queries).map(({ id }) => id)
  if (replaced.length > 0) await sql`delete from queries where user_id = any(${replaced}::bigint[])`.execute(db)
}

async function insertQueries(
  db: Database,
  changes: readonly Change[],
  ids: ReadonlyMap<string, number>,
): Promise<void> {
  const rows = changes.flatMap(({ id, email, queries = [] }) =>
    queries.map(({ query, search }, position) => ({ userId: id ?? ids.get(email), position, query, search })),
  )
  if (rows.length === 0) return
  const searchIds = await saveSearches(
    db,
    rows.map(({ search }) => search),
  )
  await sql`
    insert into queries (user_id, position, type, value, radius, hash, json, search_id)
    select * from unnest(${rows.map(({ userId }) => userId)}::bigint[], ${rows.map(({ position }) => position)}::integer[],
      ${rows.map(({ query }) => query.type)}::text[], ${rows.map(({ query }) => query.value)}::text[],
      ${rows.map(({ query }) => query.radius)}::double precision[], ${rows.map(({ query }) => queryHash(query))}::text[],
      ${rows.map(({ query }) => serialiseQuery(query))}::text[], ${searchIds}::bigint[])`.execute(db)
}

/** Merges `staged_users`. */
export async function mergeUsers(connection: Connection, options: MergeUsersOptions): Promise<UserMergeCounts> {
  const db = kyselyOn(connection)
  const { onRejected } = options
  const otherwise = { path: 'receiverApiKey', message: 'is missing: a new user needs one' }
  const reject = (where: string) => rejectStaged(connection, { table: 'staged_users', where, otherwise, onRejected })
  const repeated = await dropRepeated(db)
  // what is wrong by itself needs no turn
  const bad = await reject('s.problem is not null')
  await sql`select pg_advisory_xact_lock(${locks.usersImport})`.execute(db)
  const rejected = bad.rejected + (await reject(isUnknown)).rejected
  let [inserted, updated, unchanged] = [0, 0, 0]
  for (const batch of await planBatches(db)) {
    options.signal?.throwIfAborted()
    const rows = await findBatch(db, batch)
    const changes = rows.flatMap((row) => planChange(row, options.resolver) ?? [])
    const added = changes.filter(({ id }) => id === null)
    const changed = changes.filter(({ id }) => id !== null)
    const ids = await insertUsers(db, added)
    await updateUsers(db, changed)
    await insertQueries(db, changes, ids)
    inserted += added.length
    updated += changed.length
    unchanged += rows.length - changes.length
  }
  return { inserted, updated, unchanged, rejected, repeated }
}
