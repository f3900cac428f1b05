/**
 * Records the outcomes of attempts: in one transaction that first locks the hooks, in the order of their ids, so that later statements
 * see everything that was committed while it waited. A success always counts; a failure counts while this process has the trigger.
 */
import { sql, type Transaction } from 'kysely'
import { triggerJitter, triggerPausesMs } from '../base/limits.ts'
import { endIdleTransaction } from '../db/idle.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'
import { lostColumns, lostOf } from './lost-triggers.ts'
import type { TriggerOutcome } from './trigger-attempt.ts'
import type { TriggerKey } from './trigger-store.ts'

/** The outcome of one attempt. */
export interface TriggerToRecord extends TriggerKey, TriggerOutcome {
  leadId: number
  /** Whether this was the last attempt and it failed. */
  abandoned: boolean
  /** How many attempts of the hook in a row have failed by then. */
  failures: number
  /** The pause that the hook gets; null: none. */
  pauseMs: number | null
}

/** SQL: outcomes as rows `o`, and whether `t` is the trigger of an outcome. */
const rowsOf = (outcomes: readonly object[]) =>
  sql`json_to_recordset(${JSON.stringify(outcomes)}::json) as o (
    "hookId" uuid, "versionId" bigint, kind text, "leadId" bigint, ok boolean, "anyOk" boolean, "httpStatus" integer, error text,
    answer text, failures smallint, "retryAfterMs" double precision, "pauseMs" double precision
  )`
const isOfOutcome = sql<boolean>`(t.hook_id = o."hookId" and t.version_id = o."versionId" and t.kind = o.kind)`

/**
 * Records outcomes, the oldest first, of triggers that the process has marked. Returns the hooks that were switched off, and how many due
 * triggers ended with their hook, or were set aside with it, without an attempt under way.
 */
export async function recordTriggers(
  db: Database,
  { ids }: Pick<Worker, 'ids'>,
  dueUntil: string,
  outcomes: readonly TriggerToRecord[],
): Promise<{ offIds: string[]; ended: number }> {
  const hookIds = [...new Set(outcomes.map(({ hookId }) => hookId))]
  const endsOthers = outcomes.some((outcome) => outcome.gone || outcome.abandoned)
  return await db.transaction().execute(async (transaction) => {
    await endIdleTransaction(transaction)
    await sql`select from hooks where id = any (${hookIds}::uuid[]) order by id for update`.execute(transaction)
    const countNotBegun = async () => {
      const { rows } = await sql<{ n: number }>`
        select count(*) as n from triggers where hook_id = any (${hookIds}::uuid[]) and worker_id is null and due_at <= ${dueUntil}
      `.execute(transaction)
      return rows[0]?.n ?? 0
    }
    const before = endsOthers ? await countNotBegun() : 0
    const gone = outcomes.filter((outcome) => outcome.gone)
    if (gone.length > 0) {
      await sql`delete from hooks where id = any (${gone.map(({ hookId }) => hookId)}::uuid[])`.execute(transaction)
    }
    const delivered = outcomes.filter(({ ok }) => ok)
    if (delivered.length > 0) {
      await sql`delete from triggers t using ${rowsOf(delivered)} where ${isOfOutcome}`.execute(transaction)
    }
    const failed = outcomes.filter(({ ok, abandoned }) => !ok && !abandoned)
    await postpone(transaction, ids, failed)
    const offIds = await abandon(transaction, ids, outcomes)
    await noteOnHooks(transaction, outcomes)
    return { offIds, ended: endsOthers ? before - (await countNotBegun()) : 0 }
  })
}

/** Failed triggers are due again after the pause of the schedule. */
async function postpone(db: Transaction<Tables>, ids: readonly number[], failed: readonly TriggerToRecord[]) {
  if (failed.length === 0) return
  await sql`
    update triggers t set attempts = t.attempts + 1, worker_id = null, last_error = o.error, failing_since = coalesce(t.failing_since, now()),
      due_at = now() + interval '1 millisecond' * greatest(o."retryAfterMs",
        (${[...triggerPausesMs]}::double precision[])[t.attempts + 1] * (1 + ${triggerJitter}::double precision * random()))
    from ${rowsOf(failed)} where ${isOfOutcome} and t.worker_id = any (${ids})
  `.execute(db)
}

