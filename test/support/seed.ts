/** Puts listings and users into a database, for tests of later steps. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { sql } from 'kysely'
import type { Database, OpenDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'
import type { LeadPatch } from '../../src/leads/lead.ts'
import { serialiseQuery } from '../../src/users/query.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest()

/** Imports `leads`, of which the first is the newest, as in a file. */
export async function seedLeads(
  opened: OpenDatabase,
  leads: (Partial<LeadPatch> & { href: string })[],
  seenDaysAgo = 0,
): Promise<void> {
  const lines = leads.map((lead) => `${JSON.stringify({ postalCode: '78704', ...lead })}\n`)
  const { summary, broken } = await importLeads(opened, ['-'], { stdin: Readable.from(lines, { objectMode: false }) })
  if (broken || summary.rejected > 0) throw new Error(`seeding failed: ${JSON.stringify({ broken, summary })}`)
  if (seenDaysAgo === 0) return
  await sql`
    update lead_seen set seen_at = seen_at - ${seenDaysAgo} * interval '1 day'
    where lead_id in (select id from leads where href_sha256 = any (${leads.map(({ href }) => sha256(href))}))
  `.execute(opened.db)
}

export interface SeedUser {
  email: string
  receiverKey?: string
  subscribed?: boolean
  /** One entry per query: the postal codes for which it stands. */
  queries?: { value: string; places: string[] }[]
}

export async function seedUsers(db: Database, users: SeedUser[]): Promise<void> {
  for (const {
    email,
    receiverKey = 'key',
    subscribed = true,
    queries = [{ value: '78704', places: ['78704'] }],
  } of users) {
    const { id } = await db
      .insertInto('users')
      .values({ email, receiver_key: receiverKey, subscribed, home_key: queries[0]?.places[0] ?? '' })
      .returning('id')
      .executeTakeFirstOrThrow()
    for (const [position, { value, places }] of queries.entries()) {
      const meaning = sha256(JSON.stringify(places))
      await db
        .insertInto('searches')
        .values({ meaning_sha256: meaning, kind: 'place', places, words: null, resolver: 1 })
        .onConflict((conflict) => conflict.column('meaning_sha256').doNothing())
        .execute()
      const search = await db
        .selectFrom('searches')
        .select('id')
        .where('meaning_sha256', '=', meaning)
        .executeTakeFirstOrThrow()
      const query = { type: 'zipcode' as const, value, radius: 0 }
      await db
        .insertInto('queries')
        .values({
          ...query,
          user_id: id,
          position,
          hash: `${value}0`,
          json: serialiseQuery(query),
          search_id: search.id,
        })
        .execute()
    }
  }
}
