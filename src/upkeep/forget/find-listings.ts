/**
 * Finds the listings that an erasure means: all kept versions with its `href` or its contact, also of pruned listings. Reads
 * the table once, a stretch at a time; the database filters out most of it.
 */
import { type RawBuilder, sql } from 'kysely'
import { rideOut } from '../../db/away.ts'
import type { Database } from '../../db/open.ts'
import { contactFieldsOf, findContactsOf, readContactFields } from '../../leads/contacts.ts'
import type { Erasure } from '../../leads/erasures.ts'
import { sweep } from '../prune/sweep.ts'

/** Versions with the `href` or the contact. */
export interface FoundVersions {
  /** Ids of the found versions, by listing. */
  ofLead: Map<number, Set<number>>
  /** Whether there are more than one look may return. */
  more: boolean
}

const listingsMax = 100_000

/** SQL: `fields` where they may hold the contact (some that do not pass, too), else null. */
function mayHold(contact: string): RawBuilder<string | null> {
  const holds = contact.includes('@')
    ? sql`position(${contact} in lower(fields collate "C")) > 0`
    : // most fields lack these digits in this order, which is ten times faster to see
      sql`fields like ${`%${[...contact].join('%')}%`}
        and position(${contact} in regexp_replace(fields, '[^0-9]', '', 'g')) > 0`
  // beyond ASCII, and where JSON escapes a character as a number, only the process can tell
  return sql`case when (${holds}) or octet_length(fields) <> length(fields) or position('\\u' in fields) > 0 then fields end`
}

const contactFields = sql.raw(contactFieldsOf('json'))

/** Whether `fields`, as `contactFieldsOf` cuts them out of a lead's JSON, hold the contact. */
export const holdsContact = (fields: string, contact: string) =>
  findContactsOf(readContactFields(fields)).includes(contact)

interface Candidate {
  id: number
  lead_id: number
  fields: string | null
}

/** The versions among the rows `t` for which `which` holds. */
async function findAmong(db: Database, erasure: Erasure, which: RawBuilder<boolean>): Promise<Candidate[]> {
  if ('href' in erasure) {
    // `href` is the first field of the JSON
    const begin = `{"href":${JSON.stringify(erasure.href)},`
    const { rows } = await sql<Candidate>`
      select t.id, t.lead_id, null as fields from lead_versions t where ${which} and starts_with(t.json, ${begin})
    `.execute(db)
    return rows
  }
  const { contact } = erasure
  const { rows } = await sql<Candidate>`
    select id, lead_id, fields from (
      select id, lead_id, ${mayHold(contact)} as fields from (
        select t.id, t.lead_id, ${contactFields} as fields from lead_versions t where ${which} offset 0
      ) cut
    ) candidates where fields is not null
  `.execute(db)
  return rows.filter(({ fields }) => holdsContact(fields ?? '', contact))
}

/**
 * Finds the versions. `since`: a time (`timestamptz` as text) at which imports already refused such records, and the last
 * version id at that time. Rows that move within the table while it is read, because a later record replaces them, are found
 * by it at the end.
 */
export async function findVersions(
  db: Database,
  erasure: Erasure,
  since: { at: string; lastVersionId: number },
  { stop, onAway }: { stop: AbortSignal; onAway: (error: unknown) => void },
): Promise<FoundVersions> {
  const ofLead: FoundVersions['ofLead'] = new Map()
  let more = false
  const add = (found: readonly Candidate[]) => {
    more ||= ofLead.size >= listingsMax && found.length > 0
    if (more) return
    for (const { id, lead_id } of found) ofLead.set(lead_id, (ofLead.get(lead_id) ?? new Set()).add(id))
  }
  await sweep({ db, stop, onAway }, 'lead_versions', async (isHere) => {
    add(await findAmong(db, erasure, isHere))
    return 0
  })
  stop.throwIfAborted()
  const isChanged = sql<boolean>`(t.id > ${since.lastVersionId} or t.superseded_at >= ${since.at}::timestamptz)`
  add(await rideOut(() => findAmong(db, erasure, isChanged), onAway))
  return { ofLead, more }
}
