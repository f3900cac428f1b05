/**
 * `new_lead`: an import brought a listing for the first time. After a `lead_gone` that was due, it is due once more when the listing is
 * back, and for the next listing of its house if one of a house counts (contract 6.1).
 */
import { sql } from 'kysely'
import { flatSchema, flatten, type Kind, type LookRange } from './kind.ts'

/** SQL: the first live listing of a house whose listings before it are gone. Hooks that are told of it as new anyway are left out. */
const nextOfHouse = ({ base, since, upTo, listed, lead }: Omit<LookRange, 'sameHouse'>) => sql`
    select ${lead}, e.version_id, l.first_import_id, e.import_id, i.started_at, null::jsonb, i.started_at
    from lead_events e join leads went on went.id = e.lead_id join lead_seen w on w.lead_id = went.id and w.gone
      join leads l on l.house = went.house and l.id > went.id join lead_seen s on s.lead_id = l.id join imports i on i.id = e.import_id
    where e.kind = 'lead_gone' and e.version_id > ${base} and e.import_id > ${since} and e.import_id <= ${upTo} and ${listed}
      and not exists (
        select from leads o join lead_events f on f.lead_id = o.id join lead_seen g on g.lead_id = o.id and g.gone
        where o.house = went.house and f.kind = 'lead_gone' and f.version_id > e.version_id and f.import_id <= ${upTo} and o.id < l.id
      )`

export const newLead: Kind<'NewLead'> = {
  name: 'NewLead',
  schema: flatSchema('new_lead', {
    id: 'Stable for the lead, even if it changes.',
    occurredAt: 'When the lead was first imported.',
  }),
  findFresh: ({ base, since, upTo, listed, lead, sameHouse }) => sql`
    select ${lead}, l.version_id, 0, l.first_import_id, i.started_at, null::jsonb, null::timestamptz
    from leads l join imports i on i.id = l.first_import_id join lead_seen s on s.lead_id = l.id
    where l.version_id > ${base} and l.first_import_id > ${since} and l.first_import_id <= ${upTo} and ${listed}
    union all
    -- hooks that were looked at while it was gone
    select ${lead}, e.version_id, (e.payload ->> 'goneImport')::bigint, e.import_id, i.started_at, null::jsonb,
      to_timestamp((e.payload ->> 'goneAtMs')::float8 / 1000)
    from lead_events e join leads l on l.id = e.lead_id join lead_seen s on s.lead_id = l.id join imports i on i.id = e.import_id
    where e.kind = 'lead_back' and e.version_id > ${base} and e.import_id > ${since} and e.import_id <= ${upTo} and ${listed}
    ${sameHouse === 'once' ? sql`union all ${nextOfHouse({ base, since, upTo, listed, lead })}` : sql``}`,
  build: (lead, event) => flatten('new_lead', lead, event, [lead.href]),
  words: {
    what: 'A new lead to a hook',
    each: 'new lead',
  },
}
