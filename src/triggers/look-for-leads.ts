/**
 * The first half of `trigger`: finds which events of leads are due for which hooks (contract 6.1). Each hook knows the import up to which
 * it was looked at. The news of later imports are collected once for many hooks, and matched with the searches of the hooks' users. A
 * group of hooks is looked at in one transaction, so that nothing is forgotten or found twice.
 */
import { sql } from 'kysely'
import { leadsPerHookMax } from '../base/limits.ts'
import type { Database, OpenDatabase } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import { kyselyOn, withTransaction } from '../db/transaction.ts'
import type { TriggerKind } from '../index.ts'
import { findCounted, isListed, type Live } from '../matching/listed.ts'
import { kinds } from './kinds/kinds.ts'
import { lostColumns, lostOf } from './lost-triggers.ts'

/** Hooks that are looked at together, at first and at most. They are locked while their due triggers are recorded. */
const hooksPerGroup = { first: 16, max: 1_000 }
/** So many triggers are recorded while hooks are locked; the group before tells how many hooks have them. */
const foundPerGroup = 20_000
/** The leads of a hook and kind in one row of `lost_triggers`, which bounds what `trigger --again` takes at a time. */
const lostPerRow = 1_000
/** From so many searches by words on, an index of the new leads' words pays off. */
const searchesPerIndex = 10

/** The counts of a look at a group of hooks. */
export interface Looked {
  hooks: number
  /** Triggers that are due now. */
  found: number
  /** Triggers beyond the 300 newest of a kind for a hook, which only `trigger --again` sends. */
  dropped: number
}

/** The range of the look. */
export interface LookOptions {
  /** The id of the last committed import: leads up to it are looked at. */
  upTo: number
  /** A listing last seen longer ago is due for no hook. */
  maxLeadAgeMs: number
  /** With `once` no listing is due while a live listing of its house was imported before it (contract 4.20). */
  sameHouse?: Live['sameHouse'] | undefined
  stop: AbortSignal
}

/** Looks at all hooks that were registered before import `upTo`, group by group. Throws when `stop` is aborted. */
export async function* lookForLeads(opened: OpenDatabase, options: LookOptions): AsyncGenerator<Looked> {
  const { stop } = options
  for (let after = noHook, size = hooksPerGroup.first; ; ) {
    const look = () =>
      withTransaction(opened, async (connection) => lookAtGroup(kyselyOn(connection), { after, size }, options), stop)
    const { last, ...looked } = await rideOut(opened.db, look)
    if (last === undefined) return
    after = last
    const each = (looked.found + looked.dropped) / size
    size = Math.ceil(Math.min(2 * size, hooksPerGroup.max, foundPerGroup / each))
    yield looked
  }
}

const noHook = '00000000-0000-0000-0000-000000000000'

/**
 * Looks within the transaction of `db`: first finds due triggers, then takes the locks, then writes. `last` is undefined if there are no
 * more hooks.
 */
async function lookAtGroup(
  db: Database,
  { after, size }: { after: string; size: number },
  options: LookOptions,
): Promise<Looked & { last: string | undefined }> {
  const { upTo } = options
  const { rows: hooks } = await sql<HookToLook>`
    select id, looked_import_id as looked from hooks where looked_import_id < ${upTo} and id > ${after} order by id limit ${size}
  `.execute(db)
  const hookIds = hooks.map(({ id }) => id)
  const last = hookIds.at(-1)
  if (last === undefined) return { hooks: 0, found: 0, dropped: 0, last }
  // a process that is cut off from the database must not hold the hooks until the network notices
  await sql`
    select set_config(name, value, true)
    from (values ('jit', 'off'), ('work_mem', '64MB'), ('idle_in_transaction_session_timeout', '60s')) as s (name, value)
  `.execute(db)
  const since = Math.min(...hooks.map(({ looked }) => looked))
  const fresh = await collectFresh(db, hookIds, since, options)
  await sql`create temp table due_leads (
    hook_id uuid, kind text, version_id bigint, lead_id bigint, payload jsonb, occurred_at timestamptz, rank bigint
  ) on commit drop`.execute(db)
  if (fresh > 0) await sql`insert into due_leads ${rankLeads(hookIds)}`.execute(db)
  return { ...(await recordDue(db, hooks, upTo)), last }
}

