/**
 * `npm run bench:matching [-- --leads N --version 15 --url postgresql://…]`: how long a search takes among a million listings,
 * on a throw-away database, and whether it finds what a plain look at every listing finds. With `--url`, on a database that an
 * earlier run filled. With `--same-house` each search is timed once more where one listing of a house counts.
 */

import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import type { Live } from '../../src/matching/listed.ts'
import { findMatches, findNewestByPlace, type SearchToMatch } from '../../src/matching/match.ts'
import { mergeNewest } from '../../src/matching/newest.ts'
import { resolveSearch } from '../../src/matching/search.ts'
import { findPlaces, type Places } from '../../src/places/places.ts'
import { type ServerVersion, startServer, templateNames, withDatabase } from '../support/servers.ts'
import { fillListings, randomFrom } from './matching-data.ts'

interface Measured {
  name: string
  searches: SearchToMatch[]
  /** What the 95th percentile must stay below, where it must. */
  p95Ms?: number
}

const dayMs = 86_400_000
const regions = ['Austin, TX', 'New York, NY', 'Los Angeles, CA', 'Fargo, ND', 'Miami, FL']
const common = ['home', 'kitchen', 'house', 'pool', 'home kitchen', 'street']
const middling = ['basement', 'fireplace', 'waterfront', 'sauna', 'pool basement', 'house waterfront']
const rare = ['orchard', 'helipad', 'observatory', 'nowhere', 'sauna orchard']
/** Two states in one listing: each common, together nowhere. */
const apart = ['TX CA', 'NY FL', 'Texas California', 'New York Texas']
/** Common long ago, gone from the newest listings. */
const gone = ['foreclosure', 'foreclosure home', 'foreclosure pool', 'foreclosure TX']

function buildSearches(places: Places): Measured[] {
  const random = randomFrom(2)
  const codes = places.all.map(({ code }) => code).filter((code) => /^\d/.test(code))
  const zips = Array.from({ length: 60 }, () => codes[Math.floor(random() * codes.length)] as string)
  const busy = ['10001', '90012', '60601', '77002', '33101', '02108', '20001', '78704', '94103', '11201']
  const resolve = (type: 'zipcode' | 'text', value: string, radius: number): SearchToMatch => {
    const search = resolveSearch(places, { type, value, radius })
    if ('refused' in search) throw new Error(`${value}: ${search.refused}`)
    return search
  }
  const around = (radius: number) => [...zips, ...busy].map((zip) => resolve('zipcode', zip, radius))
  const texts = (values: string[]) => values.map((value) => resolve('text', value, 0))
  const both = (values: string[], radius: number) =>
    values.flatMap((value) => regions.map((region) => resolve('text', `${value} ${region}`, radius)))
  return [
    ...[0, 10].map((radius) => ({ name: `ZIP, ${radius} miles`, searches: around(radius) })),
    { name: 'ZIP, 25 miles', searches: around(25), p95Ms: 60 },
    ...[50, 100].map((radius) => ({ name: `ZIP, ${radius} miles`, searches: around(radius) })),
    { name: 'common words', searches: texts(common), p95Ms: 200 },
    { name: 'middling words', searches: texts(middling), p95Ms: 200 },
    { name: 'rare words', searches: texts(rare), p95Ms: 200 },
    { name: 'words that exclude each other', searches: texts(apart), p95Ms: 200 },
    { name: 'words of old listings alone', searches: texts(gone), p95Ms: 200 },
    { name: 'words and a place', searches: both([...common, ...middling, ...rare, 'foreclosure'], 0), p95Ms: 200 },
    { name: 'words and 25 miles', searches: both([...common, ...middling, ...rare, 'foreclosure'], 25), p95Ms: 200 },
    { name: 'words and 100 miles', searches: both([...common, ...middling, ...rare, 'foreclosure'], 100), p95Ms: 200 },
  ]
}

