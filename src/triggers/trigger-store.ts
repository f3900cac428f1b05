/**
 * Records triggers, before an attempt and after it. One run sends at a time, and marks each trigger before sending it in a statement that
 * checks that it still has the duty. A statement that locks rows of both tables locks hooks before triggers, in the order of their ids.
 */
import { sql, type Transaction } from 'kysely'
import { triggerJitter, triggerPausesMs } from '../base/limits.ts'
import { hasDuty } from '../db/duties.ts'
import { endIdleTransaction } from '../db/idle.ts'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'
import type { TriggerKind } from '../index.ts'
import { isOverlapping } from '../integrations/integrations.ts'
import { isListed } from '../matching/listed.ts'
import type { Fate, TriggerEvent } from './kinds/kind.ts'
import { fateOf } from './kinds/kinds.ts'
import { lostColumns, lostOf } from './lost-triggers.ts'

/** The duty of the run that sends. */
export const triggerDuty = 'triggers'

/** A hook for which something is due. */
export interface DueHook {
  id: string
  url: string
  integrationId: number
  /** Whether it was never called, or did not answer its last attempt. */
  isUnproven: boolean
  /** How many attempts in a row have failed. */
  failures: number
}

/** A trigger that this process has marked as being sent. */
export interface TakenTrigger extends TriggerEvent {
  hookId: string
  versionId: number
  kind: TriggerKind
  leadId: number
  userId: number
  /** Those of the integration that count now, as they are stored; two while a rotation overlaps. */
  signingSecrets: readonly string[]
  /** How many attempts have failed before. */
  attempts: number
  fate: Fate
  /** Whether the version still exists: it may have been erased, or pruned. */
  hasVersion: boolean
  /** The time by the database's clock. */
  now: Date
}

/** The outcome of one attempt. */
export interface TriggerToRecord {
  hookId: string
  versionId: number
  kind: TriggerKind
  ok: boolean
  /** Whether this was the last attempt and it failed. */
  abandoned: boolean
  gone: boolean
  httpStatus: number | null
  error: string | null
  /** How long the answer asks to wait. */
  retryAfterMs: number | null
  /** How many attempts of the hook in a row have failed by then. */
  failures: number
  /** The pause that the hook gets; null: none. */
  pauseMs: number | null
  leadId: number
  /** What the hook said when it refused. */
  answer?: string | undefined
}

/**
 * The process that sends: its ids as a worker, the current one last, and until when triggers must be due for its run
 * (`timestamptz` as text).
 */
export interface TriggerWorker {
  ids: readonly number[]
  dueUntil: string
}

/** SQL: whether hook `h` had a pause when the run began; the run then leaves it alone (contract 6.5). */
export const isPaused = ({ dueUntil }: Pick<TriggerWorker, 'dueUntil'>) =>
  sql<boolean>`(h.paused_until is not null and h.paused_until > ${dueUntil})`

/** SQL: the host of hook `h`. Another spelling of a host may pass for another one here, but not where attempts are paced. */
const hostOfHook = sql<string>`lower(rtrim(substring(h.url from '^[^/]*//(\\[[^]/]*\\]|[^/?#:]*)'), '.'))`

/** SQL: the fate of trigger `t`, where a listing that was last seen longer ago is too old. */
const fateWithin = (maxLeadAgeMs: number) =>
  fateOf(isListed(sql`s`, sql<Date>`now() - ${maxLeadAgeMs} * interval '1 millisecond'`))

const hooksPerPage = 512

const currentOf = ({ ids }: TriggerWorker) => ids.at(-1) ?? 0

/** The last committed import, and the time after it to the microsecond. A failure from then on is for later runs. */
export async function findRunStart(db: Database): Promise<{ lastImportId: number; dueUntil: string }> {
  const { rows } = await sql<{ lastImportId: number; dueUntil: string }>`
    select coalesce(max(id), 0) as "lastImportId", clock_timestamp()::text as "dueUntil" from imports
  `.execute(db)
  return rows[0] ?? { lastImportId: 0, dueUntil: '-infinity' }
}

/**
 * Finds hooks for which something is due, apart from the `known` ones and those of `fullHosts`. Hooks that accepted their last trigger
 * come first, hooks that did not answer last.
 */
