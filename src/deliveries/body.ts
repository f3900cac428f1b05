/** The bytes of a request body: `{"queryList":[…],"fsbos":[…]}` from texts that were serialised before. */
import { groupBy } from '../base/group-by.ts'
import type { LeadWithJson } from '../leads/lead-store.ts'

const open = Buffer.from('{"queryList":[')
const middle = Buffer.from('],"fsbos":[')
const end = Buffer.from(']}')
const comma = 0x2c

const frameBytes = open.length + middle.length + end.length

/** The length of a body; `queryBytes` and `leadBytes` count the entries without their commas. */
export function countBodyBytes(queries: number, queryBytes: number, leads: number, leadBytes: number): number {
  return frameBytes + queryBytes + Math.max(0, queries - 1) + leadBytes + Math.max(0, leads - 1)
}

const bufferStepBytes = 64 * 1024

/** Buffers for bodies, reused once an attempt is over: bodies are most of the memory that a push touches. */
export class BodyBuffers {
  private readonly free: Buffer[] = []

  take(bytes: number): Buffer {
    const buffer = this.free.pop()
    // allocUnsafeSlow: never a slice of the pool that other buffers share
    return buffer && buffer.length >= bytes
      ? buffer
      : Buffer.allocUnsafeSlow(Math.ceil(bytes / bufferStepBytes) * bufferStepBytes)
  }

  /** Takes back the buffer of a body, which begins it; the body must have no reader left. */
  giveBack(body: Buffer): void {
    this.free.push(Buffer.from(body.buffer))
  }
}

/**
 * The leads grouped by place, in the order of the body. Users of a neighbourhood share most of these groups, so a group that was
 * compressed for one user serves all. The places stand in the order of their first leads.
 */
export const groupByPlace = <Lead extends { place: string }>(leads: readonly Lead[]) =>
  groupBy(leads, ({ place }) => place).values()

/** The bytes of a body before its leads and behind them. */
export const frame = (queryList: string) => ({
  head: Buffer.concat([open, Buffer.from(queryList), middle]),
  tail: end,
})

/**
 * The body as the first `bytes` of `buffer`, from the queries' JSON, separated by commas, and the leads, which may have any order
 * and are grouped by place. Throws if the length is not `bytes`: a body that differs from its plan is never sent.
 */
export function buildBody(
  queryList: string,
  leads: readonly Pick<LeadWithJson, 'json' | 'place'>[],
  bytes: number,
  buffer: Buffer = Buffer.allocUnsafeSlow(bytes),
): Buffer {
  const body = buffer.subarray(0, bytes)
  let at = 0
  const put = (piece: Uint8Array) => {
    body.set(piece, at)
    at += piece.length
  }
  const { head, tail } = frame(queryList)
  put(head)
  let isFirst = true
  for (const group of groupByPlace(leads)) {
    for (const { json } of group) {
      if (!isFirst) body[at++] = comma
      isFirst = false
      put(json)
    }
  }
  put(tail)
  if (at !== bytes) throw new RangeError(`a body of ${at} bytes was planned with ${bytes}`)
  return body
}
