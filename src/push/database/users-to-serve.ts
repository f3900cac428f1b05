/**
 * Finds the users whom a push has to serve, and shares them among processes: each takes a range of users, in the order of their places,
 * that no live process has. A range only keeps others from planning the same users; claims keep a user from being served twice.
 */
import { type RawBuilder, sql } from 'kysely'
import { holdsLease, isLive, liveWorker } from '../../db/leases.ts'
import type { Database } from '../../db/open.ts'
import { periodBegins } from '../../deliveries/runs.ts'
import { type Cursor, type Pass, rangeScopeOf, type UserToServe, weeklyScope } from '../whom/pass.ts'
import { goldenRatio, reserveFactor, reserveIds } from '../whom/reserve.ts'

/** A pass whose users are narrowed further, for callers who take no range. */
export type NarrowedPass = Pass & { only: RawBuilder<boolean> }

/**
 * SQL: whether the user `u` has a claim in the scope. `offset 0` keeps it a look into the index for each user: the statistics know
 * nothing of a scope that began today, and a plan that reads all its claims would do so for each user.
 */
export const isClaimed = (scope: string) =>
  sql<boolean>`exists (select from claims c where c.scope = ${scope} and c.email = u.email offset 0)`

/** SQL: whether the user `u` has queries. */
export const hasQueries = sql<boolean>`exists (select from queries q where q.user_id = u.id offset 0)`

const isTheLastWordAmong = (others: RawBuilder<unknown>) => sql<boolean>`not exists (
  select from deliveries e where e.user_id = d.user_id and e.created_at > d.created_at and e.status in ('delivered', 'pending')
    and not e.doubtful ${others} offset 0)`

/** SQL: whether no later delivery to the user of the delivery `d` is pending, or delivered without doubt. */
export const isTheLastWord = isTheLastWordAmong(sql``)

/** The same, of the deliveries of its period: the next week makes nothing good. */
export const isTheLastWordOfPeriod = isTheLastWordAmong(sql`and e.period = d.period`)

/** SQL: when the run began; without one, now. */
const beginningOf = (runId: number | undefined) =>
  sql`coalesce((select r.started_at from runs r where r.id = ${runId ?? null}), now())`

function meansOf({ period, meant }: Pass): RawBuilder<boolean> {
  switch (meant.who) {
    case 'everybody':
      return sql`true`
    case 'served':
      return sql`exists (select from claims w where w.scope = ${weeklyScope(period)} and w.email = u.email
        and w.claimed_at < ${beginningOf(meant.before)} offset 0)`
    case 'failed':
      return sql`exists (
        select from deliveries d where d.user_id = u.id and d.period = ${period}
          and (d.status = any (${meant.ends}) or ${meant.ends.includes('doubtful')} and d.doubtful)
          and d.created_at >= ${periodBegins(sql`${period}::text`)} and ${isTheLastWord} offset 0
      )`
  }
}

/** SQL over `u`: whether the user belongs to the pass. */
export const isMeant = (pass: Pass | NarrowedPass): RawBuilder<boolean> =>
  'only' in pass ? sql`${meansOf(pass)} and ${pass.only}` : meansOf(pass)

/** SQL: whether the user `u` is owed a weekly delivery of the period, whether or not a push is about to begin it. */
export const isOwedWeekly = (period: string) =>
  sql<boolean>`(u.subscribed and ${hasQueries} and not ${isClaimed(weeklyScope(period))})`

/**
 * SQL: the row source of the users `u` who are owed a subscription push since `o.owed_at`. The push of a user without queries waits for
 * queries, not for a process.
 */
export const owedSubscriptions = sql`subscription_pushes o
  join users u on u.id = o.user_id and o.owed_at is not null and u.subscribed and ${hasQueries}`

/** SQL over `u`: whether the pass still has to serve the user. */
export const isOwedBy = (pass: Pass | NarrowedPass) =>
  sql<boolean>`(u.subscribed and ${hasQueries} and not ${isClaimed(pass.scope)} and ${isMeant(pass)})`

/**
 * By user id: how many leads the user's last delivery in the scopes `compared` had, if it was for the same queries, as `marks` tell. Each
 * scope is a look into the index of claims; the first one is enough if the queries are unchanged.
 */
export async function findLeadsBefore(
  db: Database,
  users: readonly UserToServe[],
  marks: ReadonlyMap<number, number>,
  compared: Pass['compared'],
): Promise<Map<number, number>> {
  if (compared.length === 0) return new Map()
  const looks = compared.map(
    (scope) =>
      sql`(select c.leads from claims c where c.scope = ${scope} and c.email = u.email and c.queries_mark = u.mark)`,
  )
  const { rows } = await sql<{ id: number; leads: number | null }>`
    select u.id, coalesce(${sql.join(looks)}) as leads from unnest(
      ${users.map(({ id }) => id)}::bigint[], ${users.map(({ email }) => email)}::text[],
      ${users.map(({ id }) => marks.get(id))}::integer[]) as u (id, email, mark)
  `.execute(db)
  return new Map(rows.flatMap(({ id, leads }) => (leads === null ? [] : [[id, leads]])))
}

