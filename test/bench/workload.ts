/**
 * What the benchmark of the push works on: made-up listings and users that gather in real towns, as people do. The same seed
 * makes the same. A user has two queries around their town, often those of a neighbour; a body comes to some 350 KB.
 */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { copyInto } from '../../src/db/copy.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { type LeadPatch, leadFields, serialiseLead } from '../../src/leads/lead.ts'
import { findCodesWithin, findPlaces, type PostalCode } from '../../src/places/places.ts'
import { importUsers } from '../../src/users/import.ts'
import { randomFrom } from './matching-data.ts'

const townCount = 120
/** How far from its middle a town's listings and users are. */
const townMiles = 12
const radii = [10, 15, 25] as const

const words =
  'house pool garden kitchen roof school quiet street large sunny bedroom bathroom garage basement fireplace lake view modern oak floor yard fence deck patio park highway downtown owner sale price cash inspection new original charming open plan master suite closet laundry solar water acre lot corner family gym beach river woods trail barn'.split(
    ' ',
  )

interface Town {
  codes: readonly string[]
  /** Share of all that live there: the largest has some twenty times the smallest's. */
  weight: number
}

async function findTowns(opened: OpenDatabase, random: () => number): Promise<Town[]> {
  const places = await findPlaces(opened.db)
  const codes = places.byLatitude.filter(({ code }) => /^\d/.test(code))
  const towns: Town[] = []
  while (towns.length < townCount) {
    const centre = codes[Math.floor(random() * codes.length)] as PostalCode
    const around = findCodesWithin(places, centre, townMiles).filter((code) => /^\d/.test(code))
    if (around.length >= 8) towns.push({ codes: around, weight: 1 / (towns.length + 6) })
  }
  return towns
}

function pickTown(towns: readonly Town[], random: () => number): Town {
  let left = random() * towns.reduce((sum, { weight }) => sum + weight, 0)
  for (const town of towns) {
    left -= town.weight
    if (left < 0) return town
  }
  return towns[0] as Town
}

const pick = <T>(list: readonly T[], random: () => number): T => list[Math.floor(random() * list.length)] as T

function buildListing(
  at: number,
  towns: readonly Town[],
  random: () => number,
  small: boolean,
): LeadPatch & { postalCode: string } {
  // 200 to 800 characters
  const length = small ? 20 : 200 + random() * 600
  let description = ''
  while (description.length < length) description += `${pick(words, random)} `
  const code = pick(pickTown(towns, random).codes, random)
  return {
    href: `https://listings.example/fsbo/${code}/${at}`,
    postalCode: code,
    price: 100_000 + Math.floor(random() * 900_000),
    sqft: 600 + Math.floor(random() * 3_000),
    bedrooms: 1 + Math.floor(random() * 5),
    bathrooms: 1 + Math.floor(random() * 3),
    yearBuilt: 1920 + Math.floor(random() * 100),
    description: description.trimEnd(),
    propertyType: 'single family',
    contactName: 'Owner',
    contactPhone: '202-555-0100',
    contactEmail: `owner-${at}@example.com`,
    fullAddress: `${at} Main Street, ${code}`,
    address: `${at} Main Street`,
    country: 'US',
  }
}

function* lines(count: number, build: (at: number) => object): Generator<string> {
  for (let at = 0; at < count; at++) yield `${JSON.stringify(build(at))}\n`
}

/**
 * As an import leaves them, but for the index of words, which takes nearly all of an import's time, and which no query here
 * asks.
 */
async function fillListings(
  opened: OpenDatabase,
  count: number,
  build: (at: number) => LeadPatch & { postalCode: string },
) {
  await withTransaction(opened, async (connection) => {
    await connection.query('create temp table filling (n bigint, href bytea, place text, json text) on commit drop')
    await copyInto(connection, 'filling (n, href, place, json)', async (rows, flush) => {
      for (let at = 0; at < count; at++) {
        const listing = build(at)
        rows.begin(4)
        rows.bigint(at + 1)
        rows.bytea(
          createHash('sha256')
            .update(listing.href ?? '')
            .digest(),
        )
        rows.text(listing.postalCode)
        rows.text(serialiseLead(listing))
        if (rows.isFull) await flush()
      }
    })
    await connection.query(`insert into imports (file, records) values ('benchmark', $1)`, [count])
    await connection.query(`
      insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search)
      select href, place, n, sha256(convert_to(json, 'UTF8')), (select max(id) from imports), '' from filling order by n`)
    await connection.query(`
      insert into lead_versions (id, lead_id, json)
      select n, l.id, json from filling join leads l on l.version_id = n order by n`)
    await connection.query('insert into lead_seen (lead_id, seen_at) select id, now() from leads')
    await connection.query(`select setval('lead_version_ids', $1)`, [count])
  })
}

/** Fills an empty, migrated database. `small`: descriptions of 20 characters, and a radius of 5 miles. */
export async function fill(
  opened: OpenDatabase,
  { users, listings, small = false }: { users: number; listings: number; small?: boolean },
): Promise<void> {
  const random = randomFrom(11)
  const towns = await findTowns(opened, random)
  await fillListings(opened, listings, (at) => buildListing(at, towns, random, small))
  const people = lines(users, (at) => {
    const { codes } = pickTown(towns, random)
    // three in ten ask for the middle of their town, as their neighbours do
    const home = random() < 0.3 ? (codes[0] as string) : pick(codes, random)
    const radius = small ? 5 : pick(radii, random)
    return {
      email: `user-${at}@example.com`,
      receiverApiKey: `key-${at}`,
      queries: [
        { type: 'zipcode', value: home, radius },
        { type: 'zipcode', value: pick(codes, random), radius: radius / 2 },
      ],
    }
  })
  await importUsers(opened, ['-'], { stdin: Readable.from(people, { objectMode: false }) })
  await opened.pool.query('vacuum analyze')
}

/** The same users and listings in tables as most would make them, for the contenders; which places a query means is told them. */
export async function fillPlain({ pool }: OpenDatabase): Promise<void> {
  const columns = leadFields.map(({ name, kind }) =>
    kind === 'number' ? `(j->>'${name}')::double precision as "${name}"` : `j->>'${name}' as "${name}"`,
  )
  await pool.query(
    `
    drop schema if exists bench cascade;
    create schema bench;
    create table bench.users as select id, email, receiver_key from users;
    alter table bench.users add primary key (id);
    create table bench.queries as
      select q.user_id, q.position, q.type, q.value, q.radius, s.places from queries q join searches s on s.id = q.search_id;
    alter table bench.queries add primary key (user_id, position);
    create table bench.listings as
      select ${columns.join(', ')}, now() + version_id * interval '1 second' as updated_at
      from (select l.version_id, v.json::jsonb as j from leads l join lead_versions v on v.id = l.version_id) v;
    alter table bench.listings add primary key (href);
    create index on bench.listings ("postalCode", updated_at desc);
    create table bench.sent (key text primary key, user_id bigint, leads integer, status integer, at timestamptz default now());
    vacuum analyze`.replace(/;\s*vacuum analyze$/, ''),
  )
  await pool.query('vacuum analyze')
}
