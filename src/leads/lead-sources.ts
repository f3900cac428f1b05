/** The sources that have a listing now, by their names. */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'

/** Maps each listing to its sources, sorted; a listing that no named source has is left out. */
export async function findSourcesOf(db: Database, leadIds: readonly number[]): Promise<Map<number, string[]>> {
  const { rows } = await sql<{ leadId: number; names: string[] }>`
    select m.lead_id as "leadId", array_agg(s.name order by s.name) as names
    from lead_sources m join sources s on s.id = m.source_id
    where m.lead_id = any (${leadIds}) and m.gone_at is null group by m.lead_id
  `.execute(db)
  return new Map(rows.map(({ leadId, names }) => [leadId, names]))
}
