/**
 * From a user's queries and what they match to the deliveries of one push (contract 4.3, 4.4). Pure: a preview plans with
 * the same function, so it shows what a push would send.
 */
import { bodyBytesMax } from '../limits.ts'
import { countBodyBytes } from './body.ts'

export interface QueryToPlan {
  /** The element of `queryList`, serialised. */
  json: string
  /** What it matches, the newest first, cut to 300. */
  versionIds: ArrayLike<number>
}

export interface LeadSize {
  leadId: number
  /** Of its JSON, as UTF-8. */
  bytes: number
}

export interface PlannedDelivery {
  part: number
  parts: number
  queries: number
  leads: number
  /** Of the whole body. */
  bytes: number
  queryList: string
  /** Falling. */
  versionIds: number[]
}

export interface Plan {
  deliveries: PlannedDelivery[]
  /** Leads that exceed a part of their own. */
  tooLarge: number[]
}

interface Piece {
  query: number
  versionIds: number[]
  bytes: number
}

/** The numbers of two falling lists in one. */
function mergeTwo(a: readonly number[], b: readonly number[]): number[] {
  const merged: number[] = []
  let [fromA, fromB] = [0, 0]
  while (fromA < a.length && fromB < b.length) {
    const [x, y] = [a[fromA] as number, b[fromB] as number]
    merged.push(x > y ? x : y)
    if (x > y) fromA++
    else fromB++
  }
  for (; fromA < a.length; fromA++) merged.push(a[fromA] as number)
  for (; fromB < b.length; fromB++) merged.push(b[fromB] as number)
  return merged
}

/** Those of any number of falling lists: two by two, since sorting them again would take longer than all else here. */
function mergeFalling(lists: readonly number[][]): number[] {
  if (lists.length <= 1) return lists[0] ?? []
  const middle = lists.length >> 1
  return mergeTwo(mergeFalling(lists.slice(0, middle)), mergeFalling(lists.slice(middle)))
}

class Part {
  readonly queries = new Set<number>()
  leads = 0
  /** Of each piece, falling. */
  private readonly lists: number[][] = []
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

  add({ query, versionIds, bytes }: Piece): void {
    if (!this.queries.has(query)) this.queryBytes += this.queryBytesOf(query)
    this.queries.add(query)
    this.lists.push(versionIds)
    this.leads += versionIds.length
    this.leadBytes += bytes
  }

  get bytes(): number {
    return countBodyBytes(this.queries.size, this.queryBytes, this.leads, this.leadBytes)
  }

  get versionIds(): number[] {
    return mergeFalling(this.lists)
  }
}

/** Each query's leads, without those that an earlier query of the user brought; a version that is gone is left out. */
function dropRepeats(queries: readonly QueryToPlan[], sizeOf: (versionId: number) => LeadSize | undefined): Piece[] {
  const taken = new Set<number>()
  return queries.map((query, index) => {
    const piece: Piece = { query: index, versionIds: [], bytes: 0 }
    for (let at = 0; at < query.versionIds.length; at++) {
      const versionId = query.versionIds[at] as number
      const size = sizeOf(versionId)
      if (size === undefined || taken.has(size.leadId)) continue
      taken.add(size.leadId)
      piece.versionIds.push(versionId)
      piece.bytes += size.bytes
    }
    return piece
  })
}

/**
 * Whole pieces, each into the first part that has room; one that alone exceeds a part is torn: it fills parts of its own,
 * and its rest is packed like a whole one.
 */
function pack(
  pieces: Piece[],
  newPart: () => Part,
  bytesOf: (id: number) => number,
  bytesMax: number,
  tooLarge: number[],
): Part[] {
  const parts: Part[] = []
  const place = (piece: Piece): boolean => {
    const roomy = parts.find((part) => part.bytesWith(piece.query, piece.versionIds.length, piece.bytes) <= bytesMax)
    if (roomy) roomy.add(piece)
    return roomy !== undefined
  }
  const open = (piece: Piece) => {
    const part = newPart()
    part.add(piece)
    parts.push(part)
  }

  const carriesNone = pieces.filter(({ versionIds }) => versionIds.length === 0)
  if (carriesNone.length > 0) {
    const first = newPart()
    for (const piece of carriesNone) first.add(piece)
    parts.push(first)
  }
  for (const piece of pieces) {
    if (piece.versionIds.length === 0 || place(piece)) continue
    let rest: Piece = { query: piece.query, versionIds: [], bytes: 0 }
    for (const versionId of piece.versionIds) {
      const bytes = bytesOf(versionId)
      const alone = newPart()
      if (alone.bytesWith(piece.query, 1, bytes) > bytesMax) {
        tooLarge.push(versionId)
        continue
      }
      if (alone.bytesWith(piece.query, rest.versionIds.length + 1, rest.bytes + bytes) > bytesMax) {
        open(rest)
        rest = { query: piece.query, versionIds: [], bytes: 0 }
      }
      rest.versionIds.push(versionId)
      rest.bytes += bytes
    }
    if (!place(rest)) open(rest)
  }
  return parts
}

/**
 * The deliveries of one push. `queries` in the user's order; `sizeOf` knows every version that they name, or says that it is
 * gone. Leads stand in the order of their versions, the newest first: the same leads, the same order.
 */
export function planDeliveries(
  queries: readonly QueryToPlan[],
  sizeOf: (versionId: number) => LeadSize | undefined,
  bytesMax: number = bodyBytesMax,
): Plan {
  const bytesOf = (versionId: number) => sizeOf(versionId)?.bytes ?? 0
  const queryBytes = queries.map(({ json }) => Buffer.byteLength(json))
  const newPart = () => new Part((query) => queryBytes[query] ?? 0)
  const pieces = dropRepeats(queries, sizeOf)
  const tooLarge: number[] = []

  const whole = newPart()
  for (const piece of pieces) whole.add(piece)
  const parts = whole.bytes <= bytesMax ? [whole] : pack(pieces, newPart, bytesOf, bytesMax, tooLarge)

  const deliveries = parts.map((part, index): PlannedDelivery => {
    const positions = [...part.queries].sort((a, b) => a - b)
    return {
      part: index + 1,
      parts: parts.length,
      queries: positions.length,
      leads: part.leads,
      bytes: part.bytes,
      queryList: positions.map((position) => queries[position]?.json).join(','),
      versionIds: part.versionIds,
    }
  })
  return { deliveries, tooLarge }
}
