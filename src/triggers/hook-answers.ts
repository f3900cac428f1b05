/** The words with which a hook last refused a trigger (contract 4.16): one row a hook. */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import type { TriggerToRecord } from './record-triggers.ts'

/** After the outcomes themselves. The last answer of a hook counts, unless the hook was removed, or its lead erased, meanwhile. */
export async function recordHookAnswers(db: Database, outcomes: readonly TriggerToRecord[]): Promise<void> {
  const lastOf = new Map(
    outcomes.filter(({ answer, gone }) => answer !== undefined && !gone).map((outcome) => [outcome.hookId, outcome]),
  )
  if (lastOf.size === 0) return
  const last = [...lastOf.values()]
  await sql`
    with said as materialized (
      select * from unnest(${last.map(({ hookId }) => hookId)}::uuid[], ${last.map(({ leadId }) => leadId)}::bigint[],
        ${last.map(({ answer }) => answer)}::text[]) as s (hook_id, lead_id, answer)
    )
    -- a hook that another transaction removes while this statement waits for it is no row of this join
    insert into hook_answers (hook_id, lead_id, answer)
    select s.hook_id, s.lead_id, s.answer from said s
      join (select id from hooks where id = any (${last.map(({ hookId }) => hookId)}::uuid[]) order by id for key share) h on h.id = s.hook_id
      join (select id from leads where id = any (${last.map(({ leadId }) => leadId)}) order by id for key share) l on l.id = s.lead_id
    order by s.hook_id
    on conflict (hook_id) do update set lead_id = excluded.lead_id, answer = excluded.answer, said_at = excluded.said_at
  `.execute(db)
}
