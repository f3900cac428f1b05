/** The listings and the users of a round, as they are at first and as they are imported again beside the pushes. */
import { Readable } from 'node:stream'
import type { OpenDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'
import { Random } from './random.ts'

export const usersMax = 60
const towns = ['78704', '10001', '60601', '94103']

/** Listings of a few towns; of one of them so long that its users get two parts. */
export function* leadLines(random: Random, change: string): Generator<string> {
  for (let at = 0; at < 120; at++) {
    const long = at % 10 === 0
    yield `${JSON.stringify({
      href: `https://listings.example/${at}`,
      postalCode: long ? '99501' : random.one(towns),
      price: 100_000 + random.from(0, 900_000),
      description: long ? `${change} ${'A long story. '.repeat(40_000)}` : `${change} ${'A house. '.repeat(40)}`,
    })}\n`
  }
}

export async function importChanged(opened: OpenDatabase, random: Random, change: string): Promise<void> {
  await importLeads(opened, ['-'], { stdin: Readable.from(leadLines(random, change), { objectMode: false }) })
}

/** A key of the user with this number, and no other's. */
export const isKeyOf = (key: string, at: number) => key === `key-${at}` || key.startsWith(`key-${at}-`)

/** All users; with `changed` most have another key, and some other queries. Nothing of that changes who is due. */
export function* userLines(changed?: Random): Generator<string> {
  const random = new Random('users')
  for (let at = 0; at < usersMax; at++) {
    const query = (value: string) => ({ type: 'zipcode', value, radius: 0 })
    const queries = at % 20 === 7 ? [query('99501'), query(random.one(towns))] : [query(random.one(towns))]
    const email = `user-${at}@example.com`
    if (!changed) yield `${JSON.stringify({ email, receiverApiKey: `key-${at}`, queries })}\n`
    else {
      const receiverApiKey = changed.chance(0.8) ? `key-${at}-${changed.from(1, 9)}` : undefined
      const more = { type: 'text', value: 'house', radius: 0 }
      yield `${JSON.stringify({ email, receiverApiKey, queries: changed.chance(0.3) ? [...queries, more] : queries })}\n`
    }
  }
}