export async function findDueHooks(
  db: Database,
  run: Pick<TriggerWorker, 'dueUntil'>,
  which: { limit: number; alsoUnproven: boolean; known: readonly string[]; fullHosts: readonly string[] },
): Promise<DueHook[]> {
  const { limit, alsoUnproven, known, fullHosts } = which
  const isUnproven = sql<boolean>`(h.last_status is null)`
  const { rows } = await sql<DueHook>`
    select h.id, h.url, h.integration_id as "integrationId", ${isUnproven} as "isUnproven", h.failures from hooks h
    where h.id in (select hook_id from triggers where due_at <= ${run.dueUntil}) and not ${isPaused(run)} and h.id <> all (${known}::uuid[])
      ${alsoUnproven ? sql`` : sql`and not ${isUnproven}`}
      ${fullHosts.length === 0 ? sql`` : sql`and ${hostOfHook} <> all (${fullHosts})`}
    order by ${isUnproven}, h.last_status >= 300, h.last_at nulls first limit ${limit}
  `.execute(db)
  return rows
}

/** Marks the next due trigger of each hook as being sent; none once this process has lost the duty. */
export async function takeTriggers(
  db: Database,
  worker: TriggerWorker,
  hookIds: readonly string[],
  maxLeadAgeMs: number,
): Promise<TakenTrigger[]> {
  const { rows } = await sql<TakenTrigger>`
    with given as materialized (
      select h.id, i.user_id, case when ${isOverlapping} then array[i.signing_secret, i.previous_signing_secret]
        else array[i.signing_secret] end as secrets
      from hooks h join integrations i on i.id = h.integration_id
      where h.id = any (${hookIds}::uuid[]) and not ${isPaused(worker)}
    ),
    -- before the update: joined with it, the search may run once a trigger, and then finds the next one each time
    found as materialized (
      select g.id as hook_id, g.user_id, g.secrets, n.version_id, n.kind from given g cross join lateral (
        select version_id, kind from triggers
        where hook_id = g.id and due_at <= ${worker.dueUntil} and (worker_id is null or worker_id <> all (${worker.ids}))
        order by version_id, kind limit 1 for update skip locked
      ) n
    )
    update triggers t set worker_id = ${currentOf(worker)} from found n
    where t.hook_id = n.hook_id and t.version_id = n.version_id and t.kind = n.kind and ${hasDuty(triggerDuty, currentOf(worker))}
    returning t.hook_id as "hookId", t.version_id as "versionId", t.kind, t.lead_id as "leadId", t.occurred_at as "occurredAt",
      t.payload,
      n.user_id as "userId", n.secrets as "signingSecrets", t.attempts,
      ${fateWithin(maxLeadAgeMs)} as fate,
      exists (select from lead_versions v where v.id = t.version_id) as "hasVersion", clock_timestamp() as now
  `.execute(db)
  return rows
}

/** The current JSON of a lead; undefined where the lead was erased. */
export async function findLeadJson(db: Database, leadId: number): Promise<string | undefined> {
  const found = await db
    .selectFrom('leads as l')
    .innerJoin('lead_versions as v', 'v.id', 'l.version_id')
    .select('v.json')
    .where('l.id', '=', leadId)
    .executeTakeFirst()
  return found?.json
}

/** Ends a trigger that is not to be sent any more. */
export async function endTrigger(db: Database, { hookId, versionId, kind }: TakenTrigger): Promise<void> {
  await sql`delete from triggers where hook_id = ${hookId} and version_id = ${versionId} and kind = ${kind}`.execute(db)
}

/** Sets a trigger aside whose lead is gone or too old: no run takes it until `renewAside` finds that an import brought the lead again. */
export async function setAside(
  db: Database,
  { ids }: Pick<TriggerWorker, 'ids'>,
  { hookId, versionId, kind }: TakenTrigger,
): Promise<void> {
  await sql`
    update triggers set due_at = 'infinity', worker_id = null
    where hook_id = ${hookId} and version_id = ${versionId} and kind = ${kind} and worker_id = any (${ids})
  `.execute(db)
}

