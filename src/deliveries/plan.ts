/**
 * From a user's queries and their matches to the deliveries of one push (contract 4.3, 4.4). Pure: a preview plans with the same
 * function, so it shows what a push would send.
 */

import { bodyBytesMax } from '../base/limits.ts'
import type { LeadInBody } from '../leads/lead-store.ts'
import { countBodyBytes } from './body.ts'
import type { LeadToPlan, SharedLeads } from './shared-leads.ts'

export interface QueryToPlan {
  /** The element of `queryList`, serialised. */
  json: string
  /** The leads that it matches, as indexes of the `SharedLeads`: the newest first, cut to 300. */
  indexes: ArrayLike<number>
}

export interface PlannedDelivery {
  part: number
  parts: number
  queries: number
  leads: number
  /** The length of the whole body. */
  bytes: number
  queryList: string
  /** The newest first. */
  contents: readonly LeadInBody[]
}

/** The leads of all parts. */
export const sumLeads = (deliveries: readonly Pick<PlannedDelivery, 'leads'>[]): number =>
  deliveries.reduce((sum, { leads }) => sum + leads, 0)

export interface Plan {
  deliveries: PlannedDelivery[]
  /** Leads that exceed a part of their own. */
  tooLarge: LeadToPlan[]
  /** Leads of a query that are left out because another query brings another listing of their house. */
  leftOut: LeadToPlan[]
}

interface Piece {
  query: number
  leads: LeadToPlan[]
  bytes: number
}

/** The leads of two lists in one, the newest first as in both. */
function mergeTwo(a: readonly LeadToPlan[], b: readonly LeadToPlan[]): LeadToPlan[] {
  const merged = new Array<LeadToPlan>(a.length + b.length)
  let [at, fromA, fromB] = [0, 0, 0]
  while (fromA < a.length && fromB < b.length) {
    const [x, y] = [a[fromA] as LeadToPlan, b[fromB] as LeadToPlan]
    const isFromA = x.versionId > y.versionId
    merged[at++] = isFromA ? x : y
    if (isFromA) fromA++
    else fromB++
  }
  while (fromA < a.length) merged[at++] = a[fromA++] as LeadToPlan
  while (fromB < b.length) merged[at++] = b[fromB++] as LeadToPlan
  return merged
}

/** The leads of any number of such lists, merged two by two: sorting would take longer than everything else here. */
function merge(lists: readonly LeadToPlan[][]): LeadToPlan[] {
  if (lists.length <= 1) return lists[0] ?? []
  const middle = lists.length >> 1
  return mergeTwo(merge(lists.slice(0, middle)), merge(lists.slice(middle)))
}

class Part {
  readonly queries = new Set<number>()
  leads = 0
  /** The leads of each piece. */
  private readonly lists: LeadToPlan[][] = []
  private queryBytes = 0
  private leadBytes = 0
  private readonly queryBytesOf: (query: number) => number

  constructor(queryBytesOf: (query: number) => number) {
    this.queryBytesOf = queryBytesOf
  }

  bytesWith(query: number, leads: number, leadBytes: number): number {
    const fresh = this.queries.has(query) ? 0 : 1
    const queryBytes = this.queryBytes + fresh * this.queryBytesOf(query)
    return countBodyBytes(this.queries.size + fresh, queryBytes, this.leads + leads, this.leadBytes + leadBytes)
  }

  add({ query, leads, bytes }: Piece): void {
    if (!this.queries.has(query)) this.queryBytes += this.queryBytesOf(query)
    this.queries.add(query)
    this.lists.push(leads)
    this.leads += leads.length
    this.leadBytes += bytes
  }

  get bytes(): number {
    return countBodyBytes(this.queries.size, this.queryBytes, this.leads, this.leadBytes)
  }

  get contents(): LeadToPlan[] {
    return merge(this.lists)
  }
}