const after = (cursor: Cursor | undefined) =>
  cursor === undefined ? sql`true` : sql`(u.home_key, u.id) > (${cursor.homeKey}, ${cursor.id})`

const usersPerLook = 5_000

/**
 * SQL: the next subscribed users behind `cursor`, in order. The limit bounds the statement, and because of it PostgreSQL uses the index
 * with any statistics.
 */
const lookedAt = (cursor: Cursor | undefined) => sql`(
  select * from users u where u.subscribed and ${after(cursor)} order by u.home_key, u.id limit ${usersPerLook})`

/** The last user of `lookedAt`; undefined: no users lie behind. */
async function findLookEnd(db: Database, cursor: Cursor | undefined): Promise<Cursor | undefined> {
  const { rows } = await sql<Cursor>`
    select u.home_key as "homeKey", u.id from users u where u.subscribed and ${after(cursor)}
    order by u.home_key, u.id offset ${usersPerLook - 1} limit 1
  `.execute(db)
  return rows[0]
}

/** The next users of a pass behind `cursor`, in order, up to `limit`; for a preview, which takes no range. */
export async function findUsersToServe(
  db: Database,
  pass: Pass | NarrowedPass,
  cursor: Cursor | undefined,
  limit: number,
): Promise<(UserToServe & Cursor)[]> {
  for (let behind = cursor; ; ) {
    const { rows } = await sql<UserToServe & Cursor>`
      select u.id, u.email, u.home_key as "homeKey" from ${lookedAt(behind)} u
      where ${isOwedBy(pass)} order by u.home_key, u.id limit ${limit}
    `.execute(db)
    if (rows.length > 0) return rows
    behind = await findLookEnd(db, behind)
    if (behind === undefined) return []
  }
}

/** A draw looks at the users in so many blocks of their table first: neighbours in a block may be neighbours on a map. */
const blocksPerDraw = 400

/**
 * About `count` users of a pass who are owed it, drawn at random from all of them, also from the ranges of other processes; those of the
 * reserve first. They lie far from each other in the order of places: steps of the golden ratio from anywhere meet each stretch of it. While
 * many are owed, a few blocks are enough. If they have too few users, it reads more blocks.
 */
export async function drawUsers(
  db: Database,
  pass: Pass,
  count: number,
  reservedBelow: number,
): Promise<UserToServe[]> {
  const isReserved = sql<boolean>`
    u.id % ${reserveIds}::bigint * ${reserveFactor}::bigint % ${2 ** 32}::bigint < ${Math.round(reservedBelow * 2 ** 32)}::bigint`
  const { rows: sizes } = await sql<{ blocks: number }>`
      select pg_relation_size('users') / current_setting('block_size')::integer as blocks
    `.execute(db)
  let share = Math.min(100, (100 * blocksPerDraw) / (sizes[0]?.blocks || 1))
  for (; ; share = Math.min(100, share * 10)) {
    const { rows } = await sql<UserToServe>`
        with owed as (
          select u.id, u.email, ${isReserved} as reserved,
            ${goldenRatio}::double precision * row_number() over (partition by ${isReserved} order by u.home_key, u.id) as step
          from users u tablesample system (${share}) where ${isOwedBy(pass)}
        )
        select id, email from owed, (select random() as first) f
        order by reserved desc, step + first - floor(step + first) limit ${count}
      `.execute(db)
    if (rows.length >= count || share === 100) return rows
  }
}

/** SQL: whether the user `u` lies in a range that a live process other than `except` has. */
export const isInRangeOfAnother = (pass: Pass, except: readonly number[]) => sql`exists (
  select from user_ranges s join workers w on w.id = s.worker_id
  where s.scope = ${rangeScopeOf(pass)} and ${holdsLease(sql`w`)} and w.id <> all (${except})
    and (u.home_key, u.id) between (s.first_home_key, s.first_user_id) and (s.last_home_key, s.last_user_id))`

/**
 * The e-mails of subscribed users without queries and without a claim in `scope`. Nearly all users have queries; they are skipped without
 * reading their rows.
 */
export async function* findUsersWithoutQueries(db: Database, scope: string): AsyncGenerator<string> {
  let cursor: Cursor | undefined
  do {
    const from = cursor
    const { rows } = await sql<{ email: string }>`
        with without_queries as materialized (
          select u.id from (
            select u.id from users u where u.subscribed and ${after(from)} order by u.home_key, u.id limit ${usersPerLook}
          ) u where not ${hasQueries}
        )
        select u.email from users u where u.id = any (array(select id from without_queries)) and not ${isClaimed(scope)}
        order by u.home_key, u.id
      `.execute(db)
    for (const { email } of rows) yield email
    cursor = await findLookEnd(db, from)
  } while (cursor)
}

