/** Plans the pushes of many users at a time: shared queries and leads are read once. */
import { codeOf } from '../../base/errors.ts'
import { groupBy } from '../../base/group-by.ts'
import { lockTimeout } from '../../db/away.ts'
import type { Database } from '../../db/open.ts'
import { rideOut } from '../../db/patience.ts'
import type { Tables } from '../../db/tables.ts'
import { findErasureCount } from '../../deliveries/erasure-count.ts'
import { type Plan, type PlannedDelivery, planDeliveries, type QueryToPlan } from '../../deliveries/plan.ts'
import { type LeadToPlan, SharedLeads } from '../../deliveries/shared-leads.ts'
import { findRivals } from '../../leads/house.ts'
import { type LeadInBody, LeadStore, type LeadWithJson } from '../../leads/lead-store.ts'
import type { Live } from '../../matching/listed.ts'
import { Matcher } from '../../matching/matcher.ts'
import { noIds } from '../../matching/newest.ts'
import { markQueries } from '../../users/query.ts'
import type { UserToServe } from '../whom/pass.ts'
import { findLeadsBefore } from './users-to-serve.ts'

export interface PlannedQuery extends QueryToPlan {
  /** The versions that the query matches, the newest first, cut to 300. */
  versionIds: ArrayLike<number>
  /** Versions among these that are left out because of another listing of their house. */
  leftOut: ArrayLike<number>
}

export interface UserPlan {
  user: UserToServe
  /** In the user's order. */
  queries: PlannedQuery[]
  /** Empty if the user has no queries. */
  deliveries: PlannedDelivery[]
  /** The number of matches of all queries, each cut to 300, before repeats are dropped. */
  matches: number
  /** Listings that are left out because of another one of their house. */
  sameHouse: number
  /** The hrefs of leads that are too large for a request. */
  tooLarge: string[]
  /** The first query that took too long to look up, as JSON; then there are no deliveries. */
  tooSlow: string | undefined
  /** The count of erasures before any of the plan's leads was read. */
  erasures: number
  /** The server from which it was read. */
  server: string
  queriesMark: number
  /** The number of leads in the weekly delivery to compare with (contract 4.14); undefined: there is none. */
  leadsBefore: number | undefined
}

/** A matcher, with the server that it reads from, and the count of erasures before it read anything. */
interface Reading {
  matcher: Matcher
  server: string
  erasures: Promise<number> | undefined
}

type UserQuery = Pick<Tables['queries'], 'user_id' | 'json' | 'search_id'>

const nothing: Omit<PlannedQuery, 'json'> = { versionIds: [], leftOut: noIds, indexes: [] }

const noPlan: Plan = { deliveries: [], tooLarge: [], leftOut: [] }

/**
 * How many listings a push leaves out because of another one of their house. A listing that one query leaves out may be sent for another
 * query.
 */
function countLeftOut(
  queries: readonly PlannedQuery[],
  leftOut: readonly LeadToPlan[],
  deliveries: readonly PlannedDelivery[],
): number {
  const left = new Set(leftOut.map(({ versionId }) => versionId))
  for (const query of queries) for (let at = 0; at < query.leftOut.length; at++) left.add(query.leftOut[at] as number)
  if (left.size > 0) for (const { contents } of deliveries) for (const { versionId } of contents) left.delete(versionId)
  return left.size
}

type QueriesOf = ReadonlyMap<number, readonly UserQuery[]>

/** Users whose queries are read together. */
export const usersPerGroupMax = 500
/** Bounds the memory of one group of users: 300 leads a query, a few dozen bytes each. */
const queriesPerGroup = 500

/** Groups of neighbouring users with so many queries at most, or of one user with more. */
function cutByQueries(users: readonly UserToServe[], queriesOf: QueriesOf): UserToServe[][] {
  const groups: UserToServe[][] = []
  let queries = Number.POSITIVE_INFINITY
  for (const user of users) {
    const own = queriesOf.get(user.id)?.length ?? 0
    queries += own
    if (queries <= queriesPerGroup) groups.at(-1)?.push(user)
    else {
      groups.push([user])
      queries = own
    }
  }
  return groups
}

export class Planner {
  private readonly db: Database
  private readonly leads: LeadStore
  private readonly live: Live
  private readonly findServer: () => string
  private readonly onErasure: () => void
  private reading: Reading

  /** `findServer`: the server that a push reads from, as its worker knows it. `onErasure`: it waits for an erasure. */
  constructor(db: Database, live: Live, findServer = () => '', onErasure = () => {}) {
    this.db = db
    this.live = live
    this.findServer = findServer
    this.onErasure = onErasure
    this.leads = new LeadStore(db)
    this.reading = this.newReading()
  }

  private newReading(): Reading {
    return { matcher: new Matcher(this.db, this.live), server: this.findServer(), erasures: undefined }
  }