/** Each query's leads, without those of the user's earlier queries and of houses with an earlier lead; deleted versions are left out. */
function dropRepeats(queries: readonly QueryToPlan[], shared: SharedLeads): Piece[] {
  shared.nextUser(queries.map(({ indexes }) => indexes))
  return queries.map(({ indexes }, query) => {
    const leads = new Array<LeadToPlan>(indexes.length)
    let [count, bytes] = [0, 0]
    for (let at = 0; at < indexes.length; at++) {
      const lead = shared.take(indexes[at] as number)
      if (lead === undefined) continue
      leads[count++] = lead
      bytes += lead.bytes
    }
    leads.length = count
    return { query, leads, bytes }
  })
}

/** The piece with the leads that fit into a part; the others go to `tooLarge`. */
function dropTooLarge(piece: Piece, newPart: () => Part, bytesMax: number, tooLarge: LeadToPlan[]): Piece {
  const part = newPart()
  const fits = (lead: LeadToPlan) => part.bytesWith(piece.query, 1, lead.bytes) <= bytesMax
  if (piece.leads.every(fits)) return piece
  tooLarge.push(...piece.leads.filter((lead) => !fits(lead)))
  const leads = piece.leads.filter(fits)
  return { ...piece, leads, bytes: leads.reduce((sum, lead) => sum + lead.bytes, 0) }
}

/**
 * Packs whole pieces, each into the first part with room. A piece that exceeds a part is split: it fills parts of its own, and its rest
 * is packed like a whole piece.
 */
function pack(all: readonly Piece[], newPart: () => Part, bytesMax: number, tooLarge: LeadToPlan[]): Part[] {
  const pieces = all.map((piece) => dropTooLarge(piece, newPart, bytesMax, tooLarge))
  const parts: Part[] = []
  const addToRoomy = (piece: Piece): boolean => {
    const roomy = parts.find((part) => part.bytesWith(piece.query, piece.leads.length, piece.bytes) <= bytesMax)
    if (roomy) roomy.add(piece)
    return roomy !== undefined
  }
  const open = (piece: Piece) => {
    const part = newPart()
    part.add(piece)
    parts.push(part)
  }

  const carriesNone = pieces.filter(({ leads }) => leads.length === 0)
  if (carriesNone.length > 0) {
    const first = newPart()
    for (const piece of carriesNone) first.add(piece)
    parts.push(first)
  }
  for (const piece of pieces) {
    if (piece.leads.length === 0 || addToRoomy(piece)) continue
    const alone = newPart()
    let rest: Piece = { query: piece.query, leads: [], bytes: 0 }
    for (const lead of piece.leads) {
      if (alone.bytesWith(piece.query, rest.leads.length + 1, rest.bytes + lead.bytes) > bytesMax) {
        open(rest)
        rest = { query: piece.query, leads: [], bytes: 0 }
      }
      rest.leads.push(lead)
      rest.bytes += lead.bytes
    }
    if (!addToRoomy(rest)) open(rest)
  }
  return parts
}

/**
 * The deliveries of one push, for `queries` in the user's order. Leads are ordered by version, the newest first, so the same leads
 * always come in the same order.
 */
export function planDeliveries(queries: readonly QueryToPlan[], shared: SharedLeads, bytesMax = bodyBytesMax): Plan {
  const queryBytes = queries.map(({ json }) => Buffer.byteLength(json))
  const newPart = () => new Part((query) => queryBytes[query] ?? 0)
  const pieces = dropRepeats(queries, shared)
  const tooLarge: LeadToPlan[] = []

  const whole = newPart()
  for (const piece of pieces) whole.add(piece)
  const parts = whole.bytes <= bytesMax ? [whole] : pack(pieces, newPart, bytesMax, tooLarge)

  const deliveries = parts.map((part, index): PlannedDelivery => {
    const positions = [...part.queries].sort((a, b) => a - b)
    return {
      part: index + 1,
      parts: parts.length,
      queries: positions.length,
      leads: part.leads,
      bytes: part.bytes,
      queryList: positions.map((position) => queries[position]?.json).join(','),
      contents: part.contents,
    }
  })
  return { deliveries, tooLarge, leftOut: shared.leftOut }
}