/** The ids of those of `users` who no longer exist. */
export async function findRemoved(db: Database, users: readonly UserToServe[]): Promise<Set<number>> {
  const { rows } = await sql<{ id: number }>`
      select g.id from unnest(${users.map(({ id }) => id)}::bigint[], ${users.map(({ email }) => email)}::text[]) as g (id, email)
      where not exists (select from users u where u.id = g.id and u.email = g.email)
    `.execute(db)
  return new Set(rows.map(({ id }) => id))
}

const owedPerPage = 1_000

/**
 * Users who are owed a subscription push, the oldest first, in pages; users who are served meanwhile are skipped. With `untilNone` it
 * also finds those who subscribe while a page is served: it ends when a look finds nobody.
 */
export async function* findUsersOwedSubscription(db: Database, untilNone = false): AsyncGenerator<UserToServe[]> {
  // as text: a JavaScript date has no microseconds, so the last user would be found again
  let last = { since: '-infinity', id: 0 }
  for (;;) {
    const { since, id } = last
    const { rows } = await sql<UserToServe & { since: string }>`
        select u.id, u.email, o.owed_at::text as since from ${owedSubscriptions}
        where (o.owed_at, o.user_id) > (${since}::timestamptz, ${id}) order by o.owed_at, o.user_id limit ${owedPerPage}
      `.execute(db)
    if (rows.length === 0) return
    yield rows.map((row) => ({ id: row.id, email: row.email }))
    if (rows.length < owedPerPage && !untilNone) return
    last = rows.at(-1) ?? last
  }
}

/**
 * Takes the next range of at most `size` users behind `cursor` for the worker, and returns its users. An empty list: none are left.
 * Undefined: the worker has lost its lease, or another server answers than it knows. It is one statement, so a frozen process holds no
 * lock that others wait for.
 */
export async function takeRange(
  db: Database,
  of: { worker: { id: number; server: string }; pass: Pass; cursor: Cursor | undefined; size: number },
): Promise<(UserToServe & Cursor)[] | undefined> {
  const { worker, pass, cursor, size } = of
  for (let behind = cursor; ; ) {
    const { rows } = await sql<UserToServe & Cursor & { live: boolean; taken: boolean }>`
      with live as materialized (select w.id from ${liveWorker(worker)}),
      next as materialized (
        select u.id, u.email, u.home_key from ${lookedAt(behind)} u
        where ${isOwedBy(pass)} and not ${isInRangeOfAnother(pass, [])}
        order by u.home_key, u.id limit ${size}
      ),
      bounds as (
        select (array_agg(home_key order by home_key, id))[1] as first_home_key, (array_agg(id order by home_key, id))[1] as first_id,
          (array_agg(home_key order by home_key desc, id desc))[1] as last_home_key, (array_agg(id order by home_key desc, id desc))[1] as last_id
        from next having count(*) > 0
      ),
      taken as (
        insert into user_ranges as s (worker_id, scope, first_home_key, first_user_id, last_home_key, last_user_id)
        select live.id, ${rangeScopeOf(pass)}, first_home_key, first_id, last_home_key, last_id from bounds, live
        on conflict (scope, first_home_key, first_user_id)
        do update set worker_id = excluded.worker_id, last_home_key = excluded.last_home_key, last_user_id = excluded.last_user_id
        where s.worker_id = excluded.worker_id or not ${isLive(sql`s.worker_id`)}
        returning 1
      )
      select id, email, home_key as "homeKey", exists (select from live) as live, exists (select from taken) as taken
      from next order by home_key, id
    `.execute(db)
    if (rows.length === 0) {
      behind = await findLookEnd(db, behind)
      if (behind === undefined) return []
    } else if (rows[0]?.taken === true) return rows.map(({ id, email, homeKey }) => ({ id, email, homeKey }))
    else if (rows[0]?.live === false) return undefined
    // another process took the range first: the next look sees it
  }
}

/** Releases the process's ranges of a pass, except those that begin with one of `kept`. */
export async function releaseRanges(
  db: Database,
  workerIds: readonly number[],
  pass: Pass,
  kept: readonly Cursor[] = [],
): Promise<void> {
  await sql`
    delete from user_ranges s where s.worker_id = any (${workerIds}) and s.scope = ${rangeScopeOf(pass)} and not exists (
      select from unnest(${kept.map(({ homeKey }) => homeKey)}::text[], ${kept.map(({ id }) => id)}::bigint[]) as k (home_key, id)
      where k.home_key = s.first_home_key and k.id = s.first_user_id)
  `.execute(db)
}
