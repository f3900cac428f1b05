/** Reads the body of a request, or skips it: a sender that is cut off never sees its answer. */
import type { IncomingMessage } from 'node:http'

/** The most bytes of a refused body that are skipped; a sender with more must look at its answer meanwhile. */
const passedBytesMax = 16_000_000

export interface ReadBody {
  /** Empty if the body was skipped. */
  bytes: Buffer
  /** Bytes that came. */
  length: number
  /** The body did not break off. */
  isWhole: boolean
}

/** A body that was not sent. */
export const nothing: ReadBody = { bytes: Buffer.alloc(0), length: 0, isWhole: true }

/** A body of `keep` bytes; without `keep` it is skipped. Never throws. */
export function readBody(request: IncomingMessage, keep: number | undefined): Promise<ReadBody> {
  return new Promise((resolve) => {
    const bytes = Buffer.allocUnsafe(keep ?? 0)
    let length = 0
    const settle = (isWhole: boolean) => resolve({ bytes, length, isWhole })
    request.on('data', (chunk: Buffer) => {
      if (keep !== undefined) chunk.copy(bytes, length)
      length += chunk.length
      if (keep === undefined && length > passedBytesMax) settle(true)
    })
    request.on('end', () => settle(keep === undefined || length === keep))
    request.on('close', () => settle(false))
    request.on('error', () => settle(false))
  })
}
