/**
 * Merges the staged records of one file into the listings: new, changed, or only seen again. It runs in the transaction of the
 * file; imports take turns, so that version ids rise in the order of commits.
 */
import { copyInto } from '../db/copy.ts'
import { locks } from '../db/locks.ts'
import type { Connection } from '../db/transaction.ts'
import { Lexemes, type Words } from '../matching/lexemes.ts'
import { changedWords, listingWords } from '../matching/words.ts'
import type { CityKeys } from '../places/city-keys.ts'
import { postalKeyOf } from '../places/postal-key.ts'
import { countUnnamed } from '../records/named-in-raw.ts'
import { missing, type RejectOptions, rejectFound, rejectStaged, type StagedReject } from '../records/staged-rejects.ts'
import { contactColumns } from './contacts.ts'
import { dropErased, findHitsAmong } from './erasures.ts'
import { houseKey } from './house.ts'
import { type Lead, mergeLead, priceField, readLead, requiredFields, serialiseKept, serialiseLead } from './lead.ts'
import { decidedFields, findSourceId, noteNamedListings, notePresent, noteRejected } from './sources.ts'
import { type MergedRecord, mergedLeads } from './staged-leads.ts'
import { dropErasedUnread } from './unread-contacts.ts'

/** What became of the records of one file; each record counts once. */
export interface MergeCounts {
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
  /** Kept out, since they were erased. */
  erased: number
}

export interface MergeOptions {
  /** As the row of `imports` is to name it. */
  file: string
  staged: number
  /** Counts what would become of the records; the caller rolls the rest back. */
  isDryRun?: boolean | undefined
  hasUnread: boolean
  onRejected: RejectOptions['onRejected']
  /** The name of the source whose listings the file has: they are noted. */
  source: string | undefined
  /** Of a complete import: takes the number of rejected records that name no listing, a page of them at a time. */
  onUnnamed?: ((count: number) => void) | undefined
  cityKeys: CityKeys
}

/** The changed listings whose JSON is taken into the process at a time, in bytes of JSON. */
const bucketBytes = 512 * 1024

async function run(connection: Connection, statement: string, values: unknown[] = []): Promise<number> {
  const { rowCount } = await connection.query(statement, values)
  return rowCount ?? 0
}

/** SQL over `staged_leads s`: a new listing needs a postal code (contract 4.10). */
const isUnknown = 's.postal_key is null and not exists (select from leads l where l.href_sha256 = s.href_sha256)'

/** SQL over `staged_leads`: a record that `--where` does not take, and that stands after the record `n`. */
const isFiltered = 'given is null and problem is null'

/**
 * Of records with one `href` the last counts, also where `--where` does not take it. Deletes the earlier ones that are good, and returns
 * their number.
 */
async function dropRepeated(connection: Connection): Promise<number> {
  const repeated = await run(
    connection,
    `delete from staged_leads s using (
       select href_sha256, max(n) filter (where not (${isFiltered})) as n, max(n) filter (where ${isFiltered}) as filtered
       from staged_leads group by href_sha256 having count(*) > 1
     ) last
     where s.href_sha256 = last.href_sha256 and (s.n < last.n or s.n <= last.filtered) and s.given is not null`,
  )
  await run(connection, `delete from staged_leads where ${isFiltered}`)
  return repeated
}

/**
 * Which listing each record is of: `version_id` is null where it is new, `same` where nothing has changed; and whether its postal
 * code, if it has one, is in a table (`placed`).
 */
async function match(connection: Connection): Promise<void> {
  await run(
    connection,
    `insert into matched_leads
     -- looked up once, not for each row
     select s.n, coalesce(l.id, nextval((select pg_get_serial_sequence('leads', 'id')::regclass))), l.version_id,
       coalesce(l.json_sha256 = s.json_sha256, false), bit_count((s.given & ~ ${requiredFields})::bit(32)),
       s.given,
       s.postal_key is null or s.postal_key in (select code from postal_codes)
     from staged_leads s left join leads l on l.href_sha256 = s.href_sha256
     -- ids rise with the place in the file: of a house the lowest was imported first
     order by s.n`,
  )
  await run(connection, 'analyze matched_leads')
}

interface ChangedRow {
  n: number
  lead_id: number
  version_id: number | null
  given: number
  later: string
  later_kept: string | null
  /** Null where the listing is new. */
  current: string | null
  current_kept: string | null
  /** The fields that sources know which had the listing before this one. */
  decided: number
}

/**
 * Takes changed records, and new ones whose words were not staged, through the process, in buckets: applies the null rule, and
 * finds the words to search. `merged_leads` then holds what they bring; the JSON of a new one stays in `staged_leads`.
 */
