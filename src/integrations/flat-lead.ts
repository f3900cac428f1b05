/** What automation platforms get of a lead (contract 6.3): one flat object, always of one shape, for triggers and samples. */
import { hash } from 'node:crypto'
import type { Lead } from '../leads/lead.ts'
import { leadFields } from '../leads/lead.ts'

export type FlatLead = {
  /** Stable for the lead, whatever becomes of it. */
  id: string
  trigger: 'new_lead'
  /** When it was first imported: ISO 8601, UTC. */
  occurredAt: string
} & Omit<Lead, 'fullAddress'> & { fullAddress: string | null }

export function buildFlatLead(lead: Lead, occurredAt: Date): FlatLead {
  const fields = leadFields.map(({ name }) => [name, lead[name] ?? null])
  const id = hash('sha256', lead.href).slice(0, 32)
  return { id, trigger: 'new_lead', occurredAt: occurredAt.toISOString(), ...Object.fromEntries(fields) }
}
