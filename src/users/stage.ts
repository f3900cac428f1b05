/** The staging table of a users' import: reads the records of a file, refuses the bad ones, and copies the others in. */
import { LRUCache } from 'lru-cache'
import { copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import { LeadpushError } from '../errors.ts'
import { IgnoredFields } from '../leads/ignored-fields.ts'
import type { ImportOptions, OnRejected } from '../leads/import-each.ts'
import { type RecordFile, type RecordFormat, readRecords } from '../leads/read-records.ts'
import { onOneLine, type ReadRecord } from '../leads/record.ts'
import { type RefusedSearch, type ResolvedSearch, resolveSearch } from '../matching/search.ts'
import type { Places } from '../places/places.ts'
import { type Query, serialiseQuery } from './query.ts'
import { type ParsedUser, parseUser, type UserPatch } from './user.ts'

/** Together, of all that are remembered. */
const knownPlacesMax = 1_000_000

/** Resolves queries, and remembers the last ones: users ask for the same places. */
export class Resolver {
  readonly #places: Places
  readonly #known = new LRUCache<string, ResolvedSearch | RefusedSearch>({
    max: 5_000,
    maxSize: knownPlacesMax,
    sizeCalculation: (search) => 1 + ('places' in search ? (search.places?.length ?? 0) : 0),
  })

  constructor(places: Places) {
    this.#places = places
  }

  resolve(query: Query): ResolvedSearch | RefusedSearch {
    const key = serialiseQuery(query)
    const known = this.#known.get(key)
    if (known) return known
    const resolved = resolveSearch(this.#places, query)
    this.#known.set(key, resolved)
    return resolved
  }

  /** The first query that cannot match anything. */
  findRefused(queries: readonly Query[]): { path: string; message: string } | undefined {
    for (const [at, query] of queries.entries()) {
      // whether it is refused does not hang on the radius, and the places around are the dear part
      const search = this.resolve({ ...query, radius: 0 })
      if ('refused' in search) return { path: `queries[${at}].value`, message: search.refused }
    }
    return undefined
  }
}

export interface StagedUsers {
  staged: number
  rejected: number
  /** Records without a receiver key: good only if the user is known. */
  withoutKey: number
  ignored: IgnoredFields
  format: RecordFormat
}

export interface StageUsersOptions extends Pick<ImportOptions, 'signal' | 'stdin'> {
  resolver: Resolver
  onRejected: OnRejected
  onRead: (state: { records: number; bytesRead: number }) => void
}

async function createStaging(connection: Connection): Promise<void> {
  await connection.query(`
    create temp table staged_users (
      n integer not null, line bigint not null, email text not null, record text not null, raw bytea
    ) on commit drop`)
}

function parse(record: ReadRecord, ignored: IgnoredFields, resolver: Resolver): ParsedUser {
  if (record.error !== undefined) return { path: '', message: record.error }
  const parsed = parseUser(record.value, ignored)
  return 'user' in parsed ? (resolver.findRefused(parsed.user.queries ?? []) ?? parsed) : parsed
}

/** Copies the good records of `file` into `staged_users`, which it makes. Throws `failed` where the file is broken off. */
export async function stageUsers(
  connection: Connection,
  file: RecordFile,
  options: StageUsersOptions,
): Promise<StagedUsers> {
  await createStaging(connection)
  const ignored = new IgnoredFields()
  let [staged, rejected, withoutKey, records] = [0, 0, 0, 0]
  let format: RecordFormat = file.format ?? 'ndjson'
  await copyInto(connection, 'staged_users (n, line, email, record, raw)', async (rows, flush, broken) => {
    const signal = options.signal ? AbortSignal.any([options.signal, broken]) : broken
    for await (const page of readRecords(file, { ...options, signal })) {
      format = page.format
      if (page.header) throw new LeadpushError('failed', 'it is neither NDJSON nor a JSON array')
      for (const record of page.records) {
        const parsed = parse(record, ignored, options.resolver)
        if (!('user' in parsed)) {
          rejected++
          const { line } = record
          const raw = onOneLine(record.raw)
          await options.onRejected({ file: file.name, line, ...parsed, raw, format, header: undefined })
          continue
        }
        staged++
        const { email, ...rest }: UserPatch = parsed.user
        const hasKey = rest.receiverApiKey !== undefined
        if (!hasKey) withoutKey++
        rows.begin(5)
        rows.integer(staged)
        rows.bigint(record.line)
        rows.text(email)
        rows.text(JSON.stringify(rest))
        // only these can still be rejected, and are shown then
        rows.bytea(hasKey ? undefined : onOneLine(record.raw))
        if (rows.isFull) await flush()
      }
      records += page.records.length
      options.onRead({ records, bytesRead: page.bytesRead })
      options.signal?.throwIfAborted()
    }
  })
  return { staged, rejected, withoutKey, ignored, format }
}
