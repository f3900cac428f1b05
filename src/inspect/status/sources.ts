/** The sources of listings: when each was imported, and the state of its listings (contract 4.18). */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { isListed } from '../../matching/listed.ts'

export interface SourceReport {
  source: string
  /** When an import with it last finished. */
  importedAt: Date
  /** When a complete import with it last finished; null: there was none. */
  completedAt: Date | null
  /** Listings that it has and that may be delivered. */
  live: number
  /** Listings that its last complete import lacked; another source may have them. */
  gone: number
  /** Listings that it has, and that no import had for too long. */
  tooOld: number
}

/** All sources by name. One pass over their listings; without sources it costs nothing. */
export async function findSourceReports(db: Database, seenSince: Date): Promise<SourceReport[]> {
  const { rows } = await sql<SourceReport>`
      select o.name as source, o.imported_at as "importedAt", o.completed_at as "completedAt", coalesce(n.live, 0) as live,
        coalesce(n.gone, 0) as gone, coalesce(n.here - n.live, 0) as "tooOld"
      from sources o left join (
        select m.source_id, count(*) filter (where m.gone_at is null) as here, count(*) filter (where m.gone_at is not null) as gone,
          count(*) filter (where m.gone_at is null and ${isListed(sql`s`, seenSince)}) as live
        from lead_sources m join lead_seen s on s.lead_id = m.lead_id group by m.source_id
      ) n on n.source_id = o.id order by o.name
    `.execute(db)
  return rows
}
