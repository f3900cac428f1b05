/** Finds the figures that the guard compares: the imports of a week, and of the weeks before. Writes nothing. */
import { sql } from 'kysely'
import { groupBy } from '../../base/group-by.ts'
import { comparedDays, comparedWeeksMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { hasBegun, type ImportVolume, type SourceVolume } from '../../deliveries/runs.ts'
import type { Week } from '../whom/guard.ts'

interface WeekRow extends ImportVolume {
  id: number
  period: string
  startedAt: Date
  isComparable: boolean
}

/**
 * For each earlier period: the first run that was not held, with its import figures, and the first run that was held or has no
 * figures. For this period: the last accepted run. Runs with a limit come after runs without one.
 */
async function findWeeks(db: Database, period: string): Promise<WeekRow[]> {
  const { rows } = await sql<WeekRow>`
    with weekly as (
      select id, period, started_at as "startedAt", listings, filled_fields as "filledFields", accepted,
        listings is not null and held is null as "isComparable", command <> 'resume' and not resumable as is_limited
      from runs
      where started_at >= now() - ${comparedDays} * interval '1 day' and ${hasBegun(sql`runs`)} and command in ('all', 'force', 'resume')
        and (command <> 'resume' or listings is not null)
    ),
    earlier as (
      select distinct on (period, "isComparable") id, period, "startedAt", listings, "filledFields", "isComparable"
      from weekly where period < ${period} order by period, "isComparable", is_limited, "startedAt", id
    ),
    accepted as (
      select id, period, "startedAt", listings, "filledFields", "isComparable"
      from weekly where period = ${period} and accepted and "isComparable" order by "startedAt" desc, id limit 1
    )
    select * from (select * from earlier union all select * from accepted) found order by period desc
  `.execute(db)
  return rows
}

/** SQL over `lead_seen s`. */
const isOfWeek = (since: Date | undefined) =>
  sql<boolean>`s.seen_at >= coalesce(${since ?? null}::timestamptz, now() - interval '7 days')`

/** Each listing counts once, in the week of the last import that had it, with the fields that it had then. */
async function findImportVolume(db: Database, since: Date | undefined): Promise<ImportVolume> {
  const { rows } = await sql<ImportVolume>`
    select count(*) as listings, case when count(filled) = count(*) then coalesce(sum(filled), 0)::bigint end as "filledFields"
    from lead_seen s where not gone and ${isOfWeek(since)}
  `.execute(db)
  return rows[0] ?? { listings: 0, filledFields: 0 }
}

/** The same by source. A source whose listings are all gone was ended by its operator, and is ignored. */
async function findSourceVolumes(db: Database, since: Date | undefined): Promise<SourceVolume[]> {
  const { rows } = await sql<SourceVolume>`
    select v.*, o.name from (
      select m.source_id as "sourceId", count(*) filter (where ${isOfWeek(since)}) as listings,
        case when bool_and(s.filled is not null) filter (where ${isOfWeek(since)}) is not false
          then coalesce(sum(s.filled) filter (where ${isOfWeek(since)}), 0)::bigint end as "filledFields"
      from lead_sources m join lead_seen s on s.lead_id = m.lead_id where m.gone_at is null group by m.source_id
    ) v join sources o on o.id = v."sourceId" order by o.name
  `.execute(db)
  return rows
}

/** The volumes of sources in the given runs, by source. */
async function findEarlierVolumes(db: Database, runIds: readonly number[]) {
  const { rows } = await sql<ImportVolume & { sourceId: number }>`
    select source_id as "sourceId", listings, filled_fields as "filledFields" from run_sources
    where run_id = any (${runIds}::bigint[]) order by run_id desc
  `.execute(db)
  return groupBy(rows, ({ sourceId }) => sourceId)
}

/** The week of `period` so far: the imports since the first weekly run of the last period that had one. */
export async function findWeek(db: Database, period: string): Promise<Week> {
  const weeks = await findWeeks(db, period)
  const accepted = weeks.find((week) => week.period === period)
  const earlier = weeks.filter((week) => week.period !== period)
  const beganAt = earlier
    .filter((week) => week.period === earlier[0]?.period)
    .map(({ startedAt }) => startedAt.getTime())
  const since = beganAt.length > 0 ? new Date(Math.min(...beganAt)) : undefined
  const before = accepted ? [accepted] : earlier.filter(({ isComparable }) => isComparable).slice(0, comparedWeeksMax)
  const volumes = await findSourceVolumes(db, since)
  const runIds = before.map(({ id }) => id)
  const ofSources = volumes.length > 0 ? await findEarlierVolumes(db, runIds) : undefined
  return {
    importVolume: await findImportVolume(db, since),
    before,
    isAccepted: accepted !== undefined,
    sources: volumes.map((volume) => ({ volume, before: ofSources?.get(volume.sourceId) ?? [] })),
    earlier: [...new Set(earlier.map((week) => week.period))],
  }
}
