/**
 * The made-up listings of the matching benchmark: a million over the real postal codes, some places far busier than others, with
 * descriptions whose words are as common as in real ones. The same seed makes the same listings.
 */

import { copyInto } from '../../src/db/copy.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { withTransaction } from '../../src/db/transaction.ts'
import { listingWords } from '../../src/matching/words.ts'
import type { Places, PostalCode } from '../../src/places/places.ts'

/** Mulberry32. */
export function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Words of a known share of the listings, and what the benchmark asks for. */
const shares: readonly (readonly [string, number])[] = [
  ['home', 0.54],
  ['kitchen', 0.4],
  ['house', 0.14],
  ['pool', 0.1],
  ['basement', 0.06],
  ['fireplace', 0.03],
  ['waterfront', 0.01],
  ['sauna', 0.005],
  ['orchard', 0.002],
  ['helipad', 0.0002],
  ['observatory', 0.00002],
]

/** Only the older part of the listings has it: nothing among the newest to stop at. */
const oldWord = 'foreclosure'
const oldShare = 0.14

const syllables =
  'ba be bi bo bu da de di do du fa fe fi fo ga ge go ka ke ki ko la le li lo lu ma me mi mo na ne ni no pa pe pi po ra re ri ro sa se si so ta te ti to va ve vi vo za zo'.split(
    ' ',
  )

function vocabularyWord(rank: number): string {
  let rest = rank + syllables.length
  let word = ''
  for (; rest > 0; rest = Math.floor(rest / syllables.length)) word += syllables[rest % syllables.length]
  return `${word}n`
}

/** Where listings are: some places hundreds, most a few (log-normal). */
function cumulativeWeights(codes: readonly PostalCode[], random: () => number): Float64Array {
  let sum = 0
  return Float64Array.from(codes, () => {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random())
    sum += Math.min(20, Math.exp(1.1 * normal))
    return sum
  })
}

function pick(weights: Float64Array, random: () => number): number {
  const target = random() * (weights.at(-1) ?? 0)
  let [low, high] = [0, weights.length - 1]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((weights[middle] ?? 0) < target) low = middle + 1
    else high = middle
  }
  return low
}

function description(random: () => number, old: boolean): string {
  const words: string[] = []
  const length = 30 + Math.floor(random() * 90)
  // Zipf's law over 30,000 words
  for (let at = 0; at < length; at += 1) words.push(vocabularyWord(Math.floor(30_000 ** random()) - 1))
  for (const [word, share] of shares) if (random() < share) words.push(word)
  if (old && random() < oldShare) words.push(oldWord)
  return words.join(' ')
}

/**
 * Fills `leads` and `lead_seen`; the ids of versions rise with gaps, as weeks of imports leave them. Listings `without` words cost a tenth.
 */
export async function fillListings(
  opened: OpenDatabase,
  places: Places,
  count: number,
  words: 'with' | 'without' = 'with',
): Promise<void> {
  const random = randomFrom(1)
  const codes = places.byLatitude.filter(({ code }) => /^\d/.test(code))
  const weights = cumulativeWeights(codes, random)
  await withTransaction(opened, async (connection) => {
    await connection.query(`create temp table filling (n bigint, postal_key text, words text) on commit drop`)
    await copyInto(connection, 'filling (n, postal_key, words)', async (rows, flush) => {
      let versionId = 0
      for (let at = 0; at < count; at += 1) {
        versionId += at < count / 2 ? 1 + Math.floor(random() * 30) : 1 + Math.floor(random() * 2)
        const { code, state } = codes[pick(weights, random)] as PostalCode
        const empty = { secondAddress: null, propertyType: null }
        const address = `${Math.floor(random() * 9_999)} ${vocabularyWord(Math.floor(random() * 3_000))} street`
        const lead = { ...empty, address, city: vocabularyWord(code.length * 7_000 + (Number(code) % 9_000)), state }
        rows.begin(3)
        rows.bigint(versionId)
        rows.text(code)
        rows.text(
          words === 'without' ? '' : listingWords({ ...lead, description: description(random, at < count * 0.8) }),
        )
        await flush()
      }
    })
    await connection.query(`insert into imports (file) values ('benchmark')`)
    await connection.query(`
      insert into leads (href_sha256, postal_key, version_id, json_sha256, first_import_id, search, house)
      select sha256(convert_to(n::text, 'UTF8')), postal_key, n, sha256('x'), (select max(id) from imports),
        strip(to_tsvector('english'::regconfig, words)),
        -- one in five is of a house that another site has too
        substr(sha256(convert_to(postal_key || ' ' || row_number() over (partition by postal_key order by n) * 4 / 5, 'UTF8')), 1, 8)
      from filling`)
    // one in five of the older half has not been seen for long
    await connection.query(`
      insert into lead_seen (lead_id, seen_at)
      select id, case when id % 5 = 0 and version_id < (select max(version_id) / 2 from leads)
        then now() - interval '60 days' else now() - interval '1 day' end from leads`)
  })
  await opened.pool.query('vacuum analyze')
}
