/** Reads the records of a users file and copies them into the staging table, bad ones with their problem. */
import { LRUCache } from 'lru-cache'
import { type CopyRows, copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import { type RefusedSearch, type ResolvedSearch, resolveSearch } from '../matching/search.ts'
import type { Places } from '../places/places.ts'
import { IgnoredFields } from '../records/ignored-fields.ts'
import type { ImportOptions } from '../records/import-each.ts'
import { type RecordFile, type RecordFormat, readRecords } from '../records/read-records.ts'
import { type CsvHeader, onOneLine, type ReadRecord } from '../records/record.ts'
import { serialiseProblem } from '../records/staged-rejects.ts'
import { receiverKeyOf } from '../secrets/cipher.ts'
import type { Vault } from '../secrets/vault.ts'
import { LineParser, type ParsedLine } from './csv-line.ts'
import { gatherLines } from './gather-lines.ts'
import { foldQueries, type Query, serialiseQuery } from './query.ts'
import { createStaging, stagedColumns } from './staged-users.ts'
import { emailSchema, parseUser, type UserPatch } from './user.ts'

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

  resolve(query: Query): ResolvedSearch | RefusedSearch {
    const key = serialiseQuery(query)
    const known = this.known.get(key)
    if (known) return known
    const resolved = resolveSearch(this.places, query)
    this.known.set(key, resolved)
    return resolved
  }

  /** The problem of the first query that cannot match anything; undefined for none. */
  findRefused(queries: readonly Query[]): { path: string; message: string } | undefined {
    for (const [at, query] of queries.entries()) {
      // a refusal does not depend on the radius, and finding the places within it is the costly part
      const search = this.resolve({ ...query, radius: 0 })
      if ('refused' in search) return { path: `queries[${at}].value`, message: search.refused }
    }
    return undefined
  }
}

/** What was staged: the number of records (in CSV of users), the ignored fields, the format, and in CSV the header. */
export interface StagedUsers {
  staged: number
  ignored: IgnoredFields
  format: RecordFormat
  header: CsvHeader | undefined
}

/** How queries are resolved, and whom to tell. */
export interface StageUsersOptions extends Pick<ImportOptions, 'signal' | 'stdin'> {
  /** Of a file without a mark that is not in UTF-8. */
  encoding?: string | undefined
  resolver: Resolver
  /** Keys are staged as they are stored. */
  vault: Vault
  onRead: (state: { records: number; bytesRead: number }) => void
}

function parse(record: ReadRecord, ignored: IgnoredFields, lines: LineParser): ParsedLine {
  if (record.error !== undefined) return { path: '', message: record.error }
  if (record.cells) return lines.parse(record.cells)
  const parsed = parseUser(record.value, ignored)
  return 'user' in parsed ? parsed : { ...parsed, email: emailOf(record) }
}

/** Refuses a query that can match nothing. */
function check(parsed: ParsedLine, resolver: Resolver, isLine: boolean): ParsedLine {
  const refused = 'user' in parsed ? resolver.findRefused(parsed.user.queries ?? []) : undefined
  if (!refused || !('user' in parsed)) return parsed
  return { ...refused, path: isLine ? 'value' : refused.path, email: parsed.user.email }
}

/** The e-mail of a record, even where the rest of it is bad. */
const emailOf = ({ value }: ReadRecord) => emailSchema.safeParse((value as { email?: unknown } | null)?.email).data

/** The user with the key as it is stored. */
const sealKey = (user: UserPatch, vault: Vault): UserPatch =>
  user.receiverApiKey === undefined
    ? user
    : { ...user, receiverApiKey: vault.seal(user.receiverApiKey, receiverKeyOf(user.email)) }

function addRow(
  rows: CopyRows,
  n: number,
  record: ReadRecord,
  parsed: ParsedLine,
  { isLine, vault }: { isLine: boolean; vault: Vault },
): void {
  const user: Partial<UserPatch> = 'user' in parsed ? sealKey(parsed.user, vault) : {}
  const { email = 'user' in parsed ? undefined : parsed.email, ...rest } = user
  const queries = rest.queries && foldQueries(rest.queries)
  rows.begin(7)
  rows.integer(n)
  rows.bigint(record.line)
  rows.text(email)
  rows.text('user' in parsed ? JSON.stringify({ ...rest, queries }) : undefined)
  // only records without a key can still be rejected, and are then shown; a line can be for another line
  rows.bytea(isLine ? record.raw : rest.receiverApiKey === undefined ? onOneLine(record.raw) : undefined)
  rows.text('user' in parsed ? undefined : serialiseProblem(parsed))
  rows.integer((rest.queries?.length ?? 0) - (queries?.length ?? 0))
}

/** Makes `staged_users` and copies the records of `file` into it. Throws `failed` where the file is broken off. */
export async function stageUsers(
  connection: Connection,
  file: RecordFile,
  options: StageUsersOptions,
): Promise<StagedUsers> {
  await createStaging(connection)
  const ignored = new IgnoredFields()
  const lines = new LineParser(ignored)
  let staged = 0
  let format: RecordFormat = file.format ?? 'ndjson'
  let header: CsvHeader | undefined
  await copyInto(connection, `staged_users (${stagedColumns})`, async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    for await (const page of readRecords(file, { ...options, signal })) {
      format = page.format
      header = page.header
      if (header) lines.setHeader(header)
      for (const record of page.records) {
        const isLine = header !== undefined
        const parsed = check(parse(record, ignored, lines), options.resolver, isLine)
        addRow(rows, ++staged, record, parsed, { isLine, vault: options.vault })
        if (rows.isFull) await flush()
      }
      options.onRead({ records: staged, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
  })
  if (format === 'csv') staged = await gatherLines(connection, options.signal)
  return { staged, ignored, format, header }
}
