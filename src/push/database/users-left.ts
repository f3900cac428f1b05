/**
 * Counts the users whom a pass has and has not served. Users and claims are read in the order of e-mails, a page at a time and from
 * indexes alone, and compared as two sets: a look into the index of claims for each user costs several times as much.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { isAbandoned, isElsewhere, isWanted, type Takeover } from '../../deliveries/ledger.ts'
import { periodBegins } from '../../deliveries/runs.ts'
import type { Pass } from '../whom/pass.ts'
import { hasQueries, isClaimed, isInRangeOfAnother, isMeant, isOwedBy, type NarrowedPass } from './users-to-serve.ts'

/** Subscribed users of a pass; counts. */
export interface UsersOfPass {
  /** Not served yet: users of other processes, and free users. */
  elsewhere: number
  free: number
  /** Free users who are not among `counted`. */
  uncounted: number
  /** Users with a claim in the scope of the pass, and those of them whose weekly delivery has an attempt left. */
  claimed: number
  begun: number
  /** Users of the pass without a claim and without queries: they are skipped. */
  withoutQueries: number
}

/**
 * `except` and `counted` as in `countUsersOfPass`; `claimed`: whether that figure and `begun` are wanted, which costs another pass over
 * the index.
 */
interface Asked {
  except: readonly number[]
  counted: readonly number[]
  claimed: boolean
}

/** A page ends at one of so many sampled users whose ids are so far apart, so it has some 50,000 users. */
const samplesPerPage = 50
const idsPerSample = 1_000
/** If most ids belong to nobody, the samples are further apart. */
const samplesMax = 20_000
/** Pages that are counted beside each other; in a transaction it is one. */
const pagesAtOnce = 2

/** The e-mails of users at which pages end, in their order; the last page has no end. Looked up by id, which reads few users. */
async function findPageEnds(db: Database): Promise<string[]> {
  const { rows } = await sql<{ email: string }>`
      with span as materialized (select min(id) as first, max(id) as last from users),
      samples as (
        select email, row_number() over (order by email) as n from users where id = any (array(
          select generate_series(first, last, greatest(${idsPerSample}::bigint, (last - first) / ${samplesMax}::bigint)) from span))
      )
      select email from samples where n % ${samplesPerPage}::bigint = 0 order by n
    `.execute(db)
  return rows.map(({ email }) => email)
}

/** SQL: how many subscribed users of a page have a claim of the weekly pass, and an attempt of that delivery left to make. */
const countBegun = ({ period, scope }: Pass, isOfPage: RawBuilder<boolean>) => sql`(
  select count(distinct u.id) from deliveries d
    cross join lateral (select * from users where id = d.user_id and subscribed and ${isOfPage} offset 0) u
  where d.status = 'pending' and d.kind = 'weekly' and d.period = ${period} and d.created_at >= ${periodBegins(sql`${period}::text`)}
    and ${isClaimed(scope)})`

async function countPage(
  db: Database,
  pass: Pass | NarrowedPass,
  { except, counted, claimed }: Asked,
  { behind, upto }: { behind: string; upto: string | undefined },
): Promise<UsersOfPass> {
  const isOfPage = sql<boolean>`email > ${behind} and ${upto === undefined ? sql`true` : sql`email <= ${upto}`}`
  const { rows } = await sql<UsersOfPass>`
      -- not an anti join: of a scope that began today the statistics know nothing, and a plan may compare each user with all claims
      with unclaimed as (
        select email from users where subscribed and ${isOfPage} except
        select email from claims where scope = ${pass.scope} and ${isOfPage}
      ),
      of_pass as materialized (
        select case when ${isMeant(pass)} then ${hasQueries} end as asks, ${isInRangeOfAnother(pass, except)} as elsewhere, u.id = any (${counted}) as counted
        -- not a join, which may read the whole page for a few of its users
        from users u where u.email = any (array(select email from unclaimed))
      )
      select ${claimed ? sql`(select count(*) from users where subscribed and ${isOfPage}) - count(*)` : sql`0`} as claimed,
        ${claimed && pass.kind === 'weekly' ? countBegun(pass, isOfPage) : sql`0`} as begun,
        count(*) filter (where not asks) as "withoutQueries", count(*) filter (where asks and elsewhere) as elsewhere,
        count(*) filter (where asks and not elsewhere) as free,
        count(*) filter (where asks and not elsewhere and not counted) as uncounted
      from of_pass
    `.execute(db)
  return rows[0] as UsersOfPass
}

