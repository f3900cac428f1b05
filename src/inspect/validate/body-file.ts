/** Checks a delivery body for `validate`, byte for byte (contract 4.2 to 4.4, 4.11). */
import type { Readable } from 'node:stream'
import { bodyBytesMax } from '../../base/limits.ts'
import { findBodyProblems, parseBody } from '../../receiver-kit/body/body-problems.ts'
import type { Findings } from '../finding.ts'

/** A file that is too long for a body is still read up to here, to find its other problems. */
const readBytesMax = 64 * 1024 * 1024

/** The first `readBytesMax` bytes, and the number of all. */
async function readBytes(stream: Readable): Promise<{ bytes: Buffer; total: number }> {
  const chunks: Buffer[] = []
  let total = 0
  for await (const chunk of stream) {
    if (total < readBytesMax) chunks.push(chunk as Buffer)
    total += (chunk as Buffer).length
  }
  return { bytes: Buffer.concat(chunks), total }
}

/** Yields every problem of the body that `stream` has; `name` is that of its file. */
export async function* checkBody(name: string, stream: Readable): Findings {
  const at = { level: 'problem', code: 'body', where: name } as const
  const { bytes, total } = await readBytes(stream)
  if (total > bodyBytesMax) {
    const what = `has ${total} bytes: at most ${bodyBytesMax}`
    yield { ...at, path: '', what, toDo: 'Send it in parts, each with its queries.' }
  }
  if (total > readBytesMax) return
  const parsed = parseBody(bytes)
  const problems = 'value' in parsed ? findBodyProblems(parsed.value) : [parsed.problem]
  for (const { path, message } of problems) yield { ...at, path, what: message }
}
