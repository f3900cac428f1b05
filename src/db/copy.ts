/**
 * Copies rows into a table by binary COPY, the fastest way in: the encoder of rows, and the stream to the server. Copies rows of any kind
 * out and in as COPY's text, for backups and for readers of whole tables. Only this file knows `pg-copy-streams`.
 */
import { once } from 'node:events'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import copyStreams from 'pg-copy-streams'
import type { OpenDatabase } from './open.ts'
import { noteSource } from './silence.ts'
import type { Connection } from './transaction.ts'

const firstBytes = 80 * 1024
/** Rows are sent once so many bytes are collected. */
const fullBytes = 64 * 1024

/** PGCOPY, no flags, no extension: PostgreSQL's documentation of COPY, "Binary Format". */
const header = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)])

const textOid = pg.types.builtins.TEXT

/** Encodes rows: `begin` with the number of columns, then each column in its order. */
export class CopyRows {
  private buffer = Buffer.allocUnsafe(firstBytes)
  private at = 0

  constructor() {
    this.at = header.copy(this.buffer)
  }

  get isFull(): boolean {
    return this.at >= fullBytes
  }

  begin(columns: number): void {
    this.ensure(2)
    this.at = this.buffer.writeInt16BE(columns, this.at)
  }

  null(): void {
    this.ensure(4)
    this.at = this.buffer.writeInt32BE(-1, this.at)
  }

  integer(value: number | undefined): void {
    if (value === undefined) {
      this.null()
      return
    }
    this.ensure(8)
    this.at = this.buffer.writeInt32BE(4, this.at)
    this.at = this.buffer.writeInt32BE(value, this.at)
  }

  boolean(value: boolean | undefined): void {
    if (value === undefined) {
      this.null()
      return
    }
    this.ensure(5)
    this.at = this.buffer.writeInt32BE(1, this.at)
    this.at = this.buffer.writeInt8(value ? 1 : 0, this.at)
  }

  bigint(value: number | undefined): void {
    if (value === undefined) {
      this.null()
      return
    }
    this.ensure(12)
    this.at = this.buffer.writeInt32BE(8, this.at)
    // in two halves: a BigInt for each value would be garbage
    this.at = this.buffer.writeInt32BE(Math.floor(value / 2 ** 32), this.at)
    this.at = this.buffer.writeUInt32BE(value >>> 0, this.at)
  }

  double(value: number | undefined): void {
    if (value === undefined) {
      this.null()
      return
    }
    this.ensure(12)
    this.at = this.buffer.writeInt32BE(8, this.at)
    this.at = this.buffer.writeDoubleBE(value, this.at)
  }

  bytea(value: Uint8Array | undefined): void {
    if (value === undefined) {
      this.null()
      return
    }
    this.ensure(4 + value.length)
    this.at = this.buffer.writeInt32BE(value.length, this.at)
    this.buffer.set(value, this.at)
    this.at += value.length
  }

  text(value: string | undefined): void {
    if (value === undefined) {
      this.null()
      return
    }
    // a UTF-16 unit takes 3 bytes of UTF-8 at most
    this.ensure(4 + value.length * 3)
    const bytes = this.buffer.write(value, this.at + 4, 'utf8')
    this.buffer.writeInt32BE(bytes, this.at)
    this.at += 4 + bytes
  }

  /** A `text[]` of one dimension. */
  texts(values: readonly string[] | undefined): void {
    if (values === undefined) {
      this.null()
      return
    }
    this.ensure(24)
    const start = this.at
    // dimensions (none for an empty array), no nulls, the type, then of the dimension its length and first index
    const head = values.length === 0 ? [0, 0, textOid] : [1, 0, textOid, values.length, 1]
    this.at += 4
    for (const value of head) this.at = this.buffer.writeInt32BE(value, this.at)
    for (const value of values) this.text(value)
    this.buffer.writeInt32BE(this.at - start - 4, start)
  }

  /** `lexemes` are distinct, have no NUL, and get no positions. */
  tsvector(lexemes: readonly string[] | undefined): void {
    if (lexemes === undefined) {
      this.null()
      return
    }
    // each ends with a NUL, and has the number of its positions, 0, in two bytes
    const text = [...lexemes, ''].join('\0\0\0')
    this.ensure(8 + text.length * 3)
    const bytes = this.buffer.write(text, this.at + 8, 'utf8')
    this.buffer.writeInt32BE(4 + bytes, this.at)
    this.buffer.writeInt32BE(lexemes.length, this.at + 4)
    this.at += 8 + bytes
  }