async function mergeChanged(
  connection: Connection,
  { cityKeys, source }: Pick<MergeOptions, 'cityKeys' | 'source'>,
): Promise<void> {
  const changed = await run(
    connection,
    `insert into changed_leads
     select sum(octet_length(s.json)) over (order by s.n) / ${bucketBytes}, s.ctid, s.n, m.lead_id, m.version_id
     from matched_leads m join staged_leads s on s.n = m.n
     where not m.same and (m.version_id is not null or s.search is null)`,
  )
  if (changed === 0) return
  await run(connection, 'analyze changed_leads')
  const buckets = await connection.query<{ bucket: number }>(
    'select distinct bucket from changed_leads order by bucket',
  )
  const lexemes = new Lexemes(connection)
  const sourceId = await findSourceId(connection, source)
  for (const { bucket } of buckets.rows) {
    const { rows } = await connection.query<ChangedRow>(
      `select c.n, c.lead_id, c.version_id, s.given, s.json as later, s.kept as later_kept, v.json as current, v.kept as current_kept,
         coalesce((${decidedFields('c.lead_id', '$2')}), 0) as decided
       from changed_leads c join staged_leads s on s.ctid = c.staged left join lead_versions v on v.id = c.version_id
       where c.bucket = $1 order by c.n`,
      [bucket, sourceId],
    )
    await writeMerged(connection, rows, { lexemes, cityKeys })
  }
  await run(connection, 'analyze merged_leads')
}

/** A record but for what its words bring: undefined words have not changed. */
interface Merged {
  record: MergedRecord
  words: Words | undefined
}

/** Undefined where the record brings nothing new. */
function mergeRow(row: ChangedRow, lexemes: Lexemes, cityKeys: CityKeys): Merged | undefined {
  const later = readLead({ json: row.later, kept: row.later_kept })
  const keysOf = (lead: Lead) => ({ postalKey: postalKeyOf(lead), cityKey: cityKeys.find(lead), house: houseKey(lead) })
  const origin = { n: row.n, leadId: row.lead_id, versionId: row.version_id ?? undefined }
  if (row.current === null)
    return { record: { ...origin, ...keysOf(later) }, words: lexemes.wordsOf(listingWords(later)) }
  const current = readLead({ json: row.current, kept: row.current_kept })
  const lead = mergeLead(current, later, row.given & ~row.decided)
  const [json, kept] = [serialiseLead(lead), serialiseKept(lead)]
  if (json === row.current && (kept ?? null) === row.current_kept) return undefined
  const words = changedWords(lead, current)
  const prices = lead.price === current.price ? undefined : { previous: current.price, now: lead.price }
  return {
    record: { ...origin, lead, json, kept, prices, ...keysOf(lead) },
    words: words === undefined ? undefined : lexemes.wordsOf(words),
  }
}

async function writeMerged(
  connection: Connection,
  changed: readonly ChangedRow[],
  { lexemes, cityKeys }: { lexemes: Lexemes; cityKeys: CityKeys },
): Promise<void> {
  lexemes.trim()
  const merged = changed.map((row) => mergeRow(row, lexemes, cityKeys))
  await lexemes.learn()
  await copyInto(connection, mergedLeads.target, async (rows, flush) => {
    for (const one of merged) {
      if (!one) continue
      if (one.words) one.record.lexemes = lexemes.lexemesOf(one.words)
      mergedLeads.add(rows, one.record)
      if (rows.isFull) await flush()
    }
  })
}

/** The later in the file, the lower its version: `$1` is the last id before this import, `$2` the number of its records. */
const versionId = (n: string) => `$1::bigint + $2::bigint + 1 - ${n}`

async function insertNew(connection: Connection, base: number, staged: number, importId: number): Promise<number> {
  const inserted = await run(
    connection,
    `insert into leads (id, href_sha256, postal_key, version_id, json_sha256, first_import_id, search, house, city_key)
     overriding system value
     select m.lead_id, s.href_sha256, s.postal_key, ${versionId('s.n')}, s.json_sha256, $3,
       coalesce(s.search, g.search), coalesce(s.house, g.house), coalesce(s.city_key, g.city_key)
     from staged_leads s join matched_leads m on m.n = s.n left join merged_leads g on g.n = s.n where m.version_id is null`,
    [base, staged, importId],
  )
  if (inserted === 0) return 0
  await run(
    connection,
    `insert into lead_versions (id, lead_id, json, kept, ${contactColumns.join(', ')})
     select ${versionId('s.n')}, m.lead_id, s.json, s.kept, ${contactColumns.map((name) => `s.${name}`).join(', ')}
     from staged_leads s join matched_leads m on m.n = s.n where m.version_id is null`,
    [base, staged],
  )
  return inserted
}

async function updateChanged(
  connection: Connection,
  base: number,
  staged: number,
  { id, at }: { id: number; at: string },
): Promise<number> {
  const updated = await run(
    connection,
    `insert into lead_versions (id, lead_id, json, kept, ${contactColumns.join(', ')})
     select ${versionId('n')}, lead_id, json, kept, ${contactColumns.join(', ')} from merged_leads
     where version_id is not null`,
    [base, staged],
  )
  if (updated === 0) return 0
  await run(
    connection,
    `insert into lead_events (version_id, import_id, lead_id, kind, payload)
     select ${versionId('n')}, $3, m.lead_id, 'price_change', jsonb_build_object(
       'previousPrice', case when previous_price > 0 or s.price_known then previous_price end, 'price', price)
     from merged_leads m join lead_seen s on s.lead_id = m.lead_id where price is not null`,
    [base, staged, id],
  )
  await run(connection, 'update lead_versions v set superseded_at = $1 from merged_leads m where v.id = m.version_id', [
    at,
  ])
  await run(
    connection,
    `update leads l set version_id = ${versionId('m.n')}, json_sha256 = m.json_sha256,
       postal_key = m.postal_key, city_key = m.city_key,
       search = coalesce(m.search, l.search), house = m.house
     from merged_leads m where m.version_id is not null and l.id = m.lead_id`,
    [base, staged],
  )
  return updated
}

