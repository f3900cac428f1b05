/**
 * The strict schema of a delivery body, by contract 4: what `validate FILE.json` and the reference receiver hold a body
 * against. The size in bytes is checked where the bytes are.
 */
import { z } from 'zod'
import { deliveredLeadSchema, type Lead } from '../leads/lead.ts'
import { leadsPerQueryMax, queriesPerUserMax } from '../limits.ts'
import { deliveredQuerySchema, findSameHash, type Query } from '../users/query.ts'

export interface DeliveryBody {
  queryList: Query[]
  fsbos: Lead[]
}

function findRepeatedHref(leads: readonly Lead[]): number {
  const seen = new Set<string>()
  return leads.findIndex(({ href }) => seen.size === seen.add(href).size)
}

/** Issues have the path of what they are about: `['fsbos', 3, 'price']`. */
export const deliveryBodySchema = z
  .strictObject({
    queryList: z
      .array(deliveredQuerySchema, { error: 'must be a list of queries' })
      .max(queriesPerUserMax, { error: `must hold at most ${queriesPerUserMax} queries` }),
    fsbos: z.array(deliveredLeadSchema, { error: 'must be a list of leads' }),
  })
  .superRefine(({ queryList, fsbos }, context) => {
    const same = findSameHash(queryList)
    if (same) {
      const message = `has the same hash as query ${same[0]} of the list: value and radius together read alike`
      context.addIssue({ code: 'custom', path: ['queryList', same[1]], message })
    }
    const most = leadsPerQueryMax * queryList.length
    if (fsbos.length > most) {
      const message = `holds ${fsbos.length} leads: at most ${leadsPerQueryMax} a query, ${most} here`
      context.addIssue({ code: 'custom', path: ['fsbos'], message })
    }
    const repeated = findRepeatedHref(fsbos)
    if (repeated >= 0) {
      context.addIssue({ code: 'custom', path: ['fsbos', repeated, 'href'], message: 'stands in the list twice' })
    }
  }) satisfies z.ZodType<DeliveryBody>
