/**
 * The newest leads that a search matches, as version ids that fall (contract 4.3, 4.9): for one search, or for many places
 * at once, whose lists the process merges. Words are looked up in stretches of ids, from the newest back, so that a common word
 * costs little more than a rare one, whether it is common now or was long ago.
 */
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { codeOf, LeadpushError } from '../base/errors.ts'
import { leadsPerQueryMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'
import { blockStart, blocksBetween } from './blocks.ts'
import { liesIn, type PlaceColumn, splitPlaces } from './lies-in.ts'
import { findCounted, isListed, type Live } from './listed.ts'
import { mergeOverlapping, type Newest, noIds, readIds } from './newest.ts'

/** The columns of `searches` that say what it matches. */
export interface SearchToMatch {
  kind: 'place' | 'words' | 'both'
  places: string[] | null
  words: string | null
}

/** Shorter than the limit for a silent database, so that a slow search is not taken for one. */
export const statementMsMax = 20_000
/** The first stretch holds so many leads; each later one spans four times the ids of the one before. */
const firstStretchLeads = 8_000
const stretchGrowth = 4
/** The leads of a region that has fewer are looked at one by one, however rare the words are. */
const fewLeads = 1_000
/** With no more matches than this the rest is read at once; the limit depends on whether the newest stretch had a match. */
const matchesAtOnce = { withNone: 15_000, withSome: 2_000 }

/**
 * Runs `work` with settings that leave the planner only the measured plans: these statements read little, and must not scan
 * whole tables or be compiled.
 */
function withSettings<T>(
  db: Database,
  work: (transaction: Transaction<Tables>) => Promise<T>,
  msMax = statementMsMax,
): Promise<T> {
  // one view of the listings for all statements: an import may be committed meanwhile
  const transactions = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only')
  return transactions.execute(async (transaction) => {
    await sql`
      select set_config(name, value, true) from (values ('statement_timeout', ${String(msMax)}), ('jit', 'off'),
        ('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
        ('max_parallel_workers_per_gather', '0')) as settings (name, value)
    `.execute(transaction)
    return work(transaction).catch((error) => {
      throw codeOf(error) === '57014' ? tooSlow(error, msMax) : error
    })
  })
}

/** The error for a statement that exceeds the limit of `withSettings`. */
const tooSlow = (cause: unknown, msMax: number) =>
  new LeadpushError('failed', `The database took longer than ${msMax / 1_000} s to look up what a query matches.`, {
    hint: 'Run it again when the database is less busy. A text of fewer and rarer words, or with a place, takes less.',
    cause,
  })

/** Whether a look-up ended because it took too long. */
export const isTooSlow = (error: unknown) =>
  error instanceof LeadpushError && error.code === 'failed' && codeOf(error.cause) === '57014'

/** What `selectNewest` reads of each listing. */
const columnsOf = ({ sameHouse }: Live, lead: RawBuilder<unknown>) =>
  sameHouse === 'once' ? sql`${lead}.id, ${lead}.version_id, ${lead}.house` : sql`${lead}.version_id`

/**
 * SQL: `ids`, the newest `limit` of `listings`, rows with the columns of `columnsOf`; and `left_out`, those newer than the last of these
 * that do not count for another of their house, which `matches` the search too. Only the newest `candidatesMax` are looked at.
 */
const selectNewest = (
  live: Live,
  listings: RawBuilder<unknown>,
  limit: number,
  candidatesMax: number | null,
  matches?: RawBuilder<boolean>,
): RawBuilder<NewestRow> =>
  live.sameHouse === 'each'
    ? sql`
        select string_agg(version_id::text, ',' order by version_id desc) as ids, null as left_out, 0 as candidates from (
          ${listings} order by version_id desc limit ${limit}
        ) n`
    : sql`
        select string_agg(version_id::text, ',' order by version_id desc) filter (where counts and place <= ${limit}) as ids,
          string_agg(version_id::text, ',' order by version_id desc) filter (where not counts and place < ${limit}) as left_out,
          count(*)::integer as candidates
        from (
          select version_id, counts,
            count(*) filter (where counts) over (order by version_id desc rows unbounded preceding) as place
          from (
            select listing.version_id, ${findCounted(sql`listing`, live.seenSince, matches)} is null as counts
            from (${listings} order by version_id desc limit ${candidatesMax}) listing
          ) c
        ) n`

interface NewestRow {
  ids: string | null
  left_out: string | null
  candidates: number
}

/** Few listings are of one house: so many of the newest nearly always hold enough that count. */
const enoughFor = (limit: number) => 2 * limit + 50

/** Whether more than `enoughFor` must be looked at. */
const lacks = ({ ids }: Newest, limit: number, candidates: number) =>
  ids.length < limit && candidates >= enoughFor(limit)

/** `listingsOf` gives the rows for `selectNewest`, where only the newest `most` are looked at. */
async function findNewest(
  db: Transaction<Tables>,
  live: Live,
  listingsOf: (most: number | null) => RawBuilder<unknown>,
  limit: number,
  matches?: RawBuilder<boolean>,
): Promise<Newest> {
  const find = async (most: number | null) =>
    (await selectNewest(live, listingsOf(most), limit, most, matches).execute(db)).rows[0]
  const first = await find(live.sameHouse === 'each' ? limit : enoughFor(limit))
  const newest = readNewest(first)
  return lacks(newest, limit, first?.candidates ?? 0) ? readNewest(await find(null)) : newest
}

const readNewest = (
  { ids, left_out }: Pick<NewestRow, 'ids' | 'left_out'> = { ids: null, left_out: null },
): Newest => ({
  ids: readIds(ids),
  leftOut: readIds(left_out),
})

/** SQL: the live listings of the place `p`. */
const selectOfPlace = (live: Live, column: PlaceColumn) => sql`
  select ${columnsOf(live, sql`l`)} from leads l join lead_seen s on s.lead_id = l.id
  where l.${sql.ref(column)} = p.place and ${isListed(sql`s`, live.seenSince)}`

/** Listings of one house have one postal key, but not always one city key. */
const otherIsThere = (column: PlaceColumn) =>
  column === 'city_key' ? sql<boolean>`other.city_key = p.place` : undefined

/** Maps each place to its newest 300 leads; a place without leads is left out. Throws `failed` when a statement takes longer than `msMax`. */
export function findNewestByPlace(
  db: Database,
  places: readonly string[],
  live: Live,
  msMax: number = statementMsMax,
): Promise<Map<string, Newest>> {
  const limit = leadsPerQueryMax
  return withSettings(
    db,
    async (transaction) => {
      const found = new Map<string, Newest>()
      for (const { column, keys } of splitPlaces([...new Set(places)])) {
        const listings = selectOfPlace(live, column)
        const find = (some: readonly string[], candidatesMax: number | null) =>
          sql<NewestRow & { place: string }>`
          select p.place, newest.ids, newest.left_out, newest.candidates from unnest(${some}::text[]) as p (place)
          cross join lateral (${selectNewest(live, listings, limit, candidatesMax, otherIsThere(column))}) newest
          where newest.ids is not null
        `.execute(transaction)
        const { rows } = await find(keys, enoughFor(limit))
        for (const row of rows) found.set(row.place, readNewest(row))
        const lacking = rows.filter(({ place, candidates }) => lacks(found.get(place) as Newest, limit, candidates))
        if (lacking.length > 0) {
          const all = await find(lacking.map(({ place }) => place), null) // biome-ignore format: one line
          for (const row of all.rows) found.set(row.place, readNewest(row))
        }
      }
      return found
    },
    msMax,
  )
}

/** SQL: the leads of all places, each once, with `columns`. `union` would read all of them to find those that lie in two: few have a city key. */
const selectInPlaces = (places: readonly string[], columns: RawBuilder<unknown>) => {
  const postalKeys = splitPlaces(places)[0]?.keys ?? []
  const ofColumns = splitPlaces(places).map(({ column, keys }) => {
    const isElsewhere =
      column === 'city_key' ? sql`where not coalesce(l.postal_key = any (${postalKeys}::text[]), false)` : sql``
    return sql`select ${columns} from unnest(${keys}::text[]) as p (place)
      join leads l on l.${sql.ref(column)} = p.place ${isElsewhere}`
  })
  return sql.join(ofColumns, sql` union all `)
}

/** The newest of the places' leads. Their age is looked up for the newest alone, unless too many of these are too old. */
async function findInPlaces(
  db: Transaction<Tables>,
  places: readonly string[],
  live: Live,
  limit: number,
): Promise<Newest> {
  const found: Newest[] = []
  for (const { column, keys } of splitPlaces(places)) found.push(await findInColumn(db, column, keys, live, limit))
  return mergeOverlapping(found, limit)
}

async function findInColumn(
  db: Transaction<Tables>,
  column: PlaceColumn,
  keys: readonly string[],
  live: Live,
  limit: number,
): Promise<Newest> {
  const candidatesMax = 2 * limit
  if (live.sameHouse === 'each') {
    const { rows } = await sql<{ candidates: number; ids: string | null }>`
      select count(*)::integer as candidates,
        string_agg(version_id::text, ',' order by version_id desc) filter (where is_listed) as ids
      from (
        select c.version_id, ${isListed(sql`s`, live.seenSince)} as is_listed from (
          select l.id, l.version_id from unnest(${keys}::text[]) as p (place) cross join lateral (
            select id, version_id from leads where ${sql.ref(column)} = p.place order by version_id desc limit ${candidatesMax}
          ) l order by l.version_id desc limit ${candidatesMax}
        ) c join lead_seen s on s.lead_id = c.id
      ) n
    `.execute(db)
    const { candidates = 0, ids = null } = rows[0] ?? {}
    const found = readIds(ids)
    if (candidates < candidatesMax || found.length >= limit) return { ids: found.subarray(0, limit), leftOut: noIds }
  }
  const newestOfEach = (most: number | null) => sql`
    select ${columnsOf(live, sql`l`)} from unnest(${keys}::text[]) as p (place)
    cross join lateral (${selectOfPlace(live, column)} order by l.version_id desc limit ${most}) l`
  return await findNewest(db, live, newestOfEach, limit, column === 'city_key' ? liesIn(sql`other`, keys) : undefined)
}

/** How many leads the places have, up to `max` of them. */
async function countInPlaces(db: Transaction<Tables>, places: readonly string[], max: number): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer as count from (select from (${selectInPlaces(places, sql`l.id`)}) l limit ${max}) n
  `.execute(db)
  return rows[0]?.count ?? 0
}

/** SQL: whether the column `search`, that of a lead, has all the words. */
export const hasWords = (words: string | RawBuilder<string>) =>
  sql<boolean>`search @@ plainto_tsquery('english'::regconfig, ${words})`

/** The leads on so many blocks, some hundreds, tell how common words are. PostgreSQL has no statistics of them: those would keep contacts. */
const sampledBlocks = 40

/** About how many leads have the words, of any age. Of rare words a sample says none. */
async function estimateByWords(db: Transaction<Tables>, words: string): Promise<number> {
  const { rows } = await sql<{ estimate: number }>`
    with size as (select greatest(${sampledBlocks}, pg_relation_size('leads') / current_setting('block_size')::float8) as blocks)
    select (count(*) * (select blocks from size) / ${sampledBlocks})::integer as estimate
    from leads tablesample system ((select 100 * ${sampledBlocks} / blocks from size)) repeatable (0) where ${hasWords(words)}
  `.execute(db)
  return rows[0]?.estimate ?? 0
}

/** SQL: whether the listing of the same house has the words too, and a city key of the search if that has any. */
const otherMatches = (words: string, places: readonly string[] | null) =>
  places !== null && splitPlaces(places).length > 1
    ? sql<boolean>`(other.${hasWords(words)} and ${liesIn(sql`other`, places)})`
    : sql<boolean>`other.${hasWords(words)}`

/** The places' leads from the newest back, each looked at for the words, until there are enough. */
async function findInPlacesByWords(
  db: Transaction<Tables>,
  places: readonly string[],
  words: string,
  live: Live,
  limit: number,
): Promise<Newest> {
  const listings = sql`
    select ${columnsOf(live, sql`p`)} from (
      select * from (${selectInPlaces(places, live.sameHouse === 'once' ? sql`l.house, l.id, l.version_id` : sql`l.id, l.version_id`)}) l
      order by version_id desc offset 0
    ) p join lateral (
      -- fenced in: the planner would otherwise look the words up for every lead
      select search from leads where id = p.id offset 0
    ) l on ${hasWords(words)} join lead_seen s on s.lead_id = p.id
    where ${isListed(sql`s`, live.seenSince)}`
  return await findNewest(db, live, () => listings, limit, otherMatches(words, places))
}

interface Ends {
  first: number | null
  last: number | null
  stretch: number | null
}

/** Finds leads by the index of words, in stretches of ids from the newest back; `places` narrows the search. */
async function findByWords(
  db: Transaction<Tables>,
  words: string,
  estimate: number,
  places: readonly string[] | null,
  live: Live,
  limit: number,
): Promise<Newest> {
  const ends = await sql<Ends>`
    select (select min(version_id) from leads) as first, (select max(version_id) from leads) as last,
      (select version_id from leads order by version_id desc offset ${firstStretchLeads} limit 1) as stretch
  `.execute(db)
  const { first, last, stretch } = ends.rows[0] ?? {}
  if (first == null || last == null) return { ids: noIds, leftOut: noIds }

  const bottom = blockStart(first)
  const found: number[] = []
  const leftOut: number[] = []
  const house = live.sameHouse === 'once' ? sql`, house` : sql``
  let to = blockStart(last) + blockStart(2 ** 12)
  let span = to - blockStart(stretch ?? first)
  while (to > bottom && found.length < limit) {
    const from = Math.max(bottom, to - span)
    const inPlaces = places ? sql`where ${liesIn(sql`w`, places)}` : sql``
    const listings = sql`
      select ${columnsOf(live, sql`m`)} from (
        select id, version_id ${house} from (
          -- fenced in: the index of words alone is to answer this
          select id, version_id, postal_key, city_key ${house} from leads
          where ${hasWords(words)} and version_blocks(version_id) && ${blocksBetween(from, to)}::bigint[] offset 0
        ) w ${inPlaces} order by version_id desc offset 0
      ) m join lead_seen s on s.lead_id = m.id
      where ${isListed(sql`s`, live.seenSince)}`
    const newest = await findNewest(db, live, () => listings, limit - found.length, otherMatches(words, places))
    found.push(...newest.ids)
    leftOut.push(...newest.leftOut)
    to = from
    const atOnce = estimate <= (found.length === 0 ? matchesAtOnce.withNone : matchesAtOnce.withSome)
    span = atOnce ? Number.POSITIVE_INFINITY : span * stretchGrowth
  }
  return { ids: Float64Array.from(found), leftOut: Float64Array.from(leftOut) }
}

/** The newest `limit` leads that match and are live. Throws `failed` when a statement takes longer than `msMax`. */
export function findMatches(
  db: Database,
  search: SearchToMatch,
  live: Live,
  limit: number = leadsPerQueryMax,
  msMax: number = statementMsMax,
): Promise<Newest> {
  const { places, words } = search
  const find = async (transaction: Transaction<Tables>) => {
    if (words === null) return findInPlaces(transaction, places ?? [], live, limit)
    const estimate = await estimateByWords(transaction, words)
    if (places === null) return findByWords(transaction, words, estimate, null, live, limit)
    // begin with the rarer of places and words: no more leads are read than it has, and fewer where both are common
    const enough = Math.max(fewLeads, estimate)
    const count = await countInPlaces(transaction, places, enough)
    return count < enough
      ? findInPlacesByWords(transaction, places, words, live, limit)
      : findByWords(transaction, words, estimate, places, live, limit)
  }
  return withSettings(db, find, msMax)
}

/** How many live listings there are beside the first of their house (contract 4.20). */
export async function countLeftOut(db: Database, { seenSince }: Live): Promise<number> {
  const { rows } = await sql<{ n: number }>`
    select coalesce(sum(listings - 1), 0)::bigint as n from (
      select count(*) as listings from leads l join lead_seen s on s.lead_id = l.id
      where l.house is not null and ${isListed(sql`s`, seenSince)} group by l.house
    ) h
  `.execute(db)
  return rows[0]?.n ?? 0
}
