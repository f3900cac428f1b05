/** `price_change`: a listing has another price than at the hook's last look. */
import { sql } from 'kysely'
import * as z from 'zod'
import { flatSchema, flatten, type Kind } from './kind.ts'

const price = (which: string) => sql`(payload ->> ${sql.lit(which)})::double precision`

export const priceChange: Kind<'PriceChange'> = {
  name: 'PriceChange',
  schema: flatSchema(
    'price_change',
    {
      id: "Stable for the change; never the lead's own.",
      occurredAt: 'When the import began that brought the price.',
    },
    { previousPrice: z.number().meta({ description: 'The price at the look before.' }) },
  ),
  // each of several changes has the price that a hook knew which was looked at between this change and the one before
  findFresh: ({ base, since, upTo, listed, lead }) => sql`
    select ${lead}, c.version_id, greatest(c.from_import_id, l.first_import_id), c.import_id, i.started_at,
      jsonb_build_object('previousPrice', c.previous_price, 'price', c.price), null::timestamptz
    from (
      select lead_id, import_id, ${price('previousPrice')} as previous_price, lag(import_id, 1, 0::bigint) over changes as from_import_id,
        last_value(version_id) over whole as version_id, last_value(${price('price')}) over whole as price,
        last_value(import_id) over whole as last_import_id
      from lead_events where kind = 'price_change' and version_id > ${base} and import_id > ${since} and import_id <= ${upTo}
      window changes as (partition by lead_id order by version_id),
        whole as (changes rows between unbounded preceding and unbounded following)
    ) c join leads l on l.id = c.lead_id join lead_seen s on s.lead_id = l.id join imports i on i.id = c.last_import_id
    where c.price <> c.previous_price and ${listed}`,
  build(lead, event) {
    const { previousPrice = 0, price = lead.price } = event.payload ?? {}
    const id = [lead.href, 'price_change', event.occurredAt.toISOString(), previousPrice, price]
    // the version at hand may be a later one
    return flatten('price_change', { ...lead, price }, event, id, { previousPrice })
  },
  samplePayload: ({ price }) => ({ previousPrice: price + 10_000, price }),
  words: {
    what: 'A new price of a lead to a hook',
    each: 'lead whose price is another than before',
  },
}
