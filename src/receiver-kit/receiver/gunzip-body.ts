/** Decodes a compressed body (contract 4.17), and stops at the limit of a body. */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { codeOf } from '../../base/errors.ts'
import { bodyBytesMax } from '../../base/limits.ts'
import type { RequestProblem } from './check-request.ts'

const gunzipWithin = promisify(gunzip)

export async function gunzipBody(
  bytes: Buffer,
): Promise<{ body: Buffer } | { status: number; problem: RequestProblem }> {
  try {
    return { body: await gunzipWithin(bytes, { maxOutputLength: bodyBytesMax }) }
  } catch (error) {
    const isTooLarge = codeOf(error) === 'ERR_BUFFER_TOO_LARGE'
    const message = isTooLarge ? `has more than ${bodyBytesMax} bytes, decoded` : 'is not whole gzip'
    return { status: isTooLarge ? 413 : 400, problem: { clause: '4.17', path: 'body', message } }
  }
}