  /** Returns the bytes encoded so far. The next rows go to another buffer, because the connection may still read this one. */
  take(): Buffer {
    const taken = this.buffer.subarray(0, this.at)
    this.buffer = Buffer.allocUnsafe(firstBytes)
    this.at = 0
    return taken
  }

  /** Returns the last bytes with the end marker of the copy. */
  finish(): Buffer {
    this.ensure(2)
    this.at = this.buffer.writeInt16BE(-1, this.at)
    return this.take()
  }

  private ensure(bytes: number): void {
    if (this.at + bytes <= this.buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.buffer.length * 2, this.at + bytes))
    this.buffer.copy(larger, 0, 0, this.at)
    this.buffer = larger
  }
}

/**
 * Copies the rows that `fill` encodes into `target` (a table with its columns in brackets). `fill` adds rows and awaits
 * `flush` after each. An error that it throws ends the copy, and the transaction with it. `broken` is aborted when the
 * connection is gone, since `fill` may be waiting for something else.
 */
export async function copyInto<T>(
  connection: Connection,
  target: string,
  fill: (rows: CopyRows, flush: () => Promise<void> | void, broken: AbortSignal) => Promise<T>,
): Promise<T> {
  const stream = connection.query(copyStreams.from(`copy ${target} from stdin (format binary)`))
  // `on`, not `once`: a stream whose connection is gone fails again when it is ended
  const failed = new Promise<never>((_, reject) => stream.on('error', reject))
  const broken = new AbortController()
  failed.catch((error) => broken.abort(error))
  const rows = new CopyRows()
  const write = async (bytes: Buffer) => {
    if (stream.write(bytes)) return
    noteSource(connection, false)
    await Promise.race([once(stream, 'drain'), failed])
    noteSource(connection, true)
  }
  noteSource(connection, true)
  try {
    const flush = () => (rows.isFull ? write(rows.take()) : undefined)
    const result = await Promise.race([fill(rows, flush, broken.signal), failed])
    noteSource(connection, false)
    const finished = once(stream, 'finish')
    stream.end(rows.finish())
    await Promise.race([finished, failed])
    return result
  } catch (error) {
    // tells the server that the copy failed, ahead of the rollback
    stream.destroy(error as Error)
    throw error
  } finally {
    noteSource(connection, false)
  }
}

const quote = (table: string, columns: readonly string[]) =>
  `${pg.escapeIdentifier(table)} (${columns.map((name) => pg.escapeIdentifier(name)).join(', ')})`

/** The rows of `table` as text, in pieces; once they have been read, `rowCount` tells how many they were. */
export const copyOut = (connection: Connection, table: string, columns: readonly string[]) =>
  connection.query(copyStreams.to(`copy ${quote(table, columns)} to stdout`))

/**
 * The rows of `query`, which takes no parameters, as COPY's text: columns with tabs between them, and a line end after each row. They
 * come in one piece, which the caller bounds. Whole rows of it can be compared without being parsed.
 */
export async function copyText({ pool }: Pick<OpenDatabase, 'pool'>, query: string): Promise<string> {
  const connection = await pool.connect()
  let broken: Error | undefined
  try {
    const pieces: Buffer[] = []
    for await (const piece of connection.query(copyStreams.to(`copy (${query}) to stdout`))) pieces.push(piece)
    return Buffer.concat(pieces).toString()
  } catch (error) {
    broken = error as Error
    throw error
  } finally {
    connection.release(broken)
  }
}

/** PostgreSQL's documentation of COPY, "Text Format". */
const escapes: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }

/** The text in a column that is not null, from a row of `copyText`. */
export const readColumn = (column: string): string =>
  column.includes('\\') ? column.replace(/\\(.)/g, (_, sign: string) => escapes[sign] ?? sign) : column

/** Copies rows in the form of `copyOut` into `table`, and returns their number. */
export async function copyIn(
  connection: Connection,
  table: string,
  columns: readonly string[],
  rows: AsyncIterable<Uint8Array>,
): Promise<number> {
  const stream = connection.query(copyStreams.from(`copy ${quote(table, columns)} from stdin`))
  noteSource(connection, true)
  await pipeline(rows, stream).finally(() => noteSource(connection, false))
  return stream.rowCount
}