const percentile = (sorted: number[], share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? 0

async function timeSearches(opened: OpenDatabase, searches: SearchToMatch[], live: Live) {
  const times: number[] = []
  let slowest = ''
  for (let round = 0; round < 3; round += 1) {
    for (const search of searches) {
      const start = performance.now()
      const { ids: found } = await findMatches(opened.db, search, live)
      const ms = performance.now() - start
      if (round > 0 && ms > Math.max(0, ...times))
        slowest = `${search.words ?? ''} ${search.places?.length ?? ''} places, ${found.length} found`
      // the first round warms the cache
      if (round > 0) times.push(ms)
    }
  }
  times.sort((a, b) => a - b)
  return { p50: percentile(times, 0.5), p95: percentile(times, 0.95), max: times.at(-1) ?? 0, slowest }
}

/** Every listing looked at, by the plainest statement. */
async function lookAtAll(opened: OpenDatabase, { places, words }: SearchToMatch, { seenSince }: Live): Promise<string> {
  const { rows } = await sql<{ version_id: number }>`
    select version_id from leads join lead_seen on lead_id = id where seen_at >= ${seenSince}
      and (${places}::text[] is null or postal_key = any(${places}::text[]))
      and (${words}::text is null or search @@ plainto_tsquery('english', ${words}))
    order by version_id desc limit 300
  `.execute(opened.db)
  return rows.map((row) => row.version_id).join()
}

async function measure(opened: OpenDatabase, check: boolean, sameHouse: boolean): Promise<boolean> {
  const live: Live = { seenSince: new Date(Date.now() - 30 * dayMs), sameHouse: 'each' }
  const start = performance.now()
  const places = await findPlaces(opened.db)
  console.log(`places read in ${(performance.now() - start).toFixed(0)} ms`)
  let good = true
  for (const { name, searches, p95Ms } of buildSearches(places)) {
    const { p50, p95, max, slowest } = await timeSearches(opened, searches, live)
    const met = p95Ms === undefined || p95 < p95Ms
    good &&= met
    const show = (times: number[]) => times.map((ms) => ms.toFixed(1).padStart(7)).join(' ')
    const once = sameHouse && (await timeSearches(opened, searches, { ...live, sameHouse: 'once' }))
    const beside = once ? `   one of a house: ${show([once.p50, once.p95, once.max])}` : ''
    const verdict = met ? '' : `  above ${p95Ms}`
    console.log(`${name.padEnd(30)} p50, p95, max: ${show([p50, p95, max])} ms${verdict}${beside}   (${slowest})`)
    if (!check) continue
    for (const search of searches.slice(0, 6)) {
      const found = [...(await findMatches(opened.db, search, live)).ids].join()
      if (found === (await lookAtAll(opened, search, live))) continue
      good = false
      console.log(`  wrong: ${JSON.stringify(search).slice(0, 200)}`)
    }
  }
  await measureShare(opened, places, live)
  return good
}

/** What a push does for 1,000 users: the newest of all their places, and one merge a search. */
async function measureShare(opened: OpenDatabase, places: Places, live: Live): Promise<void> {
  const codes = places.all
    .map(({ code }) => code)
    .filter((code) => /^\d/.test(code))
    .sort()
  const searches = codes
    .slice(20_000, 21_000)
    .map((zip) => resolveSearch(places, { type: 'zipcode', value: zip, radius: 25 }))
  const keys = searches.map((search) => ('refused' in search ? [] : (search.places ?? [])))
  const distinct = [...new Set(keys.flat())]
  const start = performance.now()
  const newest = await findNewestByPlace(opened.db, distinct, live)
  const read = performance.now()
  let ids = 0
  for (const of of keys)
    ids += mergeNewest(
      of.flatMap((key) => newest.get(key)?.ids ?? []),
      300,
    ).length
  const merged = performance.now()
  console.log(
    `1,000 searches of 25 miles: ${distinct.length} places read in ${(read - start).toFixed(0)} ms, ${ids} ids merged in ${(merged - read).toFixed(0)} ms`,
  )
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      leads: { type: 'string', default: '1000000' },
      version: { type: 'string', default: '18' },
      url: { type: 'string' },
      check: { type: 'boolean', default: false },
      'same-house': { type: 'boolean', default: false },
    },
  })
  const server = values.url ? undefined : await startServer(Number(values.version) as ServerVersion)
  try {
    if (server) await createBench(server.url)
    const url = server ? withDatabase(server.url, 'bench') : (values.url ?? '')
    const opened = await openDatabase({ databaseUrl: url, home: '' })
    try {
      if (server) {
        console.log(`filling in ${values.leads} listings`)
        await fillListings(opened, await findPlaces(opened.db), Number(values.leads))
      }
      if (!(await measure(opened, values.check, values['same-house']))) process.exitCode = 1
    } finally {
      await opened.close()
    }
  } finally {
    await server?.leave()
  }
}

async function createBench(url: string): Promise<void> {
  const maintenance = await openDatabase({ databaseUrl: url, home: '' }, { schema: 'any' })
  try {
    await maintenance.pool.query(`create database bench template ${templateNames.all}`)
  } finally {
    await maintenance.close()
  }
}

await main()