async function countPages(db: Database, pass: Pass | NarrowedPass, asked: Asked): Promise<UsersOfPass> {
  const sum: UsersOfPass = { elsewhere: 0, free: 0, uncounted: 0, claimed: 0, begun: 0, withoutQueries: 0 }
  const ends = await findPageEnds(db)
  const pages = [...ends, undefined].map((upto, at) => ({ behind: ends[at - 1] ?? '', upto })).values()
  const countNext = async () => {
    for (const page of pages) {
      const found = await countPage(db, pass, asked, page)
      for (const name of Object.keys(sum) as (keyof UsersOfPass)[]) sum[name] += found[name]
    }
  }
  await Promise.all(Array.from({ length: db.isTransaction ? 1 : pagesAtOnce }, countNext))
  return sum
}

/** Counts the users of a pass. Workers in `except` do not count as other processes; `counted` are user ids. */
export const countUsersOfPass = (
  db: Database,
  pass: Pass,
  except: readonly number[] = [],
  counted: readonly number[] = [],
): Promise<UsersOfPass> => countPages(db, pass, { except, counted, claimed: true })

/** How many users of a pass have queries and no claim in its scope. */
export async function countUnclaimed(db: Database, pass: Pass | NarrowedPass): Promise<number> {
  const { free, elsewhere } = await countPages(db, pass, { except: [], counted: [], claimed: false })
  return free + elsewhere
}

/** How many users have a delivery that a live process other than `workerIds` is working on, besides those in its ranges. */
export async function countUsersElsewhere(
  db: Database,
  passes: readonly Pass[],
  workerIds: readonly number[],
): Promise<number> {
  const isInRange = passes.map((pass) => sql<boolean>`(${isOwedBy(pass)} and ${isInRangeOfAnother(pass, workerIds)})`)
  const { rows } = await sql<{ n: number }>`
      with in_hand as materialized (select distinct d.user_id as id from deliveries d where ${isElsewhere(workerIds)})
      select count(*) as n from in_hand h where not exists (
        select from users u where u.id = h.id and (${sql.join([sql`false`, ...isInRange], sql` or `)}) offset 0)
    `.execute(db)
  return rows[0]?.n ?? 0
}

export interface Unreached {
  takeover: Takeover
  /** Their users who are still owed count there. */
  passes: readonly Pass[]
  /** The run that counts. It has counted the users of its own deliveries, and `counted`. */
  runId: number
  counted: readonly number[]
}

/** Counts the users whose delivery a run has begun, this one or one that it goes on with, and none of which has had an attempt. */
export async function countUnreached(
  db: Database,
  { takeover, passes, runId, counted }: Unreached,
): Promise<{ users: number; uncounted: number }> {
  const isOwed = sql.join([sql`false`, ...passes.map(isOwedBy)], sql` or `)
  const { rows } = await sql<{ users: number; uncounted: number }>`
      select count(distinct d.user_id) as users,
        count(distinct d.user_id) filter (where d.run_id <> ${runId} and d.user_id <> all (${counted})) as uncounted
      from deliveries d join users u on u.id = d.user_id
      where d.status = 'pending' and d.attempts = 0 and ${isWanted} and (d.run_id = ${runId} or ${isAbandoned(takeover)})
        and not exists (select from deliveries e where e.run_id = d.run_id and e.user_id = d.user_id and e.kind = d.kind
          and (e.attempts > 0 or e.status <> 'pending') offset 0)
        and not (${isOwed})
    `.execute(db)
  return rows[0] ?? { users: 0, uncounted: 0 }
}
