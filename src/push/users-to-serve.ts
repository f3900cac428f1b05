/**
 * Which users a push has to serve, and how several processes share them: each takes a stretch of the users, in the order of
 * their places, that nobody has who is alive. A stretch only keeps others from planning the same users; that nobody is served
 * twice is the claims' doing.
 */
import { type RawBuilder, sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import { holdsLease, isLive } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import { periodBegins } from '../deliveries/runs.ts'

export interface UserToServe {
  id: number
  email: string
}

/** One way through the subscribed users: those who have no claim in its scope yet. */
export interface Pass {
  kind: 'weekly' | 'forced'
  /** What a push of it claims for its user. */
  scope: string
  /** Within what processes share the users: all that serve the same ones. */
  shareScope: string
  /** SQL over `u`: who is meant. */
  only: RawBuilder<boolean>
  /** Where the guard looks for a user's weekly delivery before this one, the newest first; none: it lets everybody pass. */
  compared: readonly string[]
}

export interface Cursor {
  place: string
  id: number
}

export const weeklyScope = (period: string) => `weekly:${period}`

/**
 * SQL: whether the user `u` has a claim in the scope. `offset 0` keeps it a look into the index for each user: of a scope that
 * began today the statistics know nothing, and a plan that reads its claims as a whole does so for each user.
 */
export const isClaimed = (scope: string) =>
  sql<boolean>`exists (select from claims c where c.scope = ${scope} and c.email = u.email offset 0)`

/** SQL: whether the user `u` asks for anything. */
export const hasQueries = sql<boolean>`exists (select from queries q where q.user_id = u.id offset 0)`

/** `earlier`: the periods whose deliveries this one is compared with. */
export function weeklyPass(period: string, earlier: readonly string[] = []): Pass {
  const scope = weeklyScope(period)
  return { kind: 'weekly', scope, shareScope: scope, only: sql`true`, compared: earlier.map(weeklyScope) }
}

/**
 * A further delivery for those who had theirs before the run `forcedRunId` began, or, without one, before now; `guarded`: it is
 * compared with that.
 */
export function forcedPass(period: string, forcedRunId?: number, guarded = false): Pass {
  return {
    kind: 'forced',
    scope: `forced:${forcedRunId}`,
    shareScope: `forced:${forcedRunId}`,
    only: sql`exists (select from claims w where w.scope = ${weeklyScope(period)} and w.email = u.email
      and w.claimed_at < coalesce((select r.started_at from runs r where r.id = ${forcedRunId ?? null}), now()) offset 0)`,
    compared: guarded ? [weeklyScope(period)] : [],
  }
}

/** SQL: whether the user of the delivery `d` had none since that was delivered or is still under way. */
export const isTheLastWord = sql<boolean>`not exists (
  select from deliveries e where e.user_id = d.user_id and e.created_at > d.created_at and e.status in ('delivered', 'pending') offset 0)`

/**
 * A further delivery for those with a delivery of the period that ended in one of `statuses`, and none since that was
 * delivered or is still under way.
 */
export function failedPass(period: string, runId: number, statuses: readonly ('failed' | 'unknown')[]): Pass {
  return {
    kind: 'forced',
    scope: `failed:${runId}`,
    shareScope: `failed:${period}`,
    compared: [],
    only: sql`exists (
      select from deliveries d where d.user_id = u.id and d.period = ${period} and d.status = any (${statuses})
        and d.created_at >= ${periodBegins(sql`${period}::text`)} and ${isTheLastWord} offset 0
    )`,
  }
}

/** SQL: whether the user `u` is owed a weekly delivery of the period, whether or not a push has set out to make it. */
export const isOwedWeekly = (period: string) =>
  sql<boolean>`(u.subscribed and ${hasQueries} and not ${isClaimed(weeklyScope(period))})`

/** SQL: whether the user `u` is owed a subscription push that is not begun. */
export const isOwedSubscription = sql<boolean>`(u.subscription_owed_at is not null and ${hasQueries})`

const owed = (pass: Pass) => sql`u.subscribed and ${hasQueries} and not ${isClaimed(pass.scope)} and ${pass.only}`

/**
 * How many leads the users' last deliveries had of those that are compared: with the same queries, which `marks` tells. Each is a
 * look into the index of claims, and one is enough where the queries are what they were.
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
  cursor === undefined ? sql`true` : sql`(u.place, u.id) > (${cursor.place}, ${cursor.id})`

const usersPerLook = 5_000

/**
 * SQL: the subscribed users behind `cursor`, in order, as many as one statement looks at: however many there are it ends soon, and
 * whatever the statistics say it finds them by their index.
 */
const lookedAt = (cursor: Cursor | undefined) => sql`(
  select * from users u where u.subscribed and ${after(cursor)} order by u.place, u.id limit ${usersPerLook})`

/** The last of the users that such a statement looked at; undefined: there are none behind them. */
async function findLookEnd(db: Database, cursor: Cursor | undefined): Promise<Cursor | undefined> {
  const { rows } = await sql<Cursor>`
    select u.place, u.id from users u where u.subscribed and ${after(cursor)}
    order by u.place, u.id offset ${usersPerLook - 1} limit 1
  `.execute(db)
  return rows[0]
}

/** Behind whom each look at all subscribed users begins. */
async function* looks(db: Database): AsyncGenerator<Cursor | undefined> {
  let cursor: Cursor | undefined
  do {
    yield cursor
    cursor = await findLookEnd(db, cursor)
  } while (cursor)
}

/** The next `limit` users of a pass behind `cursor`, in order; for a preview. */
export async function findUsersToServe(
  db: Database,
  pass: Pass,
  cursor: Cursor | undefined,
  limit: number,
): Promise<(UserToServe & Cursor)[]> {
  for (let behind = cursor; ; ) {
    const { rows } = await sql<UserToServe & Cursor>`
      select u.id, u.email, u.place from ${lookedAt(behind)} u
      where ${owed(pass)} order by u.place, u.id limit ${limit}
    `.execute(db)
    if (rows.length > 0) return rows
    behind = await findLookEnd(db, behind)
    if (behind === undefined) return []
  }
}

/** SQL: whether the user `u` lies in a stretch that a live process other than `except` has. */
const isHeld = (pass: Pass, except: readonly number[]) => sql`exists (
  select from shares s join workers w on w.id = s.worker_id
  where s.scope = ${pass.shareScope} and ${holdsLease(sql`w`)} and w.id <> all (${except})
    and (u.place, u.id) between (s.first_place, s.first_user_id) and (s.last_place, s.last_user_id))`

/**
 * How many users a pass has left: those whom processes other than `except` have in hand are `held`, the others `free`, and of these
 * those who are not among `counted` are `uncounted`.
 */
export async function countUsersToServe(
  db: Database,
  pass: Pass,
  except: readonly number[] = [],
  counted: readonly number[] = [],
): Promise<{ held: number; free: number; uncounted: number }> {
  const count = { held: 0, free: 0, uncounted: 0 }
  for await (const cursor of looks(db)) {
    const { rows } = await sql<typeof count>`
      select count(*) filter (where held) as held, count(*) filter (where not held) as free,
        count(*) filter (where not held and not counted) as uncounted
      from (select ${isHeld(pass, except)} as held, u.id = any (${counted}) as counted from ${lookedAt(cursor)} u where ${owed(pass)}) users_left
    `.execute(db)
    count.held += rows[0]?.held ?? 0
    count.free += rows[0]?.free ?? 0
    count.uncounted += rows[0]?.uncounted ?? 0
  }
  return count
}

/** How many subscribed users had their weekly delivery of the period: it was begun, and nothing of it is to come. */
export async function countServed(db: Database, period: string): Promise<number> {
  let served = 0
  for await (const cursor of looks(db)) {
    const { rows } = await sql<{ n: number }>`
      select count(*) as n from ${lookedAt(cursor)} u where ${isClaimed(weeklyScope(period))} and not exists (
        select from deliveries d where d.user_id = u.id and d.created_at >= ${periodBegins(sql`${period}::text`)}
          and d.status = 'pending' and d.kind = 'weekly' and d.period = ${period} offset 0)
    `.execute(db)
    served += rows[0]?.n ?? 0
  }
  return served
}

/** Subscribed users with nothing to send for, who had nothing in `scope`: their e-mails. */
export async function* findUsersWithoutQueries(db: Database, scope: string): AsyncGenerator<string> {
  let cursor: Cursor | undefined
  do {
    const from = cursor
    const { rows } = await rideOut(() =>
      sql<{ email: string }>`
        select u.email from ${lookedAt(from)} u where not ${hasQueries} and not ${isClaimed(scope)} order by u.place, u.id
      `.execute(db),
    )
    for (const { email } of rows) yield email
    cursor = await rideOut(() => findLookEnd(db, from))
  } while (cursor)
}

const owedPerPage = 1_000

/** Users whose subscription push is still to be sent, the oldest first, a page at a time; who is served meanwhile is passed over. */
export async function* findUsersOwedSubscription(db: Database): AsyncGenerator<UserToServe[]> {
  // as text: a date of JavaScript knows no microseconds, and would find the last one again
  let last = { since: '-infinity', id: 0 }
  for (;;) {
    const { since, id } = last
    const { rows } = await rideOut(() =>
      sql<UserToServe & { since: string }>`
        select u.id, u.email, u.subscription_owed_at::text as since from users u
        where ${isOwedSubscription} and (u.subscription_owed_at, u.id) > (${since}::timestamptz, ${id})
        order by u.subscription_owed_at, u.id limit ${owedPerPage}
      `.execute(db),
    )
    yield rows.map((row) => ({ id: row.id, email: row.email }))
    if (rows.length < owedPerPage) return
    last = rows.at(-1) ?? last
  }
}

/**
 * Takes the next stretch of at most `size` users behind `cursor` for the worker, and returns its users; none: there is none.
 * One statement: a process that is frozen in the middle of it holds no lock that others wait for.
 */
export async function takeShare(
  db: Database,
  { workerId, pass, cursor, size }: { workerId: number; pass: Pass; cursor: Cursor | undefined; size: number },
): Promise<(UserToServe & Cursor)[]> {
  for (let behind = cursor; ; ) {
    const { rows } = await sql<UserToServe & Cursor & { taken: boolean }>`
      with next as materialized (
        select u.id, u.email, u.place from ${lookedAt(behind)} u
        where ${owed(pass)} and not ${isHeld(pass, [])}
        order by u.place, u.id limit ${size}
      ),
      bounds as (
        select (array_agg(place order by place, id))[1] as first_place, (array_agg(id order by place, id))[1] as first_id,
          (array_agg(place order by place desc, id desc))[1] as last_place, (array_agg(id order by place desc, id desc))[1] as last_id
        from next having count(*) > 0
      ),
      taken as (
        insert into shares as s (worker_id, scope, first_place, first_user_id, last_place, last_user_id)
        select ${workerId}, ${pass.shareScope}, first_place, first_id, last_place, last_id from bounds
        on conflict (scope, first_place, first_user_id)
        do update set worker_id = excluded.worker_id, last_place = excluded.last_place, last_user_id = excluded.last_user_id
        where s.worker_id = excluded.worker_id or not ${isLive(sql`s.worker_id`)}
        returning 1
      )
      select id, email, place, exists (select from taken) as taken
      from next order by place, id
    `.execute(db)
    if (rows.length === 0) {
      behind = await findLookEnd(db, behind)
      if (behind === undefined) return []
    }
    // another process looked at the same moment and was first: by now its stretch is seen
    else if (rows[0]?.taken === true) return rows.map(({ taken: _, ...user }) => user)
  }
}

/** Gives back the worker's stretches of a pass, but for those that begin with one of `kept`. */
export async function releaseShares(
  db: Database,
  workerId: number,
  pass: Pass,
  kept: readonly Cursor[] = [],
): Promise<void> {
  await sql`
    delete from shares s where s.worker_id = ${workerId} and s.scope = ${pass.shareScope} and not exists (
      select from unnest(${kept.map(({ place }) => place)}::text[], ${kept.map(({ id }) => id)}::bigint[]) as k (place, id)
      where k.place = s.first_place and k.id = s.first_user_id)
  `.execute(db)
}
