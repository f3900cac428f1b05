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

/** In two statements, however many: most tests have sixty. */
export async function seedUsers(db: Database, users: SeedUser[]): Promise<void> {
  const here = [{ value: '78704', places: ['78704'] }]
  const given = JSON.stringify(
    users.map(({ email, receiverKey = 'key', subscribed = true, queries = here }) => ({
      ...{ email, receiverKey, subscribed, homeKey: queries[0]?.places[0] ?? '' },
      queries: queries.map(({ value, places }) => ({
        ...{ value, places, hash: `${value}0`, json: serialiseQuery({ type: 'zipcode', value, radius: 0 }) },
        meaning: sha256(JSON.stringify(places)).toString('hex'),
      })),
    })),
  )
  const asked = sql`
    rows from (jsonb_to_recordset(${given}::jsonb) as (email text, "receiverKey" text, subscribed boolean, "homeKey" text, queries jsonb))
      with ordinality u (email, receiver_key, subscribed, home_key, queries, nth)
    left join lateral rows from (jsonb_to_recordset(u.queries) as (value text, places text[], hash text, json text, meaning text))
      with ordinality q (value, places, hash, json, meaning, position) on true`
  await sql`
    insert into searches (meaning_sha256, kind, places, words, resolver)
    select distinct decode(meaning, 'hex'), 'place', places, null, 1 from ${asked} where meaning is not null on conflict do nothing
  `.execute(db)
  await sql`
    with asked as (select * from ${asked}), added as (
      insert into users (email, receiver_key, subscribed, home_key)
      select email, receiver_key, subscribed, home_key from asked where coalesce(position, 1) = 1 order by nth returning id, email
    )
    insert into queries (user_id, position, type, value, radius, hash, json, search_id)
    select added.id, position - 1, 'zipcode', value, 0, hash, json, s.id
    from asked join added using (email) join searches s on s.meaning_sha256 = decode(meaning, 'hex')
  `.execute(db)
}
