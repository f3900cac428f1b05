/** `validate FILE.json`: whether a file is a delivery body, byte for byte as it may stand on the wire (contract 4.2 to 4.4, 4.11). */
import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { deliveryBodySchema, findBodyConflicts } from '../deliveries/body-schema.ts'
import { formatPath } from '../errors.ts'
import { bodyBytesMax } from '../limits.ts'
import { describeIssues, type Finding, type Findings } from './finding.ts'

/** What is longer than a body may be is read on up to here, to tell what else is wrong with it. */
const readBytesMax = 64 * 1024 * 1024

/** The file, up to `readBytesMax`, and how long it is. */
async function readBytes(file: string): Promise<{ bytes: Buffer; total: number }> {
  const chunks: Buffer[] = []
  let total = 0
  for await (const chunk of createReadStream(file, { highWaterMark: 512 * 1024 })) {
    if (total < readBytesMax) chunks.push(chunk as Buffer)
    total += (chunk as Buffer).length
  }
  return { bytes: Buffer.concat(chunks), total }
}

type Problem = Pick<Finding, 'path' | 'message' | 'hint'>

function parse(bytes: Buffer): { value: unknown } | Problem {
  const text = isUtf8(bytes) ? bytes.toString('utf8') : undefined
  if (text === undefined) return { path: '', message: 'is no valid UTF-8' }
  if (text.startsWith('\ufeff')) return { path: '', message: 'begins with a byte order mark, which JSON has not' }
  if (text.trim() === '') return { path: '', message: 'is empty: must be JSON' }
  try {
    return { value: JSON.parse(text) }
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1]
    const from = position === undefined ? '' : ` (from its character ${Number(position) + 1} on)`
    return { path: '', message: `is no valid JSON${from}` }
  }
}

const asObject = (value: unknown) => (typeof value === 'object' && value !== null ? value : {})
const asList = (value: unknown) => (Array.isArray(value) ? value.map(asObject) : undefined)

function findProblems(value: unknown): Problem[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const problem = { path: '', message: 'must be an object with queryList and fsbos' }
    if (!Array.isArray(value)) return [problem]
    return [{ ...problem, hint: 'A leads file is checked as one where its name ends in .ndjson or .csv.' }]
  }
  const parsed = deliveryBodySchema.safeParse(value)
  if (parsed.success) return []
  const found = describeIssues(parsed.error.issues, value)
  const { queryList, fsbos } = value as { queryList?: unknown; fsbos?: unknown }
  const lists = { queryList: asList(queryList), fsbos: asList(fsbos) }
  if (lists.queryList && lists.fsbos) {
    // the schema looks at the whole only where each entry is right
    const told = new Set(found.map((issue) => JSON.stringify(issue)))
    const conflicts = findBodyConflicts({ queryList: lists.queryList, fsbos: lists.fsbos })
    found.push(...conflicts.filter(({ path, message }) => !told.has(JSON.stringify({ path, message }))))
  }
  return found.map(({ path, message }) => ({ path: formatPath(path), message }))
}

/** Every problem of the file `file`, which is there and can be read. */
export async function* checkBodyFile(file: string): Findings {
  const { bytes, total } = await readBytes(file)
  if (total > bodyBytesMax) {
    const message = `has ${total} bytes: at most ${bodyBytesMax}`
    yield { type: 'problem', where: file, path: '', message, hint: 'Send it in parts, each with its queries.' }
  }
  if (total > readBytesMax) return
  const parsed = parse(bytes)
  const problems = 'value' in parsed ? findProblems(parsed.value) : [parsed]
  for (const problem of problems) yield { type: 'problem', where: file, ...problem }
}
