/**
 * Counts whom a pass has not served yet, and whom it has. Users and claims are read in the order of e-mails, a page at a time and from
 * indexes alone, and compared as two sets: a look into the index of claims for each user costs several times as much.
 */
import { sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { periodBegins } from '../deliveries/runs.ts'
import { hasQueries, isClaimed, isHeld, type Pass, weeklyScope } from './users-to-serve.ts'

/** Subscribed users of a pass; counts. */
export interface UsersOfPass {
  /** Not served yet: in the hands of other processes, and the rest. */
  held: number
  free: number
  /** Free users who are not among `counted`. */
  uncounted: number
  /** With a claim in the scope of the pass. */
  claimed: number
  /** Meant by the pass, without a claim and without queries: they are skipped. */
  withoutQueries: number
}

const usersPerPage = 50_000

/** Counts the users of a pass. Workers in `except` are no other processes; `counted` are user ids. */
export async function countUsersOfPass(
  db: Database,
  pass: Pass,
  except: readonly number[] = [],
  counted: readonly number[] = [],
): Promise<UsersOfPass> {
  const sum: UsersOfPass = { held: 0, free: 0, uncounted: 0, claimed: 0, withoutQueries: 0 }
  for (let last = ''; ; ) {
    const behind = last
    const { rows } = await rideOut(() =>
      sql<UsersOfPass & { last: string | null }>`
        with last_of_full_page as materialized (
          select email as last from users where subscribed and email > ${behind} order by email offset ${usersPerPage - 1} limit 1
        ),
        bound as materialized (
          select coalesce((select last from last_of_full_page), (select max(email) from users where subscribed)) as last
        ),
        -- not an anti join: of a scope that began today the statistics know nothing, and a plan may compare each user with all claims
        unclaimed as (
          select email from users where subscribed and email > ${behind} and email <= (select last from bound) except
          select email from claims where scope = ${pass.scope} and email > ${behind} and email <= (select last from bound)
        ),
        of_pass as materialized (
          select case when ${pass.only} then ${hasQueries} end as asks, ${isHeld(pass, except)} as held, u.id = any (${counted}) as counted
          -- not a join, which may read the whole page for a few of its users
          from users u where u.email = any (array(select email from unclaimed))
        )
        select (select last from last_of_full_page) as last, case
            when exists (select from last_of_full_page) then ${usersPerPage}::bigint
            else (select count(*) from users where subscribed and email > ${behind}) end - count(*) as claimed,
          count(*) filter (where not asks) as "withoutQueries", count(*) filter (where asks and held) as held,
          count(*) filter (where asks and not held) as free,
          count(*) filter (where asks and not held and not counted) as uncounted
        from of_pass
      `.execute(db),
    )
    const [page] = rows
    if (!page) return sum
    for (const name of Object.keys(sum) as (keyof UsersOfPass)[]) sum[name] += page[name]
    // null: the page was not full
    if (page.last === null) return sum
    last = page.last
  }
}

/** How many of the users whom a pass means, and who ask for anything, have no claim in its scope. */
export async function countUnclaimed(db: Database, pass: Pass): Promise<number> {
  const { free, held } = await countUsersOfPass(db, pass)
  return free + held
}

/** How many of the users with a claim of the period have an attempt of their weekly delivery left to make. */
export async function countBegun(db: Database, period: string): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select count(distinct u.id) as n from deliveries d join users u on u.id = d.user_id
    where d.status = 'pending' and d.kind = 'weekly' and d.period = ${period} and d.created_at >= ${periodBegins(sql`${period}::text`)}
      and u.subscribed and ${isClaimed(weeklyScope(period))}
  `.execute(db)
  return rows[0]?.n ?? 0
}
