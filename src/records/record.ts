/**
 * One record of an import, as the splitters of the three formats hand it on; and the bytes of an incoming record, never more
 * of them than a record may have.
 */
import { isUtf8 } from 'node:buffer'
import { LeadpushError } from '../base/errors.ts'
import { recordBytesMax, recordDepthMax, recordKeysMax, recordValuesMax } from '../base/limits.ts'

/** How a file writes its records. */
export type RecordFormat = 'ndjson' | 'json' | 'csv'

/** A record, parsed as far as its format allows. */
export interface ReadRecord {
  /** The line on which it begins, from 1; in a JSON array the number of the element. */
  line: number
  /** Its bytes as they came, without the line end; where it is too large, its beginning. */
  raw: Buffer
  /** In NDJSON and JSON the parsed value. */
  value?: unknown
  /** In CSV the text of each column. */
  cells?: string[]
  /** Why it cannot be read; then it has neither value nor cells. */
  error?: string
  /** In CSV, of a record that cannot be read: what a plain cut at each separator gives. They only tell whose record it is. */
  doubtfulCells?: readonly string[]
}

/**
 * What stands in column `at` of `columns`, as `read` takes it: a cell that is too many or too few may stand before it or behind it, so
 * cells are counted from both ends. Undefined where `read` takes neither.
 */
export function findShifted<T>(
  cells: readonly string[],
  { at, columns }: { at: number; columns: number },
  read: (cell: string) => T | undefined,
): T | undefined {
  if (at < 0) return undefined
  for (const place of [at, cells.length - columns + at]) {
    const cell = cells[place]?.trim() ?? ''
    // bytes that were no UTF-8 would make it another's
    const found = cell === '' || cell.includes('\ufffd') ? undefined : read(cell)
    if (found !== undefined) return found
  }
  return undefined
}

/** The same of a record of JSON that cannot be read: the one value behind the key `name`, in any case. */
export function findDoubtfulKey<T>(raw: Buffer, name: string, read: (text: string) => T | undefined): T | undefined {
  // `"name":"x"`: a bad record may be of two bytes
  if (raw.length < name.length + 6) return undefined
  const key = JSON.stringify(name).replace(/[^\w\s]/g, '\\$&')
  const values = raw
    .subarray(0, doubtfulBytesMax)
    .toString()
    .matchAll(new RegExp(`${key}\\s*:\\s*"([^"\\s]+)"`, 'gi'))
  const [value = '', other] = [...values].map(([, text = '']) => text.replaceAll('\\/', '/'))
  return other !== undefined || value === '' || value.includes('\ufffd') ? undefined : read(value)
}

/** Cuts the bytes of a file into records. */
export interface Splitter {
  /** Returns the records that `chunk` completes; may keep `chunk`. Throws `failed` where the file does not have the format. */
  push(chunk: Buffer): ReadRecord[]
  /** Returns the records that end with the file. Throws `failed` where the file is broken off. */
  end(): ReadRecord[]
  /** CSV: what its first line says. */
  readonly header?: CsvHeader | undefined
}

/** The columns of a CSV file, and its header line as it came. */
export interface CsvHeader {
  names: readonly string[]
  raw: Buffer
}

export const tooLarge = `is larger than ${recordBytesMax} bytes`
/** How much of a too large record is kept, to be shown. */
export const keptBytes = 64 * 1024
/** So much of a record of CSV that cannot be read is looked at for whose it is. */
export const doubtfulBytesMax = 64 * 1024

export const isSpace = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** The pieces of the incoming record. */
export class RecordBytes {
  private pieces: Buffer[] = []
  private bytes = 0
  /** The last byte that is not white space: it tells whether a too large record was complete. */
  lastByte: number | undefined

  get isEmpty(): boolean {
    return this.bytes === 0
  }

  add(piece: Buffer): void {
    if (piece.length === 0) return
    this.bytes += piece.length
    for (let at = piece.length - 1; at >= 0; at--) {
      if (isSpace(piece[at])) continue
      this.lastByte = piece[at]
      break
    }
    // two bytes more than the limit: a line end may still be cut off
    if (this.bytes <= recordBytesMax + 2) this.pieces.push(piece)
    else if (this.pieces.length > 0) {
      const kept = Buffer.concat(this.pieces).subarray(0, keptBytes)
      this.pieces = []
      this.kept = Buffer.from(kept)
    }
  }

  private kept: Buffer | undefined

  /** Returns the record and starts anew. `tooLarge`: only the beginning is left. */
  take(): { bytes: Buffer; tooLarge: boolean } {
    const large = this.bytes > recordBytesMax + 2
    const first = this.pieces[0]
    const whole = this.pieces.length === 1 && first ? first : Buffer.concat(this.pieces)
    const bytes = large ? (this.kept ?? Buffer.alloc(0)) : whole
    this.pieces = []
    this.bytes = 0
    this.kept = undefined
    this.lastByte = undefined
    return { bytes, tooLarge: large }
  }
}

/** A record that cannot be read. */
export function badRecord(line: number, raw: Buffer, error: string): ReadRecord {
  return { line, raw, error }
}

/** A record that exceeds the limit; keeps its beginning. */
export function tooLargeRecord(line: number, raw: Buffer): ReadRecord {
  return badRecord(line, raw.subarray(0, keptBytes), tooLarge)
}

