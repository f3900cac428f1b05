/** What automation platforms get of a lead (contract 6.3): one flat object, always of one shape, for triggers and samples. */
import { hash } from 'node:crypto'
import * as z from 'zod'
import type { NewLead } from '../index.ts'
import { deliveredLeadShape, type Lead, leadFields, textSchema } from '../leads/lead.ts'

export type FlatLead = NewLead

export const flatLeadSchema = z.object({
  id: z.string().meta({ description: 'Stable for the lead, whatever becomes of it.' }),
  trigger: z.literal('new_lead'),
  occurredAt: z.iso.datetime().meta({ description: 'When the lead was first imported.' }),
  ...deliveredLeadShape,
  fullAddress: textSchema.nullable(),
}) as unknown as z.ZodType<FlatLead>

export function buildFlatLead(lead: Lead, occurredAt: Date): FlatLead {
  const fields = leadFields.map(({ name }) => [name, lead[name] ?? null])
  const id = hash('sha256', lead.href).slice(0, 32)
  return { id, trigger: 'new_lead', occurredAt: occurredAt.toISOString(), ...Object.fromEntries(fields) }
}