/**
 * Abandoned triggers become lost ones. A hook is switched off if one trigger used up its schedule with nothing delivered meanwhile
 * (contract 6.5); then all its triggers are lost. Returns these hooks.
 */
async function abandon(db: Transaction<Tables>, ids: readonly number[], outcomes: readonly TriggerToRecord[]) {
  const abandoned = outcomes.filter((outcome) => outcome.abandoned)
  if (abandoned.length === 0) return []
  const tookOne = outcomes.filter(({ ok }) => ok).map(({ hookId }) => hookId)
  const { rows } = await sql<{ id: string }>`
    with abandoned as (
      delete from triggers t using ${rowsOf(abandoned)} where ${isOfOutcome} and t.worker_id = any (${ids}) returning t.*, o.error
    ),
    off as (
      select distinct h.id from abandoned a join hooks h on h.id = a.hook_id
      where a.failing_since >= h.failing_since and h.id <> all (${tookOne}::uuid[])
    ),
    put_by as (
      delete from triggers t where hook_id in (select id from off)
        and not exists (select from ${rowsOf(abandoned)} where ${isOfOutcome})
      returning t.*, null::text
    ),
    lost as materialized (select * from abandoned union all select * from put_by),
    kept as (insert into lost_triggers (${lostColumns}) select ${lostOf} from lost group by hook_id, kind),
    noted as (
      update hooks h set abandoned = h.abandoned + l.n, abandoned_at = now(), abandoned_error = l.error,
        off_since = case when h.id in (select id from off) then coalesce(h.off_since, now()) else h.off_since end
      from (select hook_id, count(*) as n, min(error) as error from lost group by hook_id) l where h.id = l.hook_id
    )
    select id from off
  `.execute(db)
  return rows.map(({ id }) => id)
}

/** Notes the last outcome of each hook, and the pause that it got. */
async function noteOnHooks(db: Transaction<Tables>, outcomes: readonly TriggerToRecord[]) {
  const hookIds = [...new Set(outcomes.map(({ hookId }) => hookId))]
  const ofHooks = hookIds.map((id) => {
    const own = outcomes.filter(({ hookId }) => hookId === id)
    const pauses = own.flatMap(({ pauseMs }) => pauseMs ?? [])
    return { ...own.at(-1), anyOk: own.some(({ ok }) => ok), pauseMs: pauses.length > 0 ? Math.max(...pauses) : null }
  })
  await sql`
    update hooks h set last_at = now(), last_status = o."httpStatus", last_error = o.error, failures = o.failures,
      failing_since = case when o.ok then null when o."anyOk" then now() else coalesce(h.failing_since, now()) end,
      paused_until = greatest(h.paused_until, now() + interval '1 millisecond' * o."pauseMs"),
      off_since = case when o."anyOk" then null else h.off_since end
    from ${rowsOf(ofHooks)} where h.id = o."hookId"
  `.execute(db)
}

/**
 * Records the last answer of each hook that refused a trigger (contract 4.16); nothing if the hook was removed, or its lead erased,
 * meanwhile. A statement of its own, after the outcomes: an erasure locks leads before triggers.
 */
export async function recordHookAnswers(db: Database, outcomes: readonly TriggerToRecord[]): Promise<void> {
  const said = outcomes.filter(({ answer, gone }) => answer !== undefined && !gone)
  const last = [...new Map(said.map((outcome) => [outcome.hookId, outcome])).values()]
  if (last.length === 0) return
  await sql`
    insert into hook_answers (hook_id, lead_id, answer)
    select h.id, l.id, o.answer from ${rowsOf(last)}
      -- a hook that another transaction removes while this statement waits for it is no row of this join
      join (select id from hooks where id = any (${last.map(({ hookId }) => hookId)}::uuid[]) order by id for key share) h on h.id = o."hookId"
      join (select id from leads where id = any (${last.map(({ leadId }) => leadId)}) order by id for key share) l on l.id = o."leadId"
    order by h.id
    on conflict (hook_id) do update set lead_id = excluded.lead_id, answer = excluded.answer, said_at = excluded.said_at
  `.execute(db)
}
