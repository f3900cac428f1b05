/**
 * The flat object that automation platforms get for a lead, as a trigger or a sample (contract 6.3). It always has the same
 * fields.
 */
import { hash } from 'node:crypto'
import * as z from 'zod'
import type { NewLead } from '../index.ts'
import { deliveredLeadShape, type Lead, leadFields, textSchema } from '../leads/lead.ts'

/** A lead as triggers and samples show it. */
export type FlatLead = NewLead

/** The schema of a flat lead, for the answer of `sample` and the OpenAPI document. */
export const flatLeadSchema = z.object({
  id: z.string().meta({ description: 'Stable for the lead, whatever becomes of it.' }),
  trigger: z.literal('new_lead'),
  occurredAt: z.iso.datetime().meta({ description: 'When the lead was first imported.' }),
  ...deliveredLeadShape,
  fullAddress: textSchema.nullable(),
}) as unknown as z.ZodType<FlatLead>

/** `occurredAt`: when the lead was first imported. The `id` follows from the `href` alone. */
export function buildFlatLead(lead: Lead, occurredAt: Date): FlatLead {
  const fields = leadFields.map(({ name }) => [name, lead[name] ?? null])
  const id = hash('sha256', lead.href).slice(0, 32)
  return { id, trigger: 'new_lead', occurredAt: occurredAt.toISOString(), ...Object.fromEntries(fields) }
}