/** Makes triggers due that were set aside, and whose leads are back; also those whose leads are no more, which then end. */
export async function renewAside(db: Database, maxLeadAgeMs: number): Promise<void> {
  for (let last: string | null = '00000000-0000-0000-0000-000000000000'; last !== null; ) {
    const { rows }: { rows: { last: string | null }[] } = await sql<{ last: string | null }>`
      with page as materialized (
        select distinct hook_id from triggers where due_at = 'infinity' and hook_id > ${last} order by hook_id limit ${hooksPerPage}
      ),
      found as materialized (
        select t.hook_id, t.version_id, t.kind from triggers t
        where t.due_at = 'infinity' and t.hook_id in (select hook_id from page) and ${fateWithin(maxLeadAgeMs)} <> 'wait'
      ),
      renewed as (
        update triggers t set due_at = now() from found f where t.hook_id = f.hook_id and t.version_id = f.version_id and t.kind = f.kind
          and t.due_at = 'infinity'
      )
      select (select hook_id from page order by hook_id desc limit 1) as last
    `.execute(db)
    last = rows[0]?.last ?? null
  }
}

/** What recording changed besides the triggers themselves. */
export interface RecordedTriggers {
  /** How many due triggers ended with their hook, or were put by with it, without having begun. */
  ended: number
  /** The hooks that were switched off. */
  offIds: string[]
}

/**
 * Records outcomes. A success counts whenever it comes; a failure counts while the trigger is in the hands of this process.
 * Removes hooks that are gone. Switches a hook off that used up the schedule for one trigger with nothing delivered meanwhile
 * (contract 6.5); what is abandoned, and all triggers of such a hook, become lost triggers.
 */
export async function recordTriggers(
  db: Database,
  worker: TriggerWorker,
  outcomes: readonly TriggerToRecord[],
): Promise<RecordedTriggers> {
  const hookIds = [...new Set(outcomes.map(({ hookId }) => hookId))]
  return await db.transaction().execute(async (transaction) => {
    await endIdleTransaction(transaction)
    // the next statement sees what was committed while this one waited, as triggers that a look found for a hook that is switched off
    await sql`select from hooks where id = any (${hookIds}::uuid[]) order by id for update`.execute(transaction)
    return await recordLocked(transaction, worker, outcomes)
  })
}