/** How many listings are new, and how many change. */
async function countMerged(connection: Connection): Promise<{ inserted: number; updated: number }> {
  const { rows } = await connection.query<{ inserted: number; updated: number }>(
    `select (select count(*) from matched_leads where version_id is null)::integer as inserted,
       (select count(version_id) from merged_leads)::integer as updated`,
  )
  return rows[0] as { inserted: number; updated: number }
}

/** Records when each listing was seen, changed or not (contract 4.3), how many fields its record filled, and that it had a price. */
async function touchSeen(connection: Connection, at: string): Promise<number> {
  await run(
    connection,
    `insert into lead_seen (lead_id, seen_at, filled, price_known)
     select lead_id, $1, filled, given & ${priceField} <> 0 from matched_leads where version_id is null`,
    [at],
  )
  return run(
    connection,
    `update lead_seen l set seen_at = $1, filled = m.filled, price_known = l.price_known or m.given & ${priceField} <> 0
     from matched_leads m where m.version_id is not null and l.lead_id = m.lead_id`,
    [at],
  )
}

/**
 * Merges `staged_leads`, and writes the row of `imports`. Other imports wait from here to the end of the transaction; readers
 * never wait.
 */
export async function mergeLeads(connection: Connection, options: MergeOptions): Promise<MergeCounts> {
  // how many rows have what is all that plans need: a tenth of the usual sample tells it
  await run(connection, `set local work_mem = '64MB'; set local default_statistics_target = 10`)
  await run(connection, 'analyze staged_leads (n, href_sha256, postal_key, problem)')
  const { staged, onRejected, onUnnamed } = options
  const onPage =
    onUnnamed &&
    (async (page: readonly StagedReject[]) =>
      onUnnamed(await countUnnamed(page, 'url', (hrefs) => noteNamedListings(connection, hrefs))))
  const reject = { table: 'staged_leads', key: 'href_sha256', onRejected, onPage }
  const repeated = await dropRepeated(connection)
  const findErased = (rejects: readonly { raw: Buffer }[]) => findHitsAmong(connection, rejects)
  if (options.source !== undefined) await noteRejected(connection)
  // records that are bad by themselves can be rejected before the lock
  const bad = await rejectStaged(connection, { ...reject, findErased })
  await run(connection, 'select pg_advisory_xact_lock($1)', [locks.leadsImport])
  // read under the lock: times and ids then rise in the order of the commits
  const start = await connection.query<{ at: string; base: number; id: number }>(
    `with started as (
       insert into imports (file, base_version_id)
       select $1, last_value - (not is_called)::integer from lead_version_ids returning id, base_version_id
     )
     select clock_timestamp()::text as at, id, base_version_id as base from started`,
    [options.file],
  )
  const { at, base, id } = start.rows[0] as { at: string; base: number; id: number }
  // no rollback takes a sequence back
  if (staged > 0 && !options.isDryRun) await run(connection, `select setval('lead_version_ids', $1)`, [base + staged])

  // comes before `rejectFound`, which prints and keeps what it rejects
  const erasedUnread = options.hasUnread ? await dropErasedUnread(connection) : 0
  const erased = bad.hidden + erasedUnread + (await dropErased(connection))
  const noPlace = { path: 'postalCode', message: missing }
  const rejected = bad.rejected + (await rejectFound(connection, isUnknown, noPlace, reject))
  await match(connection)
  if (options.source !== undefined) await notePresent(connection, options.source)
  await mergeChanged(connection, options)
  if (options.isDryRun) {
    const { inserted, updated } = await countMerged(connection)
    const unchanged = staged - erased - rejected - repeated - inserted - updated
    return { inserted, updated, unchanged, rejected, repeated, erased }
  }
  const inserted = await insertNew(connection, base, staged, id)
  const updated = await updateChanged(connection, base, staged, { id, at })
  await touchSeen(connection, at)
  const unchanged = staged - erased - rejected - repeated - inserted - updated

  await run(
    connection,
    `update imports set records = $2, inserted = $3, updated = $4, unchanged = $5, rejected = $6, repeated = $7, erased = $8,
       filled_fields = (select coalesce(sum(bit_count(given::bit(32))), 0) from staged_leads)
     where id = $1`,
    [id, staged, inserted, updated, unchanged, rejected, repeated, erased],
  )
  return { inserted, updated, unchanged, rejected, repeated, erased }
}
