/** Runs: one row per `push` command, with its period, how it ended, and whether it served all its users. */
import { type RawBuilder, type Selectable, sql } from 'kysely'
import { codeOf, LeadpushError } from '../base/errors.ts'
import { frozenRunDays } from '../base/limits.ts'
import { repeatable } from '../db/dialect.ts'
import { durably } from '../db/durably.ts'
import { findOtherWorkers, isLive, type OtherWorker } from '../db/leases.ts'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'

export type RunCommand = Tables['runs']['command']
export type RunOutcome = Selectable<Tables['runs']>['outcome']

export interface Run {
  id: number
  /** `2026-W47`, fixed when the run began. */
  period: string
  /** The run does not deliver listings that no import had since then. */
  seenSince: Date
  /** The time zone of the last run, if it differs. */
  otherTimeZone: string | undefined
  /** With `--force`: the run that opened the forced scope in which this one serves users, itself or an earlier one. */
  forcedBy: number
}

export const periodIn = (timeZone: string | RawBuilder<string>) =>
  sql<string>`to_char(now() at time zone ${timeZone}, 'IYYY-"W"IW')`

const mondayOf = (period: RawBuilder<string>) => sql`to_date(${period}, 'IYYY-"W"IW')`

/** SQL: the earliest time at which `period` can begin, in any time zone. */
export const periodBegins = (period: RawBuilder<string>) =>
  sql<Date>`((${mondayOf(period)} - 1)::timestamp at time zone 'UTC')`

/** SQL: whether `period` is over in every time zone, with a day to spare for clocks. */
export const isPeriodOver = (period: RawBuilder<string>) =>
  sql<boolean>`(now() at time zone 'UTC' >= ${mondayOf(period)} + 9)`

/** SQL: whether the run `run` counts: one in the future was written by a wrong clock, and is ignored (contract 4.13). */
export const hasBegun = (run: RawBuilder<unknown>) => sql<boolean>`${run}.started_at <= now()`

/** SQL: whether the run `run` may still continue: its process is live, or may be frozen. */
export const isUnderWay = (run: RawBuilder<unknown>) =>
  sql<boolean>`(${run}.outcome = 'running' and (${isLive(sql`${run}.worker_id`)}
    or ${hasBegun(run)} and ${run}.started_at > now() - ${frozenRunDays} * interval '1 day'))`

/** The period that a run beginning now would have. Throws `usage` for a time zone that PostgreSQL does not know. */
export async function findPeriod(
  db: Database,
  settings: { timeZone: string; maxLeadAgeMs: number },
): Promise<Pick<Run, 'period' | 'seenSince'>> {
  try {
    const { rows } = await sql<Pick<Run, 'period' | 'seenSince'>>`
      select ${periodIn(settings.timeZone)} as period, now() - ${settings.maxLeadAgeMs} * interval '1 millisecond' as "seenSince"
    `.execute(db)
    return rows[0] as Pick<Run, 'period' | 'seenSince'>
  } catch (error) {
    if (codeOf(error) !== '22023') throw error
    throw new LeadpushError('usage', `LEADPUSH_TIME_ZONE: PostgreSQL does not know the time zone ${settings.timeZone}.`)
  }
}

/** The first content of a run's row. */
export interface RunToStart {
  command: RunCommand
  resumable: boolean
  timeZone: string
  maxLeadAgeMs: number
}

/** SQL: the run that opened the forced scope with which a `--force` goes on that begins now, or has begun; null: there is none. */
const openForcedBy = (period: string, hasBegun = sql`false`) =>
  sql`(select s.run_id from forced_scopes s where s.period = ${period} and (not s.is_over or ${hasBegun}))`

/** The same; undefined: there is none. */
export async function findOpenForcedBy(db: Database, period: string): Promise<number | undefined> {
  const { rows } = await sql<{ by: number | null }>`select ${openForcedBy(period)} as by`.execute(db)
  return rows[0]?.by ?? undefined
}

/** Begins the one run of the process that has `workerIds`. With `--force` it opens the forced scope, unless one is open. */
export async function startRun(db: Database, run: RunToStart & { workerIds: readonly number[] }): Promise<Run> {
  const { period, seenSince } = await findPeriod(db, run)
  const otherTimeZone = await findOtherTimeZone(db, run.timeZone)
  const { rows } = await sql<Pick<Run, 'id' | 'forcedBy'>>`
      ${repeatable('a second try finds the run of the first')}
      with durable as materialized (${durably}),
      known as (select id from runs where worker_id = any (${run.workerIds}) and outcome = 'running' limit 1),
      new as (
        insert into runs (command, period, time_zone, worker_id, resumable)
        select ${run.command}, ${period}, ${run.timeZone}, ${run.workerIds.at(-1) ?? 0}, ${run.resumable} from durable
        where not exists (select from known)
        returning id
      ),
      opened as (
        insert into forced_scopes as s (period, run_id)
        select ${period}, id from new where ${run.command === 'force' && run.resumable}
        on conflict (period) do update set run_id = case when s.is_over then excluded.run_id else s.run_id end, is_over = false
        returning run_id
      )
      select id, coalesce((select run_id from opened), ${openForcedBy(period, sql`${run.resumable} and exists (select from known)`)}, id) as "forcedBy"
      from (select id from new union all select id from known) begun
    `.execute(db)
  return { ...(rows[0] as Pick<Run, 'id' | 'forcedBy'>), period, seenSince, otherTimeZone }
}

