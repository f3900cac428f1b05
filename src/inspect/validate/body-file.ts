/** `validate FILE.json`: whether a file is a delivery body, byte for byte as it may stand on the wire (contract 4.2 to 4.4, 4.11). */
import { addAbortSignal } from 'node:stream'
import { bodyBytesMax } from '../../base/limits.ts'
import { findBodyProblems, parseBody } from '../../deliveries/body-problems.ts'
import { openFile } from '../../records/read-records.ts'
import type { Findings } from './finding.ts'

/** What is longer than a body may be is read on up to here, to tell what else is wrong with it. */
const readBytesMax = 64 * 1024 * 1024

/** The file, up to `readBytesMax`, and how long it is. */
async function readBytes(file: string, signal: AbortSignal): Promise<{ bytes: Buffer; total: number }> {
  const chunks: Buffer[] = []
  let total = 0
  for await (const chunk of addAbortSignal(signal, openFile(file))) {
    if (total < readBytesMax) chunks.push(chunk as Buffer)
    total += (chunk as Buffer).length
  }
  return { bytes: Buffer.concat(chunks), total }
}

/** Every problem of the file `file`, which is there and can be read; none, where `signal` stops it. */
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
  for (const { clause: _, ...problem } of problems) yield { type: 'problem', where: file, ...problem }
}
