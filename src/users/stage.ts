/** Reads the records of a users file and copies them into the staging table, bad ones with their problem. */
import { LRUCache } from 'lru-cache'
import { plural } from '../base/amounts.ts'
import { copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import { type RefusedSearch, type ResolvedSearch, resolveSearch } from '../matching/search.ts'
import type { Places } from '../places/places.ts'
import { type Encoding, utf8 } from '../records/encoding.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import type { ImportOptions } from '../records/import-each.ts'
import { type RecordFile, type RecordFormat, readRecords } from '../records/read-records.ts'
import { type CsvHeader, onOneLine, type ReadRecord } from '../records/record.ts'
import { type Problem, serialiseProblem } from '../records/staged-rejects.ts'
import { receiverKeyOf } from '../secrets/cipher.ts'
import type { Vault } from '../secrets/vault.ts'
import type { ParsedLine } from './csv-line.ts'
import { gatherLines } from './gather-lines.ts'
import { foldQueries, type Query, serialiseQuery } from './query.ts'
import { UserReader, type UserReadOptions } from './read-user.ts'
import { addStaged, type StagedUser, stagedUsers } from './staged-users.ts'

/** Limits the postal codes of all remembered searches together. */
const knownPlacesMax = 1_000_000

/** Resolves queries to searches, and remembers the last ones: many users ask for the same places. */
export class Resolver {
  private readonly places: Places
  private readonly known = new LRUCache<string, ResolvedSearch | RefusedSearch>({
    max: 5_000,
    maxSize: knownPlacesMax,
    sizeCalculation: (search) => 1 + ('places' in search ? (search.places?.length ?? 0) : 0),
  })

  constructor(places: Places) {
    this.places = places
  }

  /** How many text queries so far look like a place and name none that is known, and the first of them. */
  readonly unknownPlaces: { count: number; example: string } = { count: 0, example: '' }

  resolve(query: Query, radius = query.radius): ResolvedSearch | RefusedSearch {
    const { type, value } = query
    const key = `${type} ${radius} ${value}`
    const known = this.known.get(key)
    if (known) return known
    const resolved = resolveSearch(this.places, { type, value, radius })
    this.known.set(key, resolved)
    return resolved
  }

  /**
   * The postal key of the first query that names a place, or '': users near each other are served together (contract 4.9). Of a query
   * that cannot match anything the problem.
   */
  findHome(queries: readonly Query[]): { homeKey: string } | Problem {
    let homeKey = ''
    for (const [at, query] of queries.entries()) {
      // neither depends on the radius, and finding the places within it is the costly part
      const search = this.resolve(query, 0)
      if ('refused' in search) return { path: `queries[${at}].value`, message: search.refused }
      homeKey ||= search.homeKey
      if (search.placeUnknown && this.unknownPlaces.count++ === 0) this.unknownPlaces.example = query.value
    }
    return { homeKey }
  }
}

/** What was staged: the number of records (in CSV of users), the ignored fields, the format, and in CSV the header. */
export interface StagedUsers {
  staged: number
  ignored: IgnoredFields
  format: RecordFormat
  header: CsvHeader | undefined
  encoding: Encoding
}

/** How queries are resolved, and whom to tell. */
export interface StageUsersOptions extends UserReadOptions, Pick<ImportOptions, 'signal' | 'stdin'> {
  /** Of a file without a mark that is not in UTF-8. */
  encoding?: string | undefined
  resolver: Resolver
  /** Keys are staged as they are stored. */
  vault: Vault
  onRead: (state: { records: number; bytesRead: number }) => void
  /** Takes what is worth knowing about the file. */
  onNote?: ((text: string) => void) | undefined
}

/** What is staged of a record beside where it stands. A query that can match nothing is refused. */
function toStaged(
  record: ReadRecord,
  parsed: ParsedLine,
  { isLine, resolver, vault }: StageUsersOptions & { isLine: boolean },
): Omit<StagedUser, 'n' | 'line'> {
  const reject = (email: string | undefined, problem: Problem) => {
    const raw = isLine ? record.raw : onOneLine(record.raw)
    return { email, raw, problem: serialiseProblem(problem), folded: 0 }
  }
  if (!('user' in parsed)) return reject(parsed.email, parsed)
  const { email, receiverApiKey, subscribed, queries: given } = parsed.user
  const home = given && resolver.findHome(given)
  if (home && 'message' in home) return reject(email, { ...home, path: isLine ? 'value' : home.path })
  const queries = given && foldQueries(given)
  return {
    email,
    receiverKey: receiverApiKey === undefined ? undefined : vault.seal(receiverApiKey, receiverKeyOf(email)),
    subscribed,
    queries: queries?.map(serialiseQuery),
    homeKey: home?.homeKey,
    // only records without a key can still be rejected, and are then shown; a line can be for another line
    raw: isLine ? record.raw : receiverApiKey === undefined ? onOneLine(record.raw) : undefined,
    folded: (given?.length ?? 0) - (queries?.length ?? 0),
  }
}

const describeUnknown = (count: number, example: string) =>
  `${plural(count, 'text query')} like ${JSON.stringify(example)} ${count === 1 ? 'looks' : 'look'} like a place, but no such place is known: only listings with all these words match`

/** Copies the records of `file` into `staged_users`. Throws `failed` where the file is broken off. */
export async function stageUsers(
  connection: Connection,
  file: RecordFile,
  options: StageUsersOptions,
): Promise<StagedUsers> {
  const reader = new UserReader(options)
  const { unknownPlaces } = options.resolver
  const unknownBefore = unknownPlaces.count
  const tell = (notes: string[]) => {
    for (const note of notes) options.onNote?.(note)
  }
  let staged = 0
  let format: RecordFormat = file.format ?? 'ndjson'
  let header: CsvHeader | undefined
  let encoding = utf8
  await copyInto(connection, stagedUsers, async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    const identity = [options.map?.get('email')?.column ?? 'email']
    for await (const page of readRecords(file, { ...options, signal, identity })) {
      format = page.format
      header = page.header
      encoding = page.encoding
      reader.look(page)
      const how = { ...options, isLine: header !== undefined }
      for (const record of page.records) {
        const parsed = reader.read(record)
        addStaged(rows, { n: ++staged, line: record.line, ...toStaged(record, parsed, how) })
        if (rows.isFull) await flush()
      }
      options.onRead({ records: staged, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
    tell(reader.finish())
    const unknown = unknownPlaces.count - unknownBefore
    if (unknown > 0) tell([describeUnknown(unknown, unknownPlaces.example)])
  })
  if (format === 'csv') staged = await gatherLines(connection, options.signal)
  const lack = reader.withoutKeys
  if (lack && !(await hasKnown(connection))) throw lack
  return { staged, ignored: reader.ignored, format, header, encoding }
}

/** Whether one of the staged users is known: who has a key already needs none in the file. */
async function hasKnown(connection: Connection): Promise<boolean> {
  const { rowCount } = await connection.query(
    `select from staged_users s where exists (select from users u where u.email = s.email) limit 1`,
  )
  return rowCount === 1
}
