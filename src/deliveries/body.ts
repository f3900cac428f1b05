/** The bytes of a request body: `{"queryList":[…],"fsbos":[…]}` from texts that were serialised before. */

const open = Buffer.from('{"queryList":[')
const middle = Buffer.from('],"fsbos":[')
const end = Buffer.from(']}')
const comma = 0x2c

const frameBytes = open.length + middle.length + end.length

/** How long a body is whose queries, without commas, come to `queryBytes`, and whose leads to `leadBytes`. */
export function countBodyBytes(queries: number, queryBytes: number, leads: number, leadBytes: number): number {
  return frameBytes + queryBytes + Math.max(0, queries - 1) + leadBytes + Math.max(0, leads - 1)
}

const bufferStepBytes = 64 * 1024

/** Buffers of bodies that are on their way, used again for the next ones: bodies are the bulk of what a push touches. */
export class BodyBuffers {
  private readonly free: Buffer[] = []

  take(bytes: number): Buffer {
    const buffer = this.free.pop()
    // its memory is its own, never a slice of the shared pool
    return buffer && buffer.length >= bytes
      ? buffer
      : Buffer.allocUnsafeSlow(Math.ceil(bytes / bufferStepBytes) * bufferStepBytes)
  }

  /** Only when nobody reads it any more. */
  giveBack(buffer: Buffer): void {
    this.free.push(buffer)
  }
}

/**
 * `queryList` is the queries' JSON, separated by commas; `leads` have their JSON as UTF-8; `bytes` what all of it comes to;
 * the body is the beginning of `buffer`. Throws if it comes to something else: a body that is not what was planned is never
 * sent.
 */
export function buildBody(
  queryList: string,
  leads: readonly { json: Uint8Array }[],
  bytes: number,
  buffer: Buffer = Buffer.allocUnsafeSlow(bytes),
): Buffer {
  const body = buffer.subarray(0, bytes)
  let at = 0
  const put = (piece: Uint8Array) => {
    body.set(piece, at)
    at += piece.length
  }
  put(open)
  put(Buffer.from(queryList))
  put(middle)
  for (let index = 0; index < leads.length; index++) {
    if (index > 0) body[at++] = comma
    put((leads[index] as { json: Uint8Array }).json)
  }
  put(end)
  if (at !== bytes) throw new RangeError(`a body of ${at} bytes was planned with ${bytes}`)
  return body
}