/** The bytes without the carriage return of a CR LF line end. */
export function withoutReturn(bytes: Buffer): Buffer {
  return bytes[bytes.length - 1] === 0x0d ? bytes.subarray(0, -1) : bytes
}

/** The length of the empty line at `at`, with its line end; 0 if there is none. */
export function emptyAt(bytes: Buffer, at: number): 0 | 1 | 2 {
  if (bytes[at] === 0x0a) return 1
  return bytes[at] === 0x0d && bytes[at + 1] === 0x0a ? 2 : 0
}

/** The bytes without JSON's white space at both ends. */
export function trimSpace(bytes: Buffer): Buffer {
  let from = 0
  let to = bytes.length
  while (from < to && isSpace(bytes[from])) from++
  while (to > from && isSpace(bytes[to - 1])) to--
  return from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to)
}

/**
 * An element of a JSON array as one line of NDJSON. Line ends become spaces: outside of strings they are white space, and
 * inside they cannot be.
 */
export function onOneLine(raw: Buffer): Buffer {
  return raw.includes(0x0a) || raw.includes(0x0d)
    ? Buffer.from(raw.map((byte) => (byte === 0x0a || byte === 0x0d ? 0x20 : byte)))
    : raw
}

/** The text of a record; undefined where it is not UTF-8. */
export function decode(bytes: Buffer): string | undefined {
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined
}

export const notUtf8 = 'is no valid UTF-8'

/** The error of a file with bytes that are no UTF-8 in `where`, and no sign of UTF-8 before. */
export function otherEncoding(where: string, otherwise = ''): LeadpushError {
  const hint = `Give its encoding, most likely: --encoding windows-1252${otherwise}`
  return new LeadpushError('failed', `it is in another encoding than UTF-8: ${where} ${notUtf8}`, { hint })
}

export const notJson = 'is no valid JSON'

/** Whether it has as many bytes, or brackets, as one that `findExcess` finds: nearly none has. */
function mayExceed(raw: Buffer): boolean {
  if (raw.length > recordKeysMax) return true
  let brackets = 0
  for (const bracket of [0x7b, 0x5b])
    for (let at = raw.indexOf(bracket); at >= 0; at = raw.indexOf(bracket, at + 1))
      if (++brackets > recordDepthMax) return true
  return false
}

/** Why a record must not be parsed, which would take many times its length: it is too deep, or has too many values or names. */
function findExcess(raw: Buffer): string | undefined {
  if (!mayExceed(raw)) return undefined
  let [depth, values, keys] = [0, 1, 0]
  for (let at = 0; at < raw.length; at++) {
    const byte = raw[at]
    if (byte === 0x22) {
      at = findQuote(raw, at + 1)
      if (at < 0) return undefined
    } else if (byte === 0x7b || byte === 0x5b) {
      if (++depth > recordDepthMax) return `is nested more than ${recordDepthMax} deep`
      values++
    } else if (byte === 0x7d || byte === 0x5d) depth--
    else if (byte === 0x2c && ++values > recordValuesMax) return `has more than ${recordValuesMax} values`
    else if (byte === 0x3a && ++keys > recordKeysMax) return `has more than ${recordKeysMax} names of values`
  }
  return undefined
}

/** The quote that ends the string from `from` on; -1 where there is none. */
function findQuote(raw: Buffer, from: number): number {
  for (let at = from; at < raw.length; at++) {
    const byte = raw[at]
    if (byte === 0x5c) at++
    else if (byte === 0x22) return at
  }
  return -1
}

/** Whether the object `raw` has the key `name` twice: two records became one, and the parser would give the one the key of the other. */
export function hasTwice(raw: Buffer, name: string): boolean {
  const key = Buffer.from(JSON.stringify(name))
  const first = raw.indexOf(key)
  if (first < 0 || raw.indexOf(key, first + key.length) < 0) return false
  let [depth, found] = [0, 0]
  for (let at = 0; at < raw.length; at++) {
    const byte = raw[at]
    if (byte === 0x7b || byte === 0x5b) depth++
    else if (byte === 0x7d || byte === 0x5d) depth--
    else if (byte === 0x22) {
      const end = findQuote(raw, at + 1)
      if (end < 0) return false
      let next = end + 1
      while (isSpace(raw[next])) next++
      if (depth === 1 && raw[next] === 0x3a && raw.subarray(at, end + 1).equals(key)) found++
      at = end
    }
  }
  return found > 1
}

/** Parses one record as JSON. The parser's own messages quote the record, so they are not passed on. */
export function parseJsonRecord(line: number, raw: Buffer): ReadRecord {
  if (raw.length > recordBytesMax) return tooLargeRecord(line, raw)
  const excess = findExcess(raw)
  if (excess !== undefined) return badRecord(line, raw, excess)
  const text = decode(raw)
  if (text === undefined) return badRecord(line, raw, notUtf8)
  try {
    return { line, raw, value: JSON.parse(text) as unknown }
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1]
    if (position === undefined) return badRecord(line, raw, notJson)
    const what = text[Number(position)] === '\0' ? ', which is a NUL' : ''
    return badRecord(line, raw, `${notJson} (from its character ${Number(position) + 1} on${what})`)
  }
}
