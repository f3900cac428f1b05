/**
 * Remembers erased hrefs, contacts and users as marks, one at a time (`lists` remembers many), and keeps listings out of imports: drops
 * the staged records that match a mark, or only their contacts if the erasure keeps the listing. `users/` does so with its own.
 */
import type { Database } from '../db/open.ts'
import { type Connection, kyselyOn } from '../db/transaction.ts'
import {
  boundedContacts,
  type ContactRow,
  contactColumns,
  contactsOf,
  findContacts,
  hasContact,
  withoutContacts,
} from './contacts.ts'
import type { WorkItem } from './drop-files.ts'
import type { ListKind } from './drop-format.ts'
import { contactBits } from './lead.ts'
import {
  findHits,
  findKey,
  type Hit,
  listMarkOf,
  type MarkKinds,
  markOfContact,
  markOfHref,
  markOfListHash,
  markOfUser,
  marksOfContacts,
  marksOfFields,
} from './marks.ts'
import { hashOfStored } from './staged-leads.ts'

/** The target of an erasure: a listing by its `href`, or all listings with a contact, as `parseContact` returns it. */
export type Erasure = { href: string } | { contact: string }

/** A user who is to be forgotten, by the e-mail as it is stored. */
export type UserErasure = { user: string }

/** The identifier of a work item in a consumer deletion list. */
export type ListedIdentifier = Pick<WorkItem, 'kind' | 'hash'>

/** An erasure in its stored form, without the mark that it redacts. */
export interface ErasureRow {
  mark: Buffer
  kind: 'href' | 'contact' | 'user' | ListKind
  list_mark: Buffer | null
}

/** The row of an erasure. */
export function toErasureRow(key: Buffer, erasure: Erasure | UserErasure | ListedIdentifier): ErasureRow {
  if ('hash' in erasure) {
    const { kind, hash } = erasure
    return { mark: markOfListHash(key, kind, hash), kind, list_mark: null }
  }
  if ('href' in erasure) return { mark: markOfHref(key, erasure.href), kind: 'href', list_mark: null }
  if ('user' in erasure) return { mark: markOfUser(key, erasure.user), kind: 'user', list_mark: null }
  const { contact } = erasure
  return { mark: markOfContact(key, contact), kind: 'contact', list_mark: listMarkOf(key, contact) ?? null }
}

/** SQL: how many of the rows `m`, which have the columns of `erasures`, are new. */
export const countNewErasures = (rows: string) =>
  `select count(*) as n from ${rows} m where not exists (select from erasures e where e.mark = m.mark and e.redacts <= m.redacts)`

/**
 * SQL: records the rows `m`, which have the columns of `erasures`, and counts the new ones. A redaction does not undo an erasure.
 */
export const recordErasures = (rows: string) => `
  insert into erasures as e (mark, kind, list_mark, redacts) select mark, kind, list_mark, redacts from ${rows} m order by mark
  on conflict (mark) do update set redacts = false where e.redacts and not excluded.redacts`

/**
 * Records an erasure: from then on imports refuse matching records, or drop their contacts if it `redacts`. Returns whether it is new,
 * and its mark.
 */
export async function recordErasure(
  connection: Connection,
  erasure: Erasure | UserErasure,
  redacts = false,
): Promise<{ isNew: boolean; mark: Buffer }> {
  const { mark, kind, list_mark } = toErasureRow(await findKey(kyselyOn(connection)), erasure)
  const row = '(select $1::bytea as mark, $2 as kind, $3::bytea as list_mark, $4::boolean as redacts)'
  const { rowCount } = await connection.query(recordErasures(row), [mark, kind, list_mark, redacts])
  return { isNew: rowCount === 1, mark }
}

/** Whether the user was forgotten, or the listing erased by its `href`. An erasure by a contact does not remember its listings. */
export async function isErased(db: Database, erasure: { href: string } | UserErasure): Promise<boolean> {
  const { mark } = toErasureRow(await findKey(db), erasure)
  const row = await db.selectFrom('erasures').select('redacts').where('mark', '=', mark).executeTakeFirst()
  return row?.redacts === false
}

