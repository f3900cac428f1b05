/**
 * The first half of `trigger`: which new leads are due for which hooks (contract 6.1). Each hook knows up to which import it
 * was looked at; what came in since then is taken together once for many hooks, and matched by what their users' queries
 * mean. A group of hooks is looked at in one transaction, so that nothing is forgotten or found twice.
 */
import { sql } from 'kysely'
import { rideOut } from '../db/away.ts'
import type { Database, OpenDatabase } from '../db/open.ts'
import { kyselyOn, withTransaction } from '../db/transaction.ts'
import { leadsPerHookMax } from '../limits.ts'

/** So many hooks a transaction: whoever wants to remove one of them waits for no longer than that takes. */
const hooksPerGroup = 1_000
/** Hooks times new leads, a statement: what it would have to hold if every lead were for everybody. */
const pairsPerStatement = 5_000_000
/** So many searches by words make an index of the new leads' words worth its while. */
const searchesPerIndex = 10

export interface Looked {
  hooks: number
  /** Triggers that are due now. */
  found: number
  /** Leads beyond the 300 newest of a hook. */
  dropped: number
}

export interface LookOptions {
  /** The last import that is committed, and is to be looked at. */
  upTo: number
  /** A listing that was not seen for longer is for nobody. */
  maxLeadAgeMs: number
  stop: AbortSignal
  onAway?: (error: unknown) => void
  /** After each group. */
  onLooked?: (looked: Looked) => void
}

/**
 * Looks at all hooks that were registered before that import. Any number of processes may do so at once: each takes the
 * groups that no other has, and waits at the end for those that others have. Returns early when `stop` is aborted.
 */
export async function lookForLeads(opened: OpenDatabase, options: LookOptions): Promise<Looked> {
  const { upTo } = options
  const sum: Looked = { hooks: 0, found: 0, dropped: 0 }
  for (const waiting of [false, true]) {
    for (let last = ''; !options.stop.aborted; ) {
      const ids = await rideOut(() => findHooksToLook(opened.db, upTo, last), options.onAway)
      if (ids.length === 0) break
      last = ids.at(-1) as string
      const looked = await lookInTransaction(opened, ids, waiting, options)
      sum.hooks += looked.hooks
      sum.found += looked.found
      sum.dropped += looked.dropped
      options.onLooked?.(looked)
    }
  }
  return sum
}

async function findHooksToLook(db: Database, upTo: number, last: string): Promise<string[]> {
  const after = last === '' ? sql`` : sql`and id > ${last}`
  const { rows } = await sql<{ id: string }>`
    select id from hooks where looked_import_id < ${upTo} ${after} order by id limit ${hooksPerGroup}
  `.execute(db)
  return rows.map(({ id }) => id)
}

const nothing: Looked = { hooks: 0, found: 0, dropped: 0 }

async function lookInTransaction(
  opened: OpenDatabase,
  ids: readonly string[],
  waiting: boolean,
  { upTo, maxLeadAgeMs, stop, onAway }: LookOptions,
): Promise<Looked> {
  const work = () =>
    withTransaction(
      opened,
      async (connection) => lookAtGroup(kyselyOn(connection), ids, upTo, waiting, maxLeadAgeMs),
      stop,
    )
  return await rideOut(work, onAway).catch((error) => {
    if (stop.aborted) return nothing
    throw error
  })
}

async function lookAtGroup(
  db: Database,
  ids: readonly string[],
  upTo: number,
  waiting: boolean,
  maxLeadAgeMs: number,
): Promise<Looked> {
  const locked = await sql<{ id: string; looked: number }>`
    select id, looked_import_id as looked from hooks where id = any (${ids}::uuid[]) and looked_import_id < ${upTo}
    order by id for update ${waiting ? sql`` : sql`skip locked`}
  `.execute(db)
  const hooks = locked.rows
  if (hooks.length === 0) return nothing
  // whoever looks and is cut off from the database must not hold the hooks until the network notices
  await sql`
    select set_config(name, value, true)
    from (values ('jit', 'off'), ('work_mem', '64MB'), ('idle_in_transaction_session_timeout', '60s')) as s (name, value)
  `.execute(db)
  const hookIds = hooks.map(({ id }) => id)
  const since = hooks.reduce((least, { looked }) => Math.min(least, looked), upTo)
  const fresh = await collectFresh(db, hookIds, since, upTo, maxLeadAgeMs)
  const sum = { hooks: hooks.length, found: 0, dropped: 0 }
  const size = fresh === 0 ? hooksPerGroup : Math.max(10, Math.floor(pairsPerStatement / fresh))
  for (let at = 0; at < hookIds.length; at += size) {
    const { found, dropped } = await recordDue(db, hookIds.slice(at, at + size), upTo, fresh > 0)
    sum.found += found
    sum.dropped += dropped
  }
  return sum
}

