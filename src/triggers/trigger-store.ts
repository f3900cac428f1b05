/**
 * Finds due triggers, and marks each before it is sent, in a statement that checks that the run still has the duty: `leads forget` waits
 * for marked triggers.
 */
import { sql } from 'kysely'
import { hasDuty } from '../db/duties.ts'
import type { Worker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { TriggerKind } from '../index.ts'
import { isOverlapping } from '../integrations/integrations.ts'
import { isListed } from '../matching/listed.ts'
import { type DueHook, hooksPerHostMax, type Lane } from './hook-lanes.ts'
import type { Fate, TriggerEvent } from './kinds/kind.ts'
import { fateOf } from './kinds/kinds.ts'

/** The duty of the run that sends. */
export const triggerDuty = 'triggers'

/** The identity of a trigger: no two triggers have all three values alike. */
export interface TriggerKey {
  hookId: string
  versionId: number
  kind: TriggerKind
}

/** A trigger that was due. */
export interface TakenTrigger extends TriggerKey, TriggerEvent {
  leadId: number
  userId: number
  /** The signing secrets of the integration that count now, in their stored form; two while a rotation overlaps. */
  signingSecrets: readonly string[]
  /** How many attempts have failed before. */
  attempts: number
  /** A trigger that waits is set aside, one that ended is deleted, and one that is to be sent is marked. */
  fate: Fate
  bytes: number
  /** The JSON of the version, or of the current one if the version is erased or pruned; null if there is no room: then nothing is marked. */
  json: string | null
  /** The time by the database's clock. */
  now: Date
}

/** SQL: whether hook `h` had a pause when the run began; the run then leaves it alone (contract 6.5). */
const isPaused = (dueUntil: string) => sql<boolean>`(h.paused_until is not null and h.paused_until > ${dueUntil})`

/** SQL: the host of hook `h`. Two spellings of a host may count as two hosts here, but not in the pace of attempts. */
const hostOfHook = sql<string>`lower(rtrim(substring(h.url from '^[^/]*//(\\[[^]/]*\\]|[^/?#:]*)'), '.'))`

/** SQL: the fate of trigger `t`; a listing that was last seen longer ago is too old. */
const fateWithin = (maxLeadAgeMs: number) =>
  fateOf(isListed(sql`s`, sql<Date>`now() - ${maxLeadAgeMs} * interval '1 millisecond'`))

/** So many hooks are found at a time: to find a few costs as much. */
export const hooksPerLook = 4_096

/** The last committed import, and the time after it to the microsecond. A failure from then on is for later runs. */
export async function findRunStart(db: Database): Promise<{ lastImportId: number; dueUntil: string }> {
  const { rows } = await sql<{ lastImportId: number; dueUntil: string }>`
    select coalesce(max(id), 0) as "lastImportId", clock_timestamp()::text as "dueUntil" from imports
  `.execute(db)
  return rows[0] ?? { lastImportId: 0, dueUntil: '-infinity' }
}

/**
 * Finds hooks with due triggers, apart from known ones, and no more of a host than the run may know. Hooks that accepted their last
 * trigger come first, hooks that did not answer last; among equals the hosts take turns, since each has a pace.
 */
export async function findDueHooks(db: Database, dueUntil: string, knownIds: readonly string[]): Promise<DueHook[]> {
  const isNew = sql<boolean>`(h.id <> all (${knownIds}::uuid[]))`
  const best = sql`h."isUnproven", h.last_status >= 300, h.last_at nulls first`
  const { rows } = await sql<DueHook>`
    with due as (
      select h.*, h.last_status is null as "isUnproven" from hooks h
      where h.id in (select hook_id from triggers where due_at <= ${dueUntil}) and not ${isPaused(dueUntil)}
    ),
    ranked as (select h.*, row_number() over (partition by ${hostOfHook} order by ${isNew}, ${best}) as n from due h)
    select h.id, h.url, h.integration_id as "integrationId", h."isUnproven", h.failures
    from ranked h where h.n <= ${hooksPerHostMax} and ${isNew} order by ${best}, h.n limit ${hooksPerLook}
  `.execute(db)
  return rows
}

/** The name of a trigger among those in hand. */
export const nameOf = ({ versionId, kind }: TriggerKey) => `${versionId} ${kind}`

/**
 * Marks as being sent each hook's next trigger that is due by `dueUntil` (`timestamptz` as text) and not in hand; none once this process
 * has lost the duty. Reads their leads until they have `bytesMax`.
 */
export async function takeTriggers(
  db: Database,
  worker: Pick<Worker, 'id'>,
  dueUntil: string,
  lanes: readonly Pick<Lane, 'id' | 'inHand'>[],
  { maxLeadAgeMs, bytesMax }: { maxLeadAgeMs: number; bytesMax: number },
): Promise<TakenTrigger[]> {
  const inHand = lanes.flatMap(({ id, inHand }) => [...inHand].map((name) => `${id} ${name}`))
  const isSame = sql<boolean>`(t.hook_id = n.hook_id and t.version_id = n.version_id and t.kind = n.kind)`
  const bytes = sql<number>`coalesce(v.bytes, c.bytes, 0)`
  const { rows } = await sql<TakenTrigger>`
    with given as materialized (
      select h.id, i.user_id, case when ${isOverlapping} then array[i.signing_secret, i.previous_signing_secret]
        else array[i.signing_secret] end as secrets
      from hooks h join integrations i on i.id = h.integration_id
      where h.id = any (${lanes.map(({ id }) => id)}::uuid[]) and not ${isPaused(dueUntil)} and ${hasDuty(triggerDuty, worker.id)}
    ),
    -- before the update: joined with it, the search may run once a trigger, and then finds the next one each time
    next as materialized (
      select g.id as hook_id, n.version_id, n.kind from given g cross join lateral (
        select version_id, kind from triggers
        where hook_id = g.id and due_at <= ${dueUntil} and concat_ws(' ', hook_id, version_id, kind) <> all (${inHand}::text[])
        order by version_id, kind limit 1 for update skip locked
      ) n
    ),
    found as materialized (
      select t.*, ${fateWithin(maxLeadAgeMs)} as fate, coalesce(v.json, c.json) as json, ${bytes} as bytes,
        sum(${bytes}) over (order by t.hook_id) - ${bytes} < ${bytesMax} as fits
      from next n join triggers t on ${isSame} left join lead_versions v on v.id = t.version_id
        left join leads l on l.id = t.lead_id left join lead_versions c on c.id = l.version_id
    ),
    marked as (
      update triggers t set worker_id = ${worker.id} from found n where ${isSame} and n.fate = 'send' and n.fits
    ),
    set_aside as (update triggers t set due_at = 'infinity', worker_id = null from found n where ${isSame} and n.fate = 'wait'),
    ended as (delete from triggers t using found n where ${isSame} and n.fate = 'end')
    select t.hook_id as "hookId", t.version_id as "versionId", t.kind, t.lead_id as "leadId", t.occurred_at as "occurredAt",
      t.payload, g.user_id as "userId", g.secrets as "signingSecrets", t.attempts, t.fate, t.bytes,
      case when t.fate = 'send' and t.fits then t.json end as json, clock_timestamp() as now
    from found t join given g on g.id = t.hook_id
  `.execute(db)
  return rows
}

/** Gives back a trigger that was marked and not sent. */
export async function giveBack(db: Database, { ids }: Pick<Worker, 'ids'>, trigger: TriggerKey): Promise<void> {
  const { hookId, versionId, kind } = trigger
  await sql`
    update triggers set worker_id = null
    where hook_id = ${hookId} and version_id = ${versionId} and kind = ${kind} and worker_id = any (${ids})
  `.execute(db)
}

/** Makes triggers due that were set aside and whose leads are back. Those whose leads no longer exist are made due too, and then end. */
export async function renewAside(db: Database, maxLeadAgeMs: number): Promise<void> {
  await sql`
    update triggers set due_at = now() where ctid = any (array(
      select t.ctid from triggers t where t.due_at = 'infinity' and ${fateWithin(maxLeadAgeMs)} <> 'wait' for update skip locked
    ))
  `.execute(db)
}

/**
 * Counts due triggers that were not sent. `left`: their hooks have no pause. `waiting`: their hooks got a pause since the run began, or,
 * if they are sent `again` (those of one hook, or all), had one before.
 */
export async function countUnsent(
  db: Database,
  { dueUntil, startedAt }: { dueUntil: string; startedAt: string },
  again?: { hookId: string | undefined },
): Promise<{ left: number; waiting: number }> {
  const isAskedFor =
    again === undefined ? sql`false` : again.hookId === undefined ? sql`true` : sql`h.id = ${again.hookId}`
  const { rows } = await sql<{ left: number; waiting: number }>`
    select count(*) filter (where not ${isPaused(startedAt)}) as "left",
      count(*) filter (where ${isPaused(startedAt)} and (h.last_at >= ${startedAt} or ${isAskedFor})) as waiting
    from hooks h join triggers t on t.hook_id = h.id where t.due_at <= ${dueUntil}
  `.execute(db)
  return rows[0] ?? { left: 0, waiting: 0 }
}