/** A run whose row counts the statements that write for it, on the server that its process knows. */
export interface CountingRun {
  runId: number
  server: string
}

/**
 * SQL: counts a statement of the run, as its last action, and returns the new count; no row on another server. `isDone`: whether the
 * statement writes anything.
 */
export const countStatement = ({ runId, server }: CountingRun, isDone = sql<boolean>`true`) => sql`
  update runs set statements = statements + 1 where id = ${runId} and this_server() = ${server} and ${isDone} returning statements`

/** How many statements of the run the database knows; undefined: it does not even know the run. */
export async function findStatements(db: Database, runId: number): Promise<number | undefined> {
  const row = await db.selectFrom('runs').select('statements').where('id', '=', runId).executeTakeFirst()
  return row?.statements
}

/** Records that the database lost confirmed records of a run, even if its row is gone, so that it can be resumed. */
export async function recordLoss(
  db: Database,
  { id, period }: Run,
  { command, resumable, timeZone }: RunToStart,
  { workerId, ageMs }: { workerId: number; ageMs: number },
): Promise<void> {
  await sql`
      ${repeatable('it has its id')}
      with durable as materialized (${durably}),
      opened as (
        insert into forced_scopes (period, run_id) select ${period}, ${id} where ${command === 'force' && resumable}
        on conflict do nothing
      )
      insert into runs (id, command, period, time_zone, worker_id, resumable, started_at, ended_at, outcome)
      select ${id}, ${command}, ${period}, ${timeZone}, ${workerId}, ${resumable},
        now() - ${ageMs} * interval '1 millisecond', now(), 'lost' from durable
      on conflict (id) do update set outcome = excluded.outcome, ended_at = excluded.ended_at
    `.execute(db)
}

/** One name for all names of a time zone. */
const toCanonical = (timeZone: string) => new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone

/**
 * The time zone of the last run, if it is not `timeZone`. The last weekly run counts before others, since any machine may resume every
 * hour; held runs do not count, nor those with a limit, which accept a zone for themselves alone.
 */
export async function findOtherTimeZone(db: Database, timeZone: string): Promise<string | undefined> {
  const { rows } = await sql<{ last: string }>`
      select time_zone as last from runs where held is null and ${hasBegun(sql`runs`)}
        and (resumable or command not in ('all', 'force'))
      order by listings is not null desc, started_at desc limit 1
    `.execute(db)
  const last = rows[0]?.last
  if (last === undefined || last === timeZone) return undefined
  return toCanonical(last) === toCanonical(timeZone) ? undefined : last
}

/** The volume of a week's imports. */
export interface ImportVolume {
  /** Distinct listings, however often imported. */
  listings: number
  /** The filled fields of their last records; null if an older version imported some without counting. */
  filledFields: number | null
}

/** The volume of the listings that a source has. */
export interface SourceVolume extends ImportVolume {
  sourceId: number
  name: string
}

/** The record of the guard's verdict on a run. */
export interface VerdictToRecord {
  importVolume: ImportVolume
  sources: readonly SourceVolume[]
  held: { by: 'week' | 'zone'; reason: string } | undefined
  accepted: boolean
}

/**
 * Records the figures that later weeks compare with, and the reason if the whole run is held. Returns the statement's number, which this
 * process expects to find again: so it is durable.
 */
export async function recordVerdict(db: Database, run: CountingRun, verdict: VerdictToRecord): Promise<number | null> {
  const { importVolume, sources, held, accepted } = verdict
  const { listings, filledFields } = importVolume
  if (sources.length > 0) await recordSourceVolumes(db, run.runId, sources)
  const { rows } = await sql<{ statements: number }>`
      ${repeatable('the caller learns the count')}
      with durable as materialized (${durably})
      update runs set listings = ${listings}, filled_fields = ${filledFields}, held = ${held?.reason ?? null},
        held_by = ${held?.by ?? null}, accepted = ${accepted}, statements = statements + (this_server() = ${run.server})::integer
      from durable where id = ${run.runId} returning statements
    `.execute(db)
  return rows[0]?.statements ?? null
}

