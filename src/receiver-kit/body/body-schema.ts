/** The strict schema of a delivery body, by contract 4. The size in bytes is checked where the bytes are. */
import * as z from 'zod'
import { leadsPerQueryMax, queriesPerUserMax } from '../../base/limits.ts'
import type { DeliveryBody } from '../../index.ts'
import { type DeliveredLead, deliveredLeadSchema } from '../../leads/lead.ts'
import { deliveredQuerySchema, type Query, queryHash } from '../../users/query.ts'

export interface BodyConflict {
  path: (string | number)[]
  message: string
}

function findSameHashes(queries: readonly Partial<Query>[]): BodyConflict[] {
  const seen = new Map<string, number>()
  return queries.flatMap((query, at) => {
    if (typeof query?.value !== 'string' || typeof query.radius !== 'number') return []
    const hash = queryHash({ value: query.value, radius: query.radius })
    const earlier = seen.get(hash)
    if (earlier === undefined) {
      seen.set(hash, at)
      return []
    }
    const message = `has the same hash as query ${earlier} of the list: value and radius together read alike`
    return [{ path: ['queryList', at], message }]
  })
}

function findRepeatedHrefs(leads: readonly Partial<DeliveredLead>[]): BodyConflict[] {
  const seen = new Set<string>()
  return leads.flatMap((lead, at) => {
    if (typeof lead?.href !== 'string' || seen.size !== seen.add(lead.href).size) return []
    return [{ path: ['fsbos', at, 'href'], message: 'stands in the list twice' }]
  })
}

/** Conflicts between entries of a body, such as a repeated `href`; malformed entries are skipped. */
export function findBodyConflicts(body: {
  queryList: readonly Partial<Query>[]
  fsbos: readonly Partial<DeliveredLead>[]
}): BodyConflict[] {
  const { queryList, fsbos } = body
  const most = leadsPerQueryMax * queryList.length
  const tooMany = `holds ${fsbos.length} leads: at most ${leadsPerQueryMax} a query, ${most} here`
  return [
    ...findSameHashes(queryList),
    ...(fsbos.length > most ? [{ path: ['fsbos'], message: tooMany }] : []),
    ...findRepeatedHrefs(fsbos),
  ]
}

/** The outline of a body, with these schemas for the entries of its lists. */
export const buildBodySchema = <Q extends z.ZodType, L extends z.ZodType>(query: Q, lead: L) =>
  z.strictObject({
    queryList: z
      .array(query, { error: 'must be a list of queries' })
      .max(queriesPerUserMax, { error: `must hold at most ${queriesPerUserMax} queries` }),
    fsbos: z.array(lead, { error: 'must be a list of leads' }),
  })

/** An issue has the path of its value: `['fsbos', 3, 'price']`. */
export const deliveryBodySchema = buildBodySchema(deliveredQuerySchema, deliveredLeadSchema).superRefine(
  (body, context) => {
    for (const conflict of findBodyConflicts(body)) context.addIssue({ code: 'custom', ...conflict })
  },
) satisfies z.ZodType<DeliveryBody>
