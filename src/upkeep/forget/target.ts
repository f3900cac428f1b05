/**
 * What an erasure means, as the look for it and the erasing ask: one `href` or contact, which the database finds by itself, or all marks
 * of a list, which are looked up for each listing as an import looks them up.
 */
import { type RawBuilder, sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { contactFieldsOf, findContactsOf, noContact, readContactFields } from '../../leads/contacts.ts'
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

const contactFields = sql.raw(contactFieldsOf('t.json'))
const hasContact = sql<boolean>`${contactFields} not like ${sql.raw(noContact)}`

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
    // `href` is the first field of the JSON
    const begin = `{"href":${JSON.stringify(href)},`
    const { rows } = await sql<Found>`
      select t.id, t.lead_id as "leadId" from lead_versions t where ${which} and starts_with(t.json, ${begin})
        and (${!this.redacts} or ${hasContact})
    `.execute(db)
    return rows
  }
}

type Found = Pick<MeantVersion, 'id' | 'leadId'>

async function findContact(db: Database, contact: string, which: RawBuilder<boolean>): Promise<Found[]> {
  const { rows } = await sql<Found & { fields: string }>`
    select id, lead_id as "leadId", fields from (
      select id, lead_id, ${mayHold(contact)} as fields from (
        select t.id, t.lead_id, ${contactFields} as fields from lead_versions t where ${which} offset 0
      ) cut
    ) candidates where fields is not null
  `.execute(db)
  return rows
    .filter(({ fields }) => findContactsOf(readContactFields(fields)).includes(contact))
    .map(({ id, leadId }) => ({ id, leadId }))
}

/** A listing has several marks, and memory holds those of so many listings. */
const rowsPerLook = 2_000
/** Larger contact fields are read one by one. */
const fieldBytesMax = 8 * 1024

interface ListedRow extends Found {
  head: string | null
  fields: string | null
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
      select id, "leadId", head, "hasContact", case when octet_length(fields) <= ${fieldBytesMax} then fields end as fields from (
        select t.id, t.lead_id as "leadId", case when ${href} then split_part(t.json, ',"postalCode":', 1) end as head,
          ${contactFields} as fields, ${hasContact} as "hasContact"
        from lead_versions t where ${which} offset 0
      ) cut where ${href} or "hasContact"
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

  private async marksOf(db: Database, { id, head, fields, hasContact }: ListedRow): Promise<Buffer[]> {
    const ofHref = head === null ? [] : [markOfHref(this.key, JSON.parse(`${head}}`).href)]
    if (!hasContact) return ofHref
    const json = fields ?? (await readLargeFields(db, id))
    return [...ofHref, ...marksOfFields(this.key, readContactFields(json), this.kinds)]
  }
}

async function readLargeFields(db: Database, id: number): Promise<string> {
  const { rows } = await sql<{ fields: string }>`
    select ${contactFields} as fields from lead_versions t where t.id = ${id}
  `.execute(db)
  return rows[0]?.fields ?? 'null'
}
