/** `validate FILE.json`: checks whether a file is, byte for byte, a valid delivery body (contract 4.2 to 4.4, 4.11). */
import { addAbortSignal } from 'node:stream'
import { bodyBytesMax } from '../../base/limits.ts'
import { findBodyProblems, parseBody } from '../../deliveries/body-problems.ts'
import { openFile } from '../../records/read-records.ts'
import type { Findings } from './finding.ts'

/** A file that is too long for a body is still read up to here, to find its other problems. */
const readBytesMax = 64 * 1024 * 1024

/** The first `readBytesMax` bytes of the file, and its whole length. */
async function readBytes(file: string, signal: AbortSignal): Promise<{ bytes: Buffer; total: number }> {
  const chunks: Buffer[] = []
  let total = 0
  for await (const chunk of addAbortSignal(signal, openFile(file))) {
    if (total < readBytesMax) chunks.push(chunk as Buffer)
    total += (chunk as Buffer).length
  }
  return { bytes: Buffer.concat(chunks), total }
}

/** A name that ends in `.json` says that a file is a body (contract 3), but an import takes lists of such a name. */
function findHint(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || 'queryList' in value || 'fsbos' in value) return undefined
  const list = Array.isArray(value) ? '.[]' : Object.entries(value).find(([, member]) => Array.isArray(member))?.[0]
  const steps = list === '.[]' ? list : `.[${JSON.stringify(list)}][]`
  return list === undefined
    ? undefined
    : `In .json a delivery body is expected. Listings and users are checked in .ndjson or .csv: jq -c '${steps}' FILE > FILE.ndjson`
}

/** Yields every problem of `file`, which exists and can be read; none where `signal` stops it. */
export async function* checkBodyFile(file: string, signal: AbortSignal = new AbortController().signal): Findings {
  const read = await readBytes(file, signal).catch((error) => {
    if (!signal.aborted) throw error
  })
  if (!read) return
  const { bytes, total } = read
  if (total > bodyBytesMax) {
    const message = `has ${total} bytes: at most ${bodyBytesMax}`
    yield { type: 'problem', where: file, path: '', message, hint: 'Send it in parts, each with its queries.' }
  }
  if (total > readBytesMax) return
  const parsed = parseBody(bytes)
  const problems = 'value' in parsed ? findBodyProblems(parsed.value) : [parsed.problem]
  let hint = 'value' in parsed ? findHint(parsed.value) : undefined
  for (const { clause: _, ...problem } of problems) {
    yield { type: 'problem', where: file, ...problem, ...(hint !== undefined && { hint }) }
    hint = undefined
  }
}