async function recordLocked(
  transaction: Transaction<Tables>,
  worker: TriggerWorker,
  outcomes: readonly TriggerToRecord[],
): Promise<RecordedTriggers> {
  const goneIds = [...new Set(outcomes.filter(({ gone }) => gone).map(({ hookId }) => hookId))]
  const { rows } = await sql<RecordedTriggers>`
    with outcome as materialized (
      select * from unnest(${outcomes.map(({ hookId }) => hookId)}::uuid[],
        ${outcomes.map(({ versionId }) => versionId)}::bigint[], ${outcomes.map(({ ok }) => ok)}::boolean[],
        ${outcomes.map(({ abandoned }) => abandoned)}::boolean[], ${outcomes.map(({ httpStatus }) => httpStatus)}::integer[],
        ${outcomes.map(({ error }) => error)}::text[], ${outcomes.map(({ retryAfterMs }) => retryAfterMs)}::double precision[],
        ${outcomes.map(({ kind }) => kind)}::text[],
        ${outcomes.map(({ failures }) => failures)}::smallint[], ${outcomes.map(({ pauseMs }) => pauseMs)}::double precision[])
        with ordinality as o (hook_id, version_id, ok, abandoned, status, error, retry_after_ms, kind, failures, pause_ms, n)
    ),
    locked as materialized (
      select id, failing_since from hooks where id in (select hook_id from outcome)
    ),
    ended_keys as materialized (
      select hook_id, version_id, kind from outcome where ok or abandoned
    ),
    ended as (
      delete from triggers t using outcome o where t.hook_id = o.hook_id and t.version_id = o.version_id and t.kind = o.kind
        and (o.ok or (o.abandoned and t.worker_id = any (${worker.ids}))) and t.hook_id in (select id from locked)
      returning t.*, o.ok
    ),
    off as materialized (
      select distinct l.id from ended e join locked l on l.id = e.hook_id
      where not e.ok and e.failing_since >= l.failing_since and l.id not in (select hook_id from outcome where ok)
    ),
    failed as (
      update triggers t set attempts = t.attempts + 1, worker_id = null, last_error = o.error,
        failing_since = coalesce(t.failing_since, now()),
        due_at = now() + interval '1 millisecond' * greatest(o.retry_after_ms,
          (${[...triggerPausesMs]}::double precision[])[t.attempts + 1] * (1 + ${triggerJitter}::double precision * random()))
      from outcome o where t.hook_id = o.hook_id and t.version_id = o.version_id and t.kind = o.kind and not o.ok and not o.abandoned
        and t.worker_id = any (${worker.ids}) and t.hook_id in (select id from locked) and t.hook_id not in (select id from off)
        and t.hook_id <> all (${goneIds}::uuid[])
    ),
    put_by as (
      delete from triggers t using off where t.hook_id = off.id
        and (t.hook_id, t.version_id, t.kind) not in (select hook_id, version_id, kind from ended_keys)
      returning t.*
    ),
    lost as materialized (
      select hook_id, version_id, kind, lead_id, payload, occurred_at from ended where not ok
      union all select hook_id, version_id, kind, lead_id, payload, occurred_at from put_by
    ),
    kept as (insert into lost_triggers (${lostColumns})
      select ${lostOf} from lost where hook_id <> all (${goneIds}::uuid[]) group by hook_id, kind),
    abandoned as (select hook_id, count(*) as n from lost group by hook_id),
    last as (select distinct on (hook_id) *, bool_or(ok) over (partition by hook_id) as any_ok from outcome order by hook_id, n desc),
    paused as (
      select hook_id, now() + interval '1 millisecond' * max(pause_ms) as until
      from outcome where pause_ms is not null group by hook_id
    ),
    noted as (
      update hooks h set last_at = now(), last_status = l.status, last_error = l.error, failures = l.failures,
        abandoned = h.abandoned + coalesce(a.n, 0), abandoned_at = case when a.n > 0 then now() else h.abandoned_at end,
        abandoned_error = case when a.n > 0 then l.error else h.abandoned_error end,
        failing_since = case when l.ok then null when l.any_ok then now() else coalesce(h.failing_since, now()) end,
        paused_until = greatest(h.paused_until, p.until),
        off_since = case when h.id in (select id from off) then coalesce(h.off_since, now()) when l.any_ok then null else h.off_since end
      from last l left join abandoned a on a.hook_id = l.hook_id left join paused p on p.hook_id = l.hook_id
      where h.id = l.hook_id and h.id in (select id from locked) and h.id <> all (${goneIds}::uuid[])
    ),
    removed as (delete from hooks where id = any (${goneIds}::uuid[]) and id in (select id from locked) returning id)
    select (select count(*) from triggers
        where hook_id in (select id from removed) and worker_id is null and due_at <= ${worker.dueUntil})
      + (select count(*) from put_by where worker_id is null and due_at <= ${worker.dueUntil}) as ended,
      array(select id from off) as "offIds"
  `.execute(transaction)
  return rows[0] ?? { ended: 0, offIds: [] }
}

/**
 * Gives back the triggers of those hooks that were marked and not sent, also where the answer that told of them was lost; returns whether
 * there were any. Nothing may be under way to the hooks.
 */
export async function releaseTriggers(
  db: Database,
  { ids }: TriggerWorker,
  hookIds: readonly string[],
): Promise<boolean> {
  const { numAffectedRows = 0n } = await sql`
    update triggers set worker_id = null where hook_id = any (${hookIds}::uuid[]) and worker_id = any (${ids})
  `.execute(db)
  return numAffectedRows > 0n
}

/**
 * Due triggers that were not sent: `left`, whose hooks have no pause; `waiting`, because their hooks got a pause since the run began, or,
 * where they are sent `again` (those of one hook, or all), have one from before.
 */
export async function countLeft(
  db: Database,
  { dueUntil, startedAt }: { dueUntil: string; startedAt: string },
  again?: { hookId: string | undefined },
): Promise<{ left: number; waiting: number }> {
  const isAskedFor =
    again === undefined ? sql`false` : again.hookId === undefined ? sql`true` : sql`h.id = ${again.hookId}`
  const paused = isPaused({ dueUntil: startedAt })
  const { rows } = await sql<{ left: number; waiting: number }>`
    select count(*) filter (where not ${paused}) as "left",
      count(*) filter (where ${paused} and (h.last_at >= ${startedAt} or ${isAskedFor})) as waiting
    from hooks h join triggers t on t.hook_id = h.id where t.due_at <= ${dueUntil}
  `.execute(db)
  return rows[0] ?? { left: 0, waiting: 0 }
}