  /** Drops all data that was read under another count of erasures than `erasures`, or is being read now. */
  async forgetErased(erasures: number): Promise<void> {
    if ((await this.reading.erasures) !== erasures) this.forget()
  }

  /** Drops all data. On another server the same ids may mean other leads. */
  forget(): void {
    this.reading = this.newReading()
    this.leads.clear()
  }

  /** Counts the erasures before the first read: an older count with newer leads is safe, the reverse is not. */
  private countErasures(reading: Reading): Promise<number> {
    reading.erasures ??= findErasureCount(this.db).catch((error) => {
      reading.erasures = undefined
      if (codeOf(error) === lockTimeout) this.onErasure()
      throw error
    })
    return reading.erasures
  }

  /** The leads of a body in their order, with their JSON; undefined if one of them is gone. */
  readJson(contents: readonly LeadInBody[]): Promise<LeadWithJson[] | undefined> {
    return this.leads.readJson(contents)
  }

  /** A plan for each of `users`, in their order. */
  async *plan(users: readonly UserToServe[], compared?: readonly string[]): AsyncGenerator<UserPlan, void> {
    for await (const plans of this.planGroups(users, compared)) yield* plans
  }

  /** The same, group by group: groups are read, and plans are made, on demand. `compared` as in `Pass`. */
  async *planGroups(
    users: readonly UserToServe[],
    compared: readonly string[] = [],
  ): AsyncGenerator<AsyncIterable<UserPlan>, void> {
    for (let at = 0; at < users.length; at += usersPerGroupMax) {
      const some = users.slice(at, at + usersPerGroupMax)
      const queriesOf = await this.findQueries(some)
      for (const group of cutByQueries(some, queriesOf))
        yield await rideOut(this.db, () => this.readGroup(group, queriesOf, compared))
    }
  }

  private async findQueries(users: readonly UserToServe[]): Promise<Map<number, UserQuery[]>> {
    const ids = users.map(({ id }) => id)
    const rows = await this.db
      .selectFrom('queries')
      .select(['user_id', 'json', 'search_id'])
      .where('user_id', 'in', ids)
      .orderBy('user_id')
      .orderBy('position')
      .execute()
    return groupBy(rows, (row) => row.user_id)
  }

  private async readGroup(
    users: readonly UserToServe[],
    queriesOf: QueriesOf,
    compared: readonly string[],
  ): Promise<AsyncGenerator<UserPlan, void>> {
    if (this.reading.server !== this.findServer()) this.forget()
    const { reading, live } = this
    const { server, matcher } = reading
    const marks = new Map(users.map(({ id }) => [id, markQueries((queriesOf.get(id) ?? []).map(({ json }) => json))]))
    const leadsBefore = await findLeadsBefore(this.db, users, marks, compared)
    const searchIds = new Set(users.flatMap(({ id }) => queriesOf.get(id) ?? []).map(({ search_id }) => search_id))
    const erasures = await this.countErasures(reading)
    const matched = await matcher.match(searchIds)
    const { leads, indexes } = await this.leads.find([...matched.values()].map(({ ids }) => ids))
    const matches = new Map(
      [...matched].map(([id, { ids: versionIds, leftOut }], at) => [
        id,
        { versionIds, leftOut, indexes: indexes[at] as Int32Array },
      ]),
    )
    const shared = new SharedLeads(leads, live.sameHouse === 'once' ? await findRivals(this.db, leads) : undefined)
    const planOne = async (user: UserToServe): Promise<UserPlan> => {
      const own = queriesOf.get(user.id) ?? []
      const queries = own.map(({ json, search_id }) => ({ json, ...(matches.get(search_id) ?? nothing) }))
      const tooSlow = own.find(({ search_id }) => matcher.slow.has(search_id))?.json
      const { deliveries, tooLarge, leftOut }: Plan =
        queries.length > 0 && tooSlow === undefined ? planDeliveries(queries, shared) : noPlan
      return {
        user,
        queries,
        deliveries,
        matches: queries.reduce((sum, { versionIds }) => sum + versionIds.length, 0),
        tooLarge: tooLarge.length > 0 ? await this.findHrefs(tooLarge) : [],
        tooSlow,
        erasures,
        server,
        sameHouse: countLeftOut(queries, leftOut, deliveries),
        queriesMark: marks.get(user.id) ?? 0,
        leadsBefore: leadsBefore.get(user.id),
      }
    }
    return (async function* () {
      for (const user of users) yield await planOne(user)
    })()
  }

  private async findHrefs(leads: readonly LeadToPlan[]): Promise<string[]> {
    const hrefs: string[] = []
    // one at a time: these are the largest leads
    for (const lead of leads) {
      const [found] = (await this.leads.readJson([lead])) ?? []
      if (found) hrefs.push(JSON.parse(found.json.toString()).href)
    }
    return hrefs
  }
}
