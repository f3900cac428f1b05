/** `validate FILE…`: tells the kind of each file from its content, and judges it as the import does. It needs no database. */
import { addAbortSignal, Readable } from 'node:stream'
import type { LeadMap } from '../../leads/field-map.ts'
import { leadFormats } from '../../leads/import.ts'
import type { ReadOptions } from '../../leads/pick-fields.ts'
import { leadVocabulary } from '../../leads/usual-names.ts'
import { ColumnSampler } from '../../records/column-samples.ts'
import { foldColumnName } from '../../records/columns.ts'
import { checkReadable, findRecordFile, openFile, type RecordPage, readRecords } from '../../records/read-records.ts'
import { suggestMap } from '../../records/suggest-map.ts'
import { type UserMap, userVocabulary } from '../../users/field-map.ts'
import { type Finding, type Findings, problem } from '../finding.ts'
import { checkBody } from './body-file.ts'
import { LeadsCheck, type LeadsCheckOptions, problemOf, type RecordsCheck } from './leads-file.ts'
import { UsersCheck } from './users-file.ts'

/** The map of listings, or that of users; one is left out if the options name a field that only the other has. */
export interface FileCheckOptions extends Omit<LeadsCheckOptions, 'map'> {
  leadMap?: LeadMap | undefined
  userMap?: UserMap | undefined
  encoding?: string | undefined
  /** The stream for `-`. */
  stdin?: Readable | undefined
}

/** Throws `usage` if a file does not exist or cannot be read. */
export function findFiles(names: readonly string[]): readonly string[] {
  for (const name of names) if (name !== '-') checkReadable(name)
  return names
}

export interface FileCounts {
  files: number
  /** Records in files of listings and users. */
  records: number
  /** Records that `--where` does not take. */
  filtered?: number
}

/** Whether the first records are users: they have a field that only users have, or an e-mail and no field that marks a listing. */
function areUsers(page: RecordPage, { leadMap, userMap }: FileCheckOptions): boolean {
  if (!leadMap || !userMap) return userMap !== undefined
  const sampler = new ColumnSampler()
  sampler.look(page)
  const names = new Set(sampler.names.map(foldColumnName))
  const has = (field: 'href' | 'postalCode') => names.has(foldColumnName(leadMap.get(field)?.column ?? field))
  if (has('href') || suggestMap(leadVocabulary, sampler.samples, leadMap).has('href')) return false
  if (names.has('email')) return !has('postalCode')
  const fits = suggestMap(userVocabulary, sampler.samples)
  return fits.has('email') && (fits.has('receiverApiKey') || names.has('receiverapikey') || names.has('queries'))
}

/** The options that no import of users takes. */
function* findUnfit(name: string, { where, nulls, strict }: ReadOptions): Generator<Finding> {
  const given = [where?.length ? '--where' : '', nulls?.size ? '--null' : '', strict ? '--strict' : '']
  const toDo = 'Leave it out: an import of users does not take it.'
  for (const option of given)
    if (option !== '')
      yield { code: 'file', where: name, path: '', ...problem(`${option} is for listings, and these are users`, toDo) }
}

async function* checkRecords(
  name: string,
  stream: Readable,
  counts: FileCounts,
  options: FileCheckOptions,
  signal: AbortSignal | undefined,
): Findings {
  let check: RecordsCheck | undefined
  const { leadMap, userMap, encoding, commandThatFits, ...how } = options
  try {
    // the format that the file's name says wins, as in an import; the bytes come from `stream`
    const file = { ...findRecordFile(name, leadFormats), name: '-' }
    const identity = [leadMap?.get('href')?.column ?? 'href', userMap?.get('email')?.column ?? 'email']
    for await (const page of readRecords(file, { signal, encoding, stdin: stream, identity })) {
      counts.records += page.records.length
      if (!check && page.records.length === 0) continue
      if (!check && areUsers(page, options)) {
        yield* findUnfit(name, how)
        check = new UsersCheck(name, { map: userMap, commandThatFits })
      }
      check ??= new LeadsCheck(name, { ...how, map: leadMap, commandThatFits }, counts)
      yield* check.check(page)
    }
    if (check) yield* check.finish()
  } catch (error) {
    if (signal?.aborted) return
    yield problemOf(name, error)
  }
}

const keyBytesMax = 64 * 1024

/** Whether a text with this beginning is an object with `queryList` or `fsbos` among its own names, like a delivery body. */
export function looksLikeBody(first: Buffer): boolean {
  const text = first.subarray(0, keyBytesMax).toString()
  if (!/^\s*\{/.test(text)) return false
  let depth = 0
  // strings, the colons that make them names, and brackets; everything else is skipped
  for (const [token, name, colon] of text.matchAll(/"((?:[^"\\]|\\.)*)"(\s*:)?|[{}[\]]/g)) {
    if (token === '{' || token === '[') depth++
    else if (token === '}' || token === ']') depth--
    else if (depth === 1 && colon !== undefined && (name === 'queryList' || name === 'fsbos')) return true
  }
  return false
}

/** The bytes of a file, with the first of them. */
async function openPeeked(stream: Readable): Promise<{ first: Buffer; all: Readable }> {
  const chunks = stream[Symbol.asyncIterator]()
  let first = Buffer.alloc(0)
  while (first.length < keyBytesMax) {
    const { value, done } = await chunks.next()
    if (done) break
    first = Buffer.concat([first, Buffer.from(value)])
  }
  async function* all() {
    if (first.length > 0) yield first
    yield* { [Symbol.asyncIterator]: () => chunks }
  }
  return { first, all: Readable.from(all(), { objectMode: false }) }
}

async function* checkFile(
  name: string,
  counts: FileCounts,
  options: FileCheckOptions,
  signal: AbortSignal | undefined,
): Findings {
  const stream = name === '-' ? (options.stdin ?? Readable.from([])) : openFile(name)
  try {
    if (signal) addAbortSignal(signal, stream)
    const { first, all } = await openPeeked(stream)
    if (looksLikeBody(first)) yield* checkBody(name, all)
    else yield* checkRecords(name, all, counts, options, signal)
  } catch (error) {
    if (!signal?.aborted) throw error
  } finally {
    if (name !== '-') stream.destroy()
  }
}

/** Yields the findings on the files, one file after the other; `counts` grows as they are read. */
export async function* checkFiles(
  files: readonly string[],
  counts: FileCounts,
  signal?: AbortSignal,
  options: FileCheckOptions = {
    commandThatFits: () => 'leadpush validate FILE',
    leadMap: new Map(),
    userMap: new Map(),
  },
): Findings {
  for (const name of files) {
    if (signal?.aborted) return
    counts.files++
    yield* checkFile(name, counts, options, signal)
  }
}