const urls = /https?:\/\/[^\s"'<>]+/gi

/** The possible hrefs in a raw record. In CSV a comma may end a URL or belong to it: both are found. */
function findHrefs(raw: string): string[] {
  const found = raw.replaceAll('\\/', '/').match(urls) ?? []
  return [...new Set(found.flatMap((url) => [url, url.split(',')[0] as string]))]
}

const escapes = /\\(?:u([0-9a-f]{4})|(["\\/bfnrt]))/gi
const escaped: Record<string, string> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' }

/** A raw record as it came, and with the characters that JSON spells out. */
function findTexts(raw: Buffer): string[] {
  const text = raw.toString('utf8')
  if (!text.includes('\\')) return [text]
  const read = text.replace(escapes, (_, code: string | undefined, sign: string) =>
    code === undefined ? (escaped[sign] ?? sign) : String.fromCharCode(Number.parseInt(code, 16)),
  )
  return [text, read]
}

/** The kinds of erasures that exist. */
interface Kinds extends MarkKinds {
  /** Erasures by `href` that keep the listing; `href` are the others. */
  hrefRedacts: boolean
}

async function findKinds(connection: Connection): Promise<Kinds> {
  const { rows } = await connection.query<Kinds>(
    `select exists (select from erasures where kind = 'href' and not redacts) as href,
       exists (select from erasures where kind = 'href' and redacts) as "hrefRedacts",
       exists (select from erasures where kind = 'contact') as contact,
       exists (select from erasures where kind in ('email', 'phone')) as list`,
  )
  return rows[0] as Kinds
}

const allKinds: MarkKinds = { href: true, contact: true, list: true }

/**
 * The hits of the records that contain an erased URL or contact anywhere in their raw bytes, by their indexes. It reads the erasures each
 * time, since there may be new ones while a file is read.
 */
export async function findHitsAmong(
  connection: Connection,
  records: readonly { raw: Buffer }[],
): Promise<ReadonlyMap<number, Hit>> {
  const { rows } = await connection.query<{ any: boolean }>('select exists (select from erasures) as any')
  if (!rows[0]?.any) return new Map()
  const db = kyselyOn(connection)
  const key = await findKey(db)
  const marks = records.map(({ raw }) =>
    findTexts(raw).flatMap((text) => [
      ...findHrefs(text).map((href) => markOfHref(key, href)),
      ...marksOfContacts(key, findContacts(text), allKinds),
    ]),
  )
  return findHits(db, 'erasures', marks)
}

/** SQL: the mark of `bytes`, where `$1` and `$2` are what `padKey` returns. */
export const markInSql = (bytes: string) => `sha256($2::bytea || sha256($1::bytea || ${bytes}))`

/** The two keys of an HMAC, for SQL: its inner and its outer hash begin with them. */
export function padKey(key: Buffer): [inner: Buffer, outer: Buffer] {
  const pad = (byte: number) => Buffer.from(Array.from({ length: 64 }, (_, at) => (key[at] ?? 0) ^ byte))
  return [pad(0x36), pad(0x5c)]
}

/**
 * Drops, or redacts, the rows `s` of the staging table that fulfil `where`. Returns how many it dropped. A redacted row loses its raw
 * record: if it cannot be imported, it is reported and not kept.
 */
export async function dropOrRedact(
  connection: Connection,
  redacts: boolean,
  { beside, where, values }: { beside?: string; where: string; values: unknown[] },
): Promise<number> {
  if (!redacts) {
    const dropping = `delete from staged_leads s ${beside ? `using ${beside}` : ''} where ${where}`
    return (await connection.query(dropping, values)).rowCount ?? 0
  }
  const json = withoutContacts('s.json')
  await connection.query(
    `update staged_leads s set json = ${json}, json_sha256 = ${hashOfStored(json, 's.kept')}, given = given | ${contactBits}, raw = null,
       ${contactColumns.map((name) => `${name} = null`).join(', ')}
     ${beside ? `from ${beside}` : ''} where ${where}`,
    values,
  )
  return 0
}

function dropByHref(connection: Connection, key: Buffer, redacts: boolean): Promise<number> {
  return dropOrRedact(connection, redacts, {
    beside: 'erasures e',
    where: `e.kind = 'href' and e.redacts = ${redacts} and e.mark = ${markInSql('s.href_sha256')}`,
    values: padKey(key),
  })
}

const recordsPerFetch = 2_000
/** Larger contact fields are read one by one. */
const fieldBytesMax = 8 * 1024

interface StagedContact extends ContactRow {
  row: string
  small: boolean
}

async function dropByContact(connection: Connection, key: Buffer, kinds: MarkKinds): Promise<number> {
  const db = kyselyOn(connection)
  let dropped = 0
  await connection.query(
    `declare staged_contacts no scroll cursor for
     select ctid::text as row, ${boundedContacts('s', fieldBytesMax)} from staged_leads s where ${hasContact('s')}`,
  )
  for (;;) {
    const { rows } = await connection.query<StagedContact>(`fetch ${recordsPerFetch} from staged_contacts`)
    if (rows.length === 0) break
    const marks: Buffer[][] = []
    for (const row of rows) {
      const contacts = row.small ? row : await readLargeContacts(connection, row.row)
      marks.push(contacts ? marksOfFields(key, contactsOf(contacts), kinds) : [])
    }
    const hits = await findHits(db, 'erasures', marks)
    for (const redacts of [false, true]) {
      const hit = rows.filter((_, at) => hits.get(at)?.redacts === redacts).map(({ row }) => row)
      if (hit.length === 0) continue
      dropped += await dropOrRedact(connection, redacts, {
        where: 's.ctid = any ($1::tid[])',
        values: [hit],
      })
    }
  }
  await connection.query('close staged_contacts')
  return dropped
}

async function readLargeContacts(connection: Connection, row: string): Promise<ContactRow | undefined> {
  const { rows } = await connection.query<ContactRow>(
    `select ${contactColumns.join(', ')} from staged_leads where ctid = $1::tid`,
    [row],
  )
  return rows[0]
}

/**
 * Deletes the staged records whose `href` or contact was erased, and returns their number; redacts those whose listings are kept.
 * The import must hold its lock, which an erasure takes too.
 */
export async function dropErased(connection: Connection): Promise<number> {
  const { href, hrefRedacts, contact, list } = await findKinds(connection)
  if (!href && !hrefRedacts && !contact && !list) return 0
  const key = await findKey(kyselyOn(connection))
  let dropped = href ? await dropByHref(connection, key, false) : 0
  if (contact || list) dropped += await dropByContact(connection, key, { href: false, contact, list })
  // last: an erasure by a contact goes before it, and would not be seen after it
  if (hrefRedacts) dropped += await dropByHref(connection, key, true)
  return dropped
}
