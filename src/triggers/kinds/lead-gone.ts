/** `lead_gone`: a listing disappeared from its complete feed (contract 4.18). It is reported at any age. */
import { sql } from 'kysely'
import { flatSchema, flatten, type Kind } from './kind.ts'

export const leadGone: Kind<'LeadGone'> = {
  name: 'LeadGone',
  schema: flatSchema('lead_gone', {
    id: "Stable for this time that the lead went; never the lead's own.",
    occurredAt: 'When the import began that lacked the lead.',
  }),
  // a listing that went, came back and went again before the look counts once
  findFresh: ({ base, since, upTo, lead }) => sql`
    select ${lead}, e.version_id, 0, e.import_id, i.started_at, null::jsonb, null::timestamptz
    from (
      select distinct on (lead_id) * from lead_events
      where kind = 'lead_gone' and version_id > ${base} and import_id > ${since} and import_id <= ${upTo}
      order by lead_id, version_id desc
    ) e join leads l on l.id = e.lead_id join lead_seen s on s.lead_id = l.id join imports i on i.id = e.import_id
    where s.gone`,
  // a listing that went again was back in between
  fate: sql`case when s.gone and not exists (
      select from lead_events e where e.lead_id = t.lead_id and e.kind = 'lead_gone' and e.version_id > t.version_id
    ) then 'send' else 'end' end`,
  build: (lead, event) => flatten('lead_gone', lead, event, [lead.href, 'lead_gone', event.occurredAt.toISOString()]),
  words: {
    what: 'A lead that went from its feed to a hook',
    each: 'time that a lead goes from its feed',
  },
}
