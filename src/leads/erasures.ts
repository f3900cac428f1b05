/**
 * Remembers what was erased as keyed hashes alone (HMAC-SHA-256, with a key that the database made for itself), and drops the
 * staged records of an import that match one.
 */
import { createHmac } from 'node:crypto'
import type { Database } from '../db/open.ts'
import type { Connection } from '../db/transaction.ts'
import { contactFieldsOf, findContacts, findContactsOf, noContact, readContactFields } from './contacts.ts'
import { sha256 } from './stage.ts'

/** What is erased: a listing by its `href`, or all with a contact, as `parseContact` returns it. */
export type Erasure = { href: string } | { contact: string }

async function findKey(connection: Connection): Promise<Buffer> {
  const { rows } = await connection.query<{ key: Buffer }>('select key from erasure_key')
  if (rows[0] === undefined) throw new Error('the key of erasures is gone: nobody can tell any more what was erased')
  return rows[0].key
}

const markOfHref = (key: Buffer, hrefSha256: Buffer) => createHmac('sha256', key).update(hrefSha256).digest()
const markOfContact = (key: Buffer, contact: string) => createHmac('sha256', key).update(`contact:${contact}`).digest()

/** Records an erasure: from then on imports refuse records with it. Returns whether it is a new one. */
export async function recordErasure(connection: Connection, erasure: Erasure): Promise<boolean> {
  const key = await findKey(connection)
  const [kind, mark] =
    'href' in erasure
      ? ['href', markOfHref(key, sha256(erasure.href))]
      : ['contact', markOfContact(key, erasure.contact)]
  const { rowCount } = await connection.query(
    'insert into erasures (mark, kind) values ($1, $2) on conflict do nothing',
    [mark, kind],
  )
  return rowCount === 1
}

/** Whether the listing was erased by its `href`. An erasure by a contact does not tell which listings it took. */
export async function isErased(db: Database, href: string): Promise<boolean> {
  const [row] = await db.selectFrom('erasure_key').select('key').execute()
  if (row === undefined) return false
  const mark = markOfHref(row.key, sha256(href))
  const erased = await db.selectFrom('erasures').select('kind').where('mark', '=', mark).executeTakeFirst()
  return erased?.kind === 'href'
}

const urls = /https?:\/\/[^\s"'<>]+/gi

/** The possible hrefs in a raw record. In CSV a comma may end a URL or belong to it: both are found. */
function findHrefs(raw: string): string[] {
  const found = raw.replaceAll('\\/', '/').match(urls) ?? []
  return [...new Set(found.flatMap((url) => [url, url.split(',')[0] as string]))]
}

/**
 * The indexes of rejected records that contain an erased URL or contact anywhere in their raw bytes: a rejected record has no
 * fields to go by. It reads the erasures each time, since there may be new ones while a file is read.
 */
export async function findErasedAmong(
  connection: Connection,
  records: readonly { raw: Buffer }[],
): Promise<ReadonlySet<number>> {
  const { rows } = await connection.query<{ any: boolean }>('select exists (select from erasures) as any')
  if (!rows[0]?.any) return new Set()
  const key = await findKey(connection)
  const marks = records.flatMap(({ raw }, at) => {
    const text = raw.toString('utf8')
    return [
      ...findHrefs(text).map((href) => markOfHref(key, sha256(href))),
      ...findContacts(text).map((contact) => markOfContact(key, contact)),
    ].map((mark) => [at, mark] as const)
  })
  return new Set(await findErased(connection, marks))
}

/** The two keys of an HMAC, for SQL: its inner and its outer hash begin with them. */
function padKey(key: Buffer): [inner: Buffer, outer: Buffer] {
  const pad = (byte: number) => Buffer.from(Array.from({ length: 64 }, (_, at) => (key[at] ?? 0) ^ byte))
  return [pad(0x36), pad(0x5c)]
}

async function dropByHref(connection: Connection, key: Buffer): Promise<number> {
  const { rowCount } = await connection.query(
    `delete from staged_leads s using erasures e
     where e.kind = 'href' and e.mark = sha256($2::bytea || sha256($1::bytea || s.href_sha256))`,
    padKey(key),
  )
  return rowCount ?? 0
}

const recordsPerFetch = 2_000
/** Larger contact fields are read one by one. */
const fieldBytesMax = 8 * 1024

interface StagedContact {
  n: number
  row: string
  fields: string | null
}

/** The numbers of the records whose mark is that of an erasure. */
async function findErased(connection: Connection, marked: readonly (readonly [n: number, mark: Buffer])[]) {
  // one value with all marks: an array of them costs more to send than all the rest
  const marks = Buffer.concat(marked.map(([, mark]) => mark))
  const { rows } = await connection.query<{ n: number }>(
    // `offset 0` has each mark looked up in the index; a join would read all erasures for them
    `select distinct c.n from unnest($1::integer[]) with ordinality as c (n, at) where exists (
       select from erasures e where e.mark = substring($2::bytea from (c.at::integer - 1) * 32 + 1 for 32) offset 0)`,
    [marked.map(([n]) => n), marks],
  )
  return rows.map(({ n }) => n)
}

async function dropByContact(connection: Connection, key: Buffer): Promise<number> {
  await connection.query(
    `declare staged_contacts no scroll cursor for
     select n, ctid::text as row, case when octet_length(fields) <= ${fieldBytesMax} then fields end as fields
     from (select n, ctid, ${contactFieldsOf('json')} as fields from staged_leads offset 0) s
     where fields not like ${noContact}`,
  )
  const erased: number[] = []
  for (;;) {
    const { rows } = await connection.query<StagedContact>(`fetch ${recordsPerFetch} from staged_contacts`)
    if (rows.length === 0) break
    const marked: [number, Buffer][] = []
    for (const { n, row, fields } of rows) {
      const json = fields ?? (await readLargeFields(connection, row))
      for (const contact of findContactsOf(readContactFields(json))) marked.push([n, markOfContact(key, contact)])
    }
    for (const n of await findErased(connection, marked)) erased.push(n)
  }
  await connection.query('close staged_contacts')
  if (erased.length === 0) return 0
  const { rowCount } = await connection.query('delete from staged_leads where n = any ($1::integer[])', [erased])
  return rowCount ?? 0
}

async function readLargeFields(connection: Connection, row: string): Promise<string> {
  const { rows } = await connection.query<{ fields: string }>(
    `select ${contactFieldsOf('json')} as fields from staged_leads where ctid = $1::tid`,
    [row],
  )
  return rows[0]?.fields ?? 'null'
}

/**
 * Deletes the staged records whose `href` or contact was erased, and returns their number. The import must hold its lock, which
 * an erasure takes too.
 */
export async function dropErased(connection: Connection): Promise<number> {
  const { rows } = await connection.query<{ href: boolean; contact: boolean }>(
    `select exists (select from erasures where kind = 'href') as href,
       exists (select from erasures where kind = 'contact') as contact`,
  )
  const any = rows[0]
  if (!any?.href && !any?.contact) return 0
  const key = await findKey(connection)
  const byHref = any.href ? await dropByHref(connection, key) : 0
  return byHref + (any.contact ? await dropByContact(connection, key) : 0)
}
