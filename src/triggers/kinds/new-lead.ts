/** `new_lead`: an import brought a listing for the first time. */
import { sql } from 'kysely'
import { flatSchema, flatten, type Kind } from './kind.ts'

export const newLead: Kind<'NewLead'> = {
  name: 'NewLead',
  schema: flatSchema('new_lead', {
    id: 'Stable for the lead, even if it changes.',
    occurredAt: 'When the lead was first imported.',
  }),
  findFresh: ({ base, since, upTo, listed, lead }) => sql`
    select ${lead}, l.version_id, 0, l.first_import_id, i.started_at, null::jsonb
    from leads l join imports i on i.id = l.first_import_id join lead_seen s on s.lead_id = l.id
    where l.version_id > ${base} and l.first_import_id > ${since} and l.first_import_id <= ${upTo} and ${listed}`,
  build: (lead, event) => flatten('new_lead', lead, event, [lead.href]),
  words: {
    what: 'A new lead to a hook',
    each: 'new lead',
  },
}