/** Makes `fresh_leads`, the news of the imports after `since`, and returns the number of its rows. */
async function collectFresh(
  db: Database,
  hookIds: readonly string[],
  since: number,
  { upTo, maxLeadAgeMs, sameHouse }: LookOptions,
): Promise<number> {
  const wanted = await sql<{ byWords: number; asked: TriggerKind[] }>`
    select (
      select count(distinct q.search_id) from hooks h join integrations i on i.id = h.integration_id
        join queries q on q.user_id = i.user_id join searches s on s.id = q.search_id
      where h.id = any (${hookIds}::uuid[]) and s.words is not null
    ) as "byWords", array(select distinct unnest(triggers) from hooks where id = any (${hookIds}::uuid[])) as asked
  `.execute(db)
  const { byWords, asked } = wanted.rows[0] ?? { byWords: 0, asked: [] }
  const seenSince = sql<Date>`now() - ${maxLeadAgeMs} * interval '1 millisecond'`
  const counts =
    sameHouse === 'once'
      ? sql`(select ${findCounted(sql`l`, seenSince)} is null from leads l where l.id = f.id)`
      : sql`true`
  const range = {
    // all versions of these imports lie above the last one before the first of them
    base: sql`(select base_version_id from imports where id > ${since} order by id limit 1)`,
    since,
    upTo,
    listed: isListed(sql`s`, seenSince),
    sameHouse,
    lead: sql`l.id, l.postal_key, l.city_key, ${byWords > 0 ? sql`l.search` : sql`null::tsvector`}`,
  }
  await sql`create temp table fresh_leads (
    lead_id bigint, postal_key text, city_key text, search tsvector, version_id bigint, from_import_id bigint, import_id bigint,
    occurred_at timestamptz, payload jsonb, gone_at timestamptz, kind text, id bigint generated always as identity
  ) on commit drop`.execute(db)
  let fresh = 0
  for (const kind of asked) {
    const { numAffectedRows } = await sql`
      insert into fresh_leads (${freshColumns}) select f.*, ${kind} from (${kinds[kind].findFresh(range)}) f where ${counts}
    `.execute(db)
    fresh += Number(numAffectedRows ?? 0)
  }
  if (byWords > searchesPerIndex) {
    await sql`create index on fresh_leads using gin (search) with (fastupdate = off)`.execute(db)
  }
  await sql`analyze fresh_leads`.execute(db)
  return fresh
}

const freshColumns = sql.raw(
  'lead_id, postal_key, city_key, search, version_id, from_import_id, import_id, occurred_at, payload, gone_at, kind',
)

interface HookToLook {
  id: string
  looked: number
}

/**
 * Records the due triggers, and that the hooks have been looked at. Skips hooks that were removed or looked at meanwhile. Triggers for a
 * hook that is switched off, or beyond its newest, are kept as lost.
 */
