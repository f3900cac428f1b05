/**
 * What an erasure means, as the look for it and the erasing ask: one `href` or contact, which the database finds by itself, or all marks
 * of a list, which are looked up for each listing as an import looks them up.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import {
  boundedContacts,
  type ContactRow,
  contactColumns,
  contactsOf,
  contactText,
  findContactsOf,
  hasContact as hasContactIn,
} from '../../leads/contacts.ts'
import type { Erasure } from '../../leads/erasures.ts'
import { findHits, type MarkKinds, type MarkTable, markOfHref, marksOfFields } from '../../leads/marks.ts'

/** A kept version of a listing that is meant. */
export interface MeantVersion {
  id: number
  leadId: number
  /** The listing stays, and loses its contacts. */
  redacts: boolean
  /** By which erasures. */
  marks: readonly Buffer[]
}

/** What is erased. */
export interface Target {
  /** The meant versions among the rows `t` of `lead_versions` for which `which` holds. */
  find(db: Database, which: RawBuilder<boolean>): Promise<MeantVersion[]>
}

/** SQL: whether `fields` may hold the contact (some that do not pass, too): has its words, or its digits in their order. */
function mayHold(contact: string): RawBuilder<boolean> {
  const words = contact.split(/[@.]/).map((word) => sql<boolean>`position(${word} in lower(fields collate "C")) > 0`)
  const holds = contact.includes('@') ? sql.join(words, sql` and `) : sql`fields like ${`%${[...contact].join('%')}%`}`
  // only the process reads what is encoded, or beyond ASCII
  return sql`((${holds}) or octet_length(fields) <> length(fields) or fields ~ '[&%\\\\]')`
}

const contacts = sql.raw(contactColumns.map((name) => `t.${name}`).join(', '))
const hasContact = sql<boolean>`${sql.raw(hasContactIn('t'))}`
/** The `href` in the JSON, as it is written there: inside a string every quote is escaped, so the first such key is the field. */
const hrefInJson = sql<string>`substring(t.json from '"href":"((?:[^"\\\\]|\\\\.)*)"')`

/** One `href`, or one contact. */
export class OneTarget implements Target {
  private readonly erasure: Erasure
  private readonly redacts: boolean
  private readonly marks: readonly Buffer[]

  constructor(erasure: Erasure, redacts: boolean, marks: readonly Buffer[]) {
    this.erasure = erasure
    this.redacts = redacts
    this.marks = marks
  }

  async find(db: Database, which: RawBuilder<boolean>): Promise<MeantVersion[]> {
    const { erasure, redacts, marks } = this
    const found = 'href' in erasure ? this.findHref(db, erasure.href, which) : findContact(db, erasure.contact, which)
    return (await found).map((version) => ({ ...version, redacts, marks }))
  }

  private async findHref(db: Database, href: string, which: RawBuilder<boolean>): Promise<Found[]> {
    const field = `"href":${JSON.stringify(href)}`
    const { rows } = await sql<Found>`
      select t.id, t.lead_id as "leadId" from lead_versions t where ${which} and position(${field} in t.json) > 0
        and (${!this.redacts} or ${hasContact})
    `.execute(db)
    return rows
  }
}

type Found = Pick<MeantVersion, 'id' | 'leadId'>

async function findContact(db: Database, contact: string, which: RawBuilder<boolean>): Promise<Found[]> {
  const { rows } = await sql<Found & ContactRow>`
    select id, "leadId", ${sql.raw(contactColumns.join(', '))} from (
      select t.id, t.lead_id as "leadId", ${contacts}, ${sql.raw(contactText('t'))} as fields
      from lead_versions t where ${which} and ${hasContact} offset 0
    ) t where ${mayHold(contact)}
  `.execute(db)
  return rows
    .filter((row) => findContactsOf(contactsOf(row)).includes(contact))
    .map(({ id, leadId }) => ({ id, leadId }))
}

/** A listing has several marks, and memory holds those of so many listings. */
const rowsPerLook = 2_000
/** Larger contact fields are read one by one. */
const fieldBytesMax = 8 * 1024

interface ListedRow extends Found, ContactRow {
  /** As the JSON has it; null where none is looked for. */
  href: string | null
  small: boolean
  hasContact: boolean
}

/** All marks in `table`. */
export class ListTarget implements Target {
  private readonly key: Buffer
  private readonly table: MarkTable
  private readonly kinds: MarkKinds

  constructor(key: Buffer, table: MarkTable, kinds: MarkKinds) {
    this.key = key
    this.table = table
    this.kinds = kinds
  }

  async find(db: Database, which: RawBuilder<boolean>): Promise<MeantVersion[]> {
    const { href } = this.kinds
    const { rows } = await sql<ListedRow>`
      select t.id, t.lead_id as "leadId", case when ${href} then ${hrefInJson} end as href, ${hasContact} as "hasContact",
        ${sql.raw(boundedContacts('t', fieldBytesMax))}
      from lead_versions t where ${which} and (${href} or ${hasContact})
    `.execute(db)
    const meant: MeantVersion[] = []
    for (let at = 0; at < rows.length; at += rowsPerLook) {
      for (const version of await this.findAmong(db, rows.slice(at, at + rowsPerLook))) meant.push(version)
    }
    return meant
  }

  private async findAmong(db: Database, rows: readonly ListedRow[]): Promise<MeantVersion[]> {
    const marks: Buffer[][] = []
    for (const row of rows) marks.push(await this.marksOf(db, row))
    const hits = await findHits(db, this.table, marks)
    return rows.flatMap(({ id, leadId, hasContact }, at) => {
      const hit = hits.get(at)
      return hit && (hasContact || !hit.redacts) ? [{ id, leadId, ...hit }] : []
    })
  }

  private async marksOf(db: Database, row: ListedRow): Promise<Buffer[]> {
    const ofHref = row.href === null ? [] : [markOfHref(this.key, JSON.parse(`"${row.href}"`))]
    const found = row.hasContact && !row.small ? await readLargeContacts(db, row.id) : row
    return found ? [...ofHref, ...marksOfFields(this.key, contactsOf(found), this.kinds)] : ofHref
  }
}

async function readLargeContacts(db: Database, id: number): Promise<ContactRow | undefined> {
  const { rows } = await sql<ContactRow>`select ${contacts} from lead_versions t where t.id = ${id}`.execute(db)
  return rows[0]
}
