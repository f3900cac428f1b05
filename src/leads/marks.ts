/**
 * Marks: keyed hashes (HMAC-SHA-256, with a key that the database made for itself), by which what was erased is known again. A listing
 * has one for its `href`, one for each contact, and one for each contact as consumer deletion lists would have it.
 */
import { createHmac } from 'node:crypto'
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { type ContactFields, findContactsOf } from './contacts.ts'
import { hashIdentifier, kindOfList, type ListKind } from './drop-format.ts'
import { normalText } from './normal-text.ts'
import { sha256 } from './staged-leads.ts'

/** The bytes of a mark. */
export const markBytes = 32

export async function findKey(db: Database): Promise<Buffer> {
  const [row] = await db.selectFrom('erasure_key').select('key').execute()
  if (row === undefined) throw new Error('the key of erasures is gone: nobody can tell any more what was erased')
  return row.key
}

const mark = (key: Buffer, ...parts: (string | Buffer)[]): Buffer => {
  const hmac = createHmac('sha256', key)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}

export const markOfHref = (key: Buffer, href: string) => mark(key, sha256(href))
export const markOfContact = (key: Buffer, contact: string) => mark(key, `contact:${contact}`)
/** `email` as a user has it. */
export const markOfUser = (key: Buffer, email: string) => mark(key, `user:${email}`)
/** `listHash` as a consumer deletion list has it. */
export const markOfListHash = (key: Buffer, kind: ListKind, listHash: Buffer) => mark(key, `${kind}:`, listHash)

const kindOfContact = (contact: string): ListKind => (contact.includes('@') ? kindOfList.Email : kindOfList.Phone)

/** The mark that a contact, as `parseContact` returns it, has in consumer deletion lists. */
export function listMarkOf(key: Buffer, contact: string, kind = kindOfContact(contact)): Buffer | undefined {
  const listHash = hashIdentifier(kind, contact)
  return listHash && markOfListHash(key, kind, listHash)
}

/** Which kinds of marks are wanted: the others need not be computed. */
export interface MarkKinds {
  href: boolean
  contact: boolean
  /** Those of consumer deletion lists. */
  list: boolean
}

/** The marks of contacts in a text. */
export function marksOfContacts(key: Buffer, contacts: readonly string[], kinds: MarkKinds): Buffer[] {
  const marks = kinds.contact ? contacts.map((contact) => markOfContact(key, contact)) : []
  if (!kinds.list) return marks
  return [...marks, ...contacts.flatMap((contact) => listMarkOf(key, contact) ?? [])]
}

/**
 * The marks of the contact fields of a listing. In a list a phone number may have fewer digits, and an e-mail address blanks in it, so each
 * field as a whole counts too.
 */
export function marksOfFields(key: Buffer, fields: ContactFields, kinds: MarkKinds): Buffer[] {
  if (!kinds.contact && !kinds.list) return []
  const marks = marksOfContacts(key, findContactsOf(fields), kinds)
  if (!kinds.list) return marks
  const { contactEmail, contactPhone } = fields
  const whole = [
    contactEmail ? listMarkOf(key, normalText(contactEmail), kindOfList.Email) : undefined,
    contactPhone ? listMarkOf(key, normalText(contactPhone), kindOfList.Phone) : undefined,
  ]
  return [...marks, ...whole.filter((one) => one !== undefined)]
}

/** A table with `mark` and `redacts`: what was erased, or in a dry run what would be. */
export type MarkTable = 'erasures' | 'listed_marks'

/** What a listing is hit by. */
export interface Hit {
  /** Whether all that hit it keep the listing, and drop its contacts. */
  redacts: boolean
  marks: Buffer[]
}

const marksPerStatement = 10_000

/** Looks the marks of each row up in `table`; the hits of those rows that have any, by their indexes. */
export async function findHits(
  db: Database,
  table: MarkTable,
  marksOf: readonly (readonly Buffer[])[],
): Promise<Map<number, Hit>> {
  const hits = new Map<number, Hit>()
  const flat = marksOf.flatMap((marks, row) => marks.map((one) => ({ row, one })))
  for (let from = 0; from < flat.length; from += marksPerStatement) {
    const some = flat.slice(from, from + marksPerStatement)
    // one value with all marks: an array of them costs more to send than all the rest. `offset 0` has each mark looked up in the
    // index; a join would read all erasures for them
    const { rows } = await sql<{ at: number; redacts: boolean }>`
      select c.at, e.redacts from generate_series(1, ${some.length}::integer) as c (at) cross join lateral (
        select redacts from ${sql.table(table)}
        where mark = substring(${Buffer.concat(some.map(({ one }) => one))}::bytea from (c.at - 1) * 32 + 1 for 32) offset 0) e
    `.execute(db)
    for (const { at, redacts } of rows) {
      const { row, one } = some[at - 1] as (typeof some)[number]
      const hit = hits.get(row)
      hits.set(row, { redacts: redacts && (hit?.redacts ?? true), marks: [...(hit?.marks ?? []), one] })
    }
  }
  return hits
}