async function recordDue(db: Database, hooks: readonly HookToLook[], upTo: number): Promise<Looked> {
  const { rows: locked } = await sql<{ id: string }>`
    select h.id from hooks h
      join unnest(${hooks.map(({ id }) => id)}::uuid[], ${hooks.map(({ looked }) => looked)}::bigint[]) as given (id, looked)
      on given.id = h.id and given.looked = h.looked_import_id
    order by h.id for update of h
  `.execute(db)
  const ids = locked.map(({ id }) => id)
  // what is not lost
  const isDue = sql<boolean>`(rank <= ${sql.lit(leadsPerHookMax)} and h.off_since is null)`
  const found = sql`due_leads join hooks h on h.id = hook_id where hook_id = any (${ids}::uuid[])`
  const due = await sql`
    insert into triggers (hook_id, version_id, kind, lead_id, payload, occurred_at, due_at)
    select hook_id, version_id, kind, lead_id, payload, occurred_at, occurred_at from ${found} and ${isDue}
  `.execute(db)
  const isBeyond = sql<boolean>`(rank > ${sql.lit(leadsPerHookMax)})`
  const { rows } = await sql<{ dropped: number }>`
    with kept as (
      insert into lost_triggers (dropped, ${lostColumns})
      select ${isBeyond}, ${lostOf} from ${found} and not ${isDue}
      group by hook_id, kind, ${isBeyond}, (rank - ${leadsPerHookMax} - 1) / ${lostPerRow}
      returning hook_id, dropped, cardinality(lead_ids) as n
    ),
    lost as (
      select hook_id, coalesce(sum(n) filter (where dropped), 0)::bigint as dropped,
        coalesce(sum(n) filter (where not dropped), 0)::bigint as abandoned from kept group by hook_id
    ),
    looked as (
      -- an import that a standby lacked when it took over may have its id given again (contract 4.7)
      update hooks h set looked_import_id = greatest(h.looked_import_id, least(${upTo}, (select coalesce(max(id), 0) from imports))),
        abandoned = h.abandoned + coalesce(l.abandoned, 0), dropped = h.dropped + coalesce(l.dropped, 0),
        dropped_at = case when l.dropped > 0 then now() else h.dropped_at end
      from unnest(${ids}::uuid[]) as given (id) left join lost l on l.hook_id = given.id where h.id = given.id
    )
    select coalesce(sum(dropped), 0)::bigint as dropped from lost
  `.execute(db)
  return { hooks: ids.length, found: Number(due.numAffectedRows ?? 0), dropped: rows[0]?.dropped ?? 0 }
}

/**
 * SQL: the news for each hook, ranked within its kind from the newest, which has rank 1. Queries with the same meaning are matched once;
 * a lead that several queries of a user match is due once.
 */
const rankLeads = (hookIds: readonly string[]) => sql`
  with given as materialized (
    select h.id, h.looked_import_id, h.created_at, i.user_id, h.triggers
    from hooks h join integrations i on i.id = h.integration_id
    where h.id = any (${hookIds}::uuid[])
  ),
  wanted as materialized (
    select distinct q.user_id, q.search_id from queries q where q.user_id in (select user_id from given)
  ),
  meant as materialized (select * from searches where id in (select search_id from wanted)),
  places as materialized (select s.id as search_id, p.place from meant s cross join unnest(s.places) as p (place)),
  with_words as materialized (
    select s.id as search_id, s.kind, f.id, f.postal_key, f.city_key
    from meant s join fresh_leads f on f.search @@ plainto_tsquery('english'::regconfig, s.words)
  ),
  matched as (
    select p.search_id, f.id
    from meant s join places p on p.search_id = s.id join fresh_leads f on f.postal_key = p.place
    where s.kind = 'place'
    union all
    select p.search_id, f.id
    from meant s join places p on p.search_id = s.id join fresh_leads f on f.city_key = p.place
    where s.kind = 'place' and f.city_key is not null
    union all
    select search_id, id from with_words where kind = 'words'
    union all
    select w.search_id, w.id
    from with_words w join places p on p.search_id = w.search_id and p.place = w.postal_key
    where w.kind = 'both'
    union all
    select w.search_id, w.id
    from with_words w join places p on p.search_id = w.search_id and p.place = w.city_key
    where w.kind = 'both' and w.city_key is not null
  ),
  for_user as (select distinct w.user_id, m.id from wanted w join matched m on m.search_id = w.search_id)
  select g.id as hook_id, f.kind, f.version_id, f.lead_id, f.payload, f.occurred_at,
    row_number() over (partition by g.id, f.kind order by f.version_id desc) as rank
  from given g join for_user u on u.user_id = g.user_id join fresh_leads f on f.id = u.id
  where g.looked_import_id >= f.from_import_id and g.looked_import_id < f.import_id
    and f.kind = any (g.triggers)
    -- its \`lead_gone\` was due to the hook
    and (f.gone_at is null or ('lead_gone' = any (g.triggers) and g.created_at < f.gone_at))
`
