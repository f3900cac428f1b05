/** The staging table of a users import: reads the records of a file and copies them in, bad ones with their problem. */
import { LRUCache } from 'lru-cache'
import { LeadpushError } from '../base/errors.ts'
import { copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import { type RefusedSearch, type ResolvedSearch, resolveSearch } from '../matching/search.ts'
import type { Places } from '../places/places.ts'
import { IgnoredFields } from '../records/ignored-fields.ts'
import type { ImportOptions } from '../records/import-each.ts'
import { type RecordFile, type RecordFormat, readRecords } from '../records/read-records.ts'
import { onOneLine, type ReadRecord } from '../records/record.ts'
import { serialiseProblem } from '../records/staged-rejects.ts'
import { type Query, serialiseQuery } from './query.ts'
import { emailSchema, type ParsedUser, parseUser, type UserPatch } from './user.ts'

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

/** What was staged: the number of records, the ignored fields, and the format. */
export interface StagedUsers {
  staged: number
  ignored: IgnoredFields
  format: RecordFormat
}

/** How queries are resolved, and whom to tell. */
export interface StageUsersOptions extends Pick<ImportOptions, 'signal' | 'stdin'> {
  resolver: Resolver
  onRead: (state: { records: number; bytesRead: number }) => void
}

async function createStaging(connection: Connection): Promise<void> {
  await connection.query(`
    create temp table staged_users (
      n integer not null, line bigint not null, email text, record text, raw bytea, problem text
    ) on commit drop`)
}

function parse(record: ReadRecord, ignored: IgnoredFields, resolver: Resolver): ParsedUser {
  if (record.error !== undefined) return { path: '', message: record.error }
  const parsed = parseUser(record.value, ignored)
  return 'user' in parsed ? (resolver.findRefused(parsed.user.queries ?? []) ?? parsed) : parsed
}

/** The e-mail of a record, even where the rest of it is bad. */
const emailOf = ({ value }: ReadRecord) => emailSchema.safeParse((value as { email?: unknown } | null)?.email).data

/** Makes `staged_users` and copies the records of `file` into it. Throws `failed` where the file is broken off. */
export async function stageUsers(
  connection: Connection,
  file: RecordFile,
  options: StageUsersOptions,
): Promise<StagedUsers> {
  await createStaging(connection)
  const ignored = new IgnoredFields()
  let staged = 0
  let format: RecordFormat = file.format ?? 'ndjson'
  await copyInto(connection, 'staged_users (n, line, email, record, raw, problem)', async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    for await (const page of readRecords(file, { ...options, signal })) {
      format = page.format
      if (page.header) throw new LeadpushError('failed', 'it is neither NDJSON nor a JSON array')
      for (const record of page.records) {
        const parsed = parse(record, ignored, options.resolver)
        const user: Partial<UserPatch> = 'user' in parsed ? parsed.user : {}
        const { email = emailOf(record), ...rest } = user
        rows.begin(6)
        rows.integer(++staged)
        rows.bigint(record.line)
        rows.text(email)
        rows.text('user' in parsed ? JSON.stringify(rest) : undefined)
        // only records without a key can still be rejected, and are then shown
        rows.bytea(rest.receiverApiKey === undefined ? onOneLine(record.raw) : undefined)
        rows.text('user' in parsed ? undefined : serialiseProblem(parsed))
        if (rows.isFull) await flush()
      }
      options.onRead({ records: staged, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
  })
  return { staged, ignored, format }
}
