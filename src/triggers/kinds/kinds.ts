/** All kinds of triggers. They differ only in their records. */
import { type RawBuilder, sql } from 'kysely'
import type { TriggerKind } from '../../index.ts'
import type { Fate, Kind } from './kind.ts'
import { leadGone } from './lead-gone.ts'
import { newLead } from './new-lead.ts'
import { priceChange } from './price-change.ts'

export const kinds = {
  new_lead: newLead,
  price_change: priceChange,
  lead_gone: leadGone,
} as const satisfies Record<TriggerKind, Kind>

const ownFates = Object.entries<Kind>(kinds).filter(([, { fate }]) => fate)

/** SQL: the fate of trigger `t` now; `listed` says whether the listing of the row `s` of `lead_seen` is live. */
export const fateOf = (listed: RawBuilder<boolean>) => sql<Fate>`coalesce((
  select case t.kind ${sql.join(
    ownFates.map(([kind, { fate }]) => sql`when ${sql.lit(kind)} then ${fate}`),
    sql` `,
  )} else case when ${listed} then 'send' else 'wait' end end
  from lead_seen s join leads l on l.id = s.lead_id where s.lead_id = t.lead_id
), 'end')`