/** Makes `fresh_leads`, the leads of the imports after `since`, and returns how many they are. */
async function collectFresh(
  db: Database,
  hookIds: readonly string[],
  since: number,
  upTo: number,
  maxLeadAgeMs: number,
): Promise<number> {
  const counted = await sql<{ n: number }>`
    select count(distinct q.search_id) as n from hooks h join integrations i on i.id = h.integration_id
      join queries q on q.user_id = i.user_id join searches s on s.id = q.search_id
    where h.id = any (${hookIds}::uuid[]) and s.words is not null
  `.execute(db)
  const byWords = counted.rows[0]?.n ?? 0
  // every version of theirs lies above those that there were before the first of these imports
  const base = sql`(select base_version_id from imports where id > ${since} order by id limit 1)`
  await sql`create temp table fresh_leads (
    lead_id bigint, version_id bigint, postal_key text, import_id bigint, occurred_at timestamptz, search tsvector
  ) on commit drop`.execute(db)
  const { numAffectedRows } = await sql`
    insert into fresh_leads
    select l.id, l.version_id, l.postal_key, l.first_import_id, i.started_at, ${byWords > 0 ? sql`l.search` : sql`null`}
    from leads l join imports i on i.id = l.first_import_id join lead_seen s on s.lead_id = l.id
    where l.version_id > ${base} and l.first_import_id > ${since} and l.first_import_id <= ${upTo}
      and s.seen_at >= now() - ${maxLeadAgeMs} * interval '1 millisecond'
  `.execute(db)
  if (byWords > searchesPerIndex) {
    await sql`create index on fresh_leads using gin (search) with (fastupdate = off)`.execute(db)
  }
  await sql`analyze fresh_leads`.execute(db)
  return Number(numAffectedRows ?? 0)
}

/**
 * Records what is due for the hooks, and that they have been looked at. Queries of one meaning are matched once; a lead that
 * several queries of a user match is due once.
 */
async function recordDue(db: Database, hookIds: readonly string[], upTo: number, any: boolean) {
  const none = sql`select null::uuid as hook_id, null::bigint as version_id, null::bigint as lead_id,
    null::timestamptz as occurred_at, null::bigint as rank where false`
  const { rows } = await sql<{ found: number; dropped: number }>`
    with ranked as materialized (${any ? rankLeads(hookIds) : none}),
    recorded as (
      insert into triggers (hook_id, version_id, lead_id, occurred_at, due_at)
      select hook_id, version_id, lead_id, occurred_at, occurred_at from ranked where rank <= ${leadsPerHookMax}
      returning hook_id, due_at
    ),
    looked as (
      update hooks h set looked_import_id = ${upTo}, due_at = least(h.due_at, r.due_at),
        dropped = h.dropped + coalesce(d.n, 0), dropped_at = case when d.n > 0 then now() else h.dropped_at end
      from unnest(${hookIds}::uuid[]) as given (id) left join (
        select hook_id, min(due_at) as due_at from recorded group by hook_id
      ) r on r.hook_id = given.id left join (
        select hook_id, count(*) as n from ranked where rank > ${leadsPerHookMax} group by hook_id
      ) d on d.hook_id = given.id
      where h.id = given.id
    )
    select (select count(*) from recorded) as found,
      (select count(*) from ranked where rank > ${leadsPerHookMax}) as dropped
  `.execute(db)
  return rows[0] ?? { found: 0, dropped: 0 }
}

/** The new leads of each hook, the newest with the rank 1. */
const rankLeads = (hookIds: readonly string[]) => sql`
  with given as materialized (
    select h.id, h.looked_import_id, i.user_id from hooks h join integrations i on i.id = h.integration_id
    where h.id = any (${hookIds}::uuid[])
  ),
  wanted as materialized (
    select distinct q.user_id, q.search_id from queries q where q.user_id in (select user_id from given)
  ),
  meant as materialized (select * from searches where id in (select search_id from wanted)),
  places as materialized (select s.id as search_id, p.place from meant s cross join unnest(s.places) as p (place)),
  with_words as materialized (
    select s.id as search_id, s.kind, f.version_id, f.postal_key
    from meant s join fresh_leads f on f.search @@ plainto_tsquery('english'::regconfig, s.words)
  ),
  matched as (
    select p.search_id, f.version_id
    from meant s join places p on p.search_id = s.id join fresh_leads f on f.postal_key = p.place
    where s.kind = 'place'
    union all
    select search_id, version_id from with_words where kind = 'words'
    union all
    select w.search_id, w.version_id
    from with_words w join places p on p.search_id = w.search_id and p.place = w.postal_key
    where w.kind = 'both'
  ),
  for_user as (select distinct w.user_id, m.version_id from wanted w join matched m on m.search_id = w.search_id)
  select g.id as hook_id, f.version_id, f.lead_id, f.occurred_at,
    row_number() over (partition by g.id order by f.version_id desc) as rank
  from given g join for_user u on u.user_id = g.user_id join fresh_leads f on f.version_id = u.version_id
  where f.import_id > g.looked_import_id
`
