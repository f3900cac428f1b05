/**
 * The flat object that automation platforms get for a lead, as a trigger or a sample (contract 6.3). It always has the same
 * fields.
 */
import { hash } from 'node:crypto'
import * as z from 'zod'
import type { NewLead, PriceChange } from '../index.ts'
import { deliveredLeadShape, type Lead, leadFields, textSchema } from '../leads/lead.ts'

/** A lead as `new_lead` and samples show it. */
export type FlatLead = NewLead
/** A change of a lead's price, as `price_change` and samples show it. */
export type FlatPriceChange = PriceChange

/** The schema of a flat lead, for the answer of `sample` and the OpenAPI document. */
export const flatLeadSchema = z.object({
  id: z.string().meta({ description: 'Stable for the lead, whatever becomes of it.' }),
  trigger: z.literal('new_lead'),
  occurredAt: z.iso.datetime().meta({ description: 'When the lead was first imported.' }),
  ...deliveredLeadShape,
  fullAddress: textSchema.nullable(),
}) as unknown as z.ZodType<FlatLead>

/** The schema of a change of a price. */
export const flatPriceChangeSchema = z.object({
  id: z.string().meta({ description: "Stable for the change; never the lead's own." }),
  trigger: z.literal('price_change'),
  occurredAt: z.iso.datetime().meta({ description: 'When the import began that brought the price.' }),
  previousPrice: z.number().meta({ description: 'The price at the look before.' }),
  ...deliveredLeadShape,
  fullAddress: textSchema.nullable(),
}) as unknown as z.ZodType<FlatPriceChange>

const fieldsOf = (lead: Lead) => Object.fromEntries(leadFields.map(({ name }) => [name, lead[name] ?? null]))
const hashOf = (...parts: readonly (string | number)[]) => hash('sha256', parts.join('\n')).slice(0, 32)

/** `occurredAt`: when the lead was first imported. The `id` follows from the `href` alone. */
export function buildFlatLead(lead: Lead, occurredAt: Date): FlatLead {
  const at = occurredAt.toISOString()
  return { id: hashOf(lead.href), trigger: 'new_lead', occurredAt: at, ...fieldsOf(lead) } as FlatLead
}

/** `lead` has the new price, `occurredAt` is when the import began that brought it. The `id` follows from these and the `href`. */
export function buildPriceChange(lead: Lead, occurredAt: Date, previousPrice: number): FlatPriceChange {
  const at = occurredAt.toISOString()
  const id = hashOf(lead.href, 'price_change', at, previousPrice, lead.price)
  return { id, trigger: 'price_change', occurredAt: at, previousPrice, ...fieldsOf(lead) } as FlatPriceChange
}