async function recordSourceVolumes(db: Database, runId: number, sources: readonly SourceVolume[]): Promise<void> {
  // a source may have been pruned meanwhile
  await sql`
      ${repeatable('those that are there stay')}
      insert into run_sources (run_id, source_id, listings, filled_fields)
      select ${runId}, s.id, v.listings, v."filledFields"
      from json_to_recordset(${JSON.stringify(sources)}::json) as v ("sourceId" integer, listings bigint, "filledFields" bigint)
        join sources s on s.id = v."sourceId"
      on conflict do nothing
    `.execute(db)
}

/** Whether the guard held the whole of the last run of `period` before `runId` that asked it. */
export async function wasHeldBefore(db: Database, period: string, runId: number): Promise<boolean> {
  const { rows } = await sql<{ isHeld: boolean }>`
    select held is not null as "isHeld" from runs where period = ${period} and id <> ${runId} and listings is not null
      and started_at <= (select started_at from runs where id = ${runId}) order by started_at desc limit 1
  `.execute(db)
  return rows[0]?.isHeld ?? false
}

/** How a run ended, for its row. */
export interface EndToRecord {
  outcome: RunOutcome
  cameToEnd: boolean
  /** How many users the guard held back. */
  heldUsers: number
  /** Why its answers held it, if they did, and the deliveries that they leave doubtful. */
  heldByAnswers: string | undefined
  doubtfulKeys: readonly string[]
  /** A whole push of all users was begun with `--accept`: no delivery of its period is doubtful any more. */
  acceptsAnswers: boolean
  /** The run that opened the forced scope which is over with this run. */
  endsForcedBy: number | undefined
}

/**
 * Records the end of a run. Returns false, and records nothing, if the run is gone or another server answers than the worker knows: then
 * its records may be gone.
 */
export async function endRun(db: Database, runId: number, server: string, end: EndToRecord): Promise<boolean> {
  const { outcome, cameToEnd, heldUsers, heldByAnswers, doubtfulKeys, acceptsAnswers, endsForcedBy } = end
  const { numAffectedRows } = await sql`
      ${repeatable('it sets the same')}
      with doubted as (
        update deliveries set doubtful = true where idempotency_key = any (${doubtfulKeys}) and this_server() = ${server}
      ),
      accepted as (
        update deliveries set doubtful = false where doubtful and ${acceptsAnswers} and this_server() = ${server}
          and period = (select period from runs where id = ${runId})
      ),
      forced as (
        update forced_scopes set is_over = true where run_id = ${endsForcedBy ?? null} and this_server() = ${server}
      )
      update runs set ended_at = coalesce(case outcome when ${outcome} then ended_at end, now()), outcome = ${outcome},
        came_to_end = ${cameToEnd}, held_users = ${heldUsers}, held_by_answers = ${heldByAnswers ?? null}
      where id = ${runId} and this_server() = ${server}
    `.execute(db)
  return numAffectedRows === 1n
}

export interface OpenRun {
  id: number
  /** Of a `--force`: the run that opened the last forced scope of the period; else null. */
  forcedBy: number | null
  /** The run was begun with `--accept` and has not served all its users. */
  accepted: boolean
  /** The run served all its users except those whom the guard held back. */
  cameToEnd: boolean
}

/** Runs for all users of `period` that left some, the oldest first: interrupted ones, or with users whom the guard held back. */
export async function findInterruptedRuns(db: Database, period: string): Promise<OpenRun[]> {
  const { rows } = await sql<OpenRun>`
      select id, accepted and not came_to_end as accepted, came_to_end as "cameToEnd",
        case command when 'force' then (select s.run_id from forced_scopes s where s.period = runs.period) end as "forcedBy"
      from runs
      where period = ${period} and (not came_to_end or held_users > 0) and resumable and command in ('all', 'force')
        and (outcome <> 'running' or not ${isLive(sql`runs.worker_id`)}) and ${hasBegun(sql`runs`)}
      order by started_at, id
    `.execute(db)
  return rows
}

/**
 * Records that another run has finished the work of such runs, except for `heldUsers`. A run whose process died is marked as
 * interrupted.
 */
export async function closeInterruptedRuns(db: Database, runIds: readonly number[], heldUsers: number): Promise<void> {
  if (runIds.length === 0) return
  await sql`
      ${repeatable('it sets the same')}
      update runs set came_to_end = true, held_users = ${heldUsers}, ended_at = coalesce(ended_at, now()),
        outcome = case outcome when 'running' then 'interrupted' else outcome end
      where id = any (${runIds})
    `.execute(db)
}

/** Live workers other than ours with a run, a range of users or a delivery. */
export async function findOthersAtWork(db: Database, workerIds: readonly number[]): Promise<OtherWorker[]> {
  const isAtWork = sql<boolean>`exists (select from deliveries d where d.status = 'pending' and d.worker_id = w.id)
    or exists (select from user_ranges s where s.worker_id = w.id)
    or exists (select from runs r where r.worker_id = w.id and r.outcome = 'running')`
  return await findOtherWorkers(db, workerIds, isAtWork)
}
