/**
 * One record of an import as the readers hand it on, and the bytes of one that is still coming in, never more of them than
 * a record may have. The splitters of the three formats are built on both.
 */
import { isUtf8 } from 'node:buffer'
import { recordBytesMax } from '../base/limits.ts'

export interface ReadRecord {
  /** Where it begins, 1-based; in a JSON array its number. */
  line: number
  /** Its bytes as they came, without the line end; of a record that is too large, the beginning. */
  raw: Buffer
  /** What JSON makes of it. */
  value?: unknown
  /** What CSV makes of it, a text a column. */
  cells?: string[]
  /** Why it is no record at all; then it has neither value nor cells. */
  error?: string
}

/** Cuts the bytes of a file into records. */
export interface Splitter {
  /** The records that are complete with `chunk`, which the splitter may keep. Throws `failed` where the file is no such file. */
  push(chunk: Buffer): ReadRecord[]
  /** The records that end with the file. Throws `failed` where it is broken off. */
  end(): ReadRecord[]
  /** CSV: what its first line says. */
  readonly header?: CsvHeader | undefined
}

export interface CsvHeader {
  names: readonly string[]
  raw: Buffer
}

const tooLarge = `is larger than ${recordBytesMax} bytes`
/** So much of a record that is too large is kept, to be shown. */
const keptBytes = 64 * 1024

const isSpace = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/** The pieces of the record that is coming in. */
export class RecordBytes {
  private pieces: Buffer[] = []
  private bytes = 0
  /** The last byte that is no white space: it tells whether a record that is too large was complete. */
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
    // two bytes more than a record may have: a line end may still be cut off
    if (this.bytes <= recordBytesMax + 2) this.pieces.push(piece)
    else if (this.pieces.length > 0) {
      const kept = Buffer.concat(this.pieces).subarray(0, keptBytes)
      this.pieces = []
      this.kept = Buffer.from(kept)
    }
  }

  private kept: Buffer | undefined

  /** The whole record, and what is coming in is empty again; `tooLarge` where only its beginning is left. */
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

export function tooLargeRecord(line: number, raw: Buffer): ReadRecord {
  return badRecord(line, raw.subarray(0, keptBytes), tooLarge)
}

/** Without the carriage return of a line that ends in CR LF. */
export function withoutReturn(bytes: Buffer): Buffer {
  return bytes[bytes.length - 1] === 0x0d ? bytes.subarray(0, -1) : bytes
}

export function trimSpace(bytes: Buffer): Buffer {
  let from = 0
  let to = bytes.length
  while (from < to && isSpace(bytes[from])) from++
  while (to > from && isSpace(bytes[to - 1])) to--
  return from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to)
}

/** An element of an array as a line of NDJSON: outside of strings a line end is a space, and inside there can be none. */
export function onOneLine(raw: Buffer): Buffer {
  return raw.includes(0x0a) || raw.includes(0x0d)
    ? Buffer.from(raw.map((byte) => (byte === 0x0a || byte === 0x0d ? 0x20 : byte)))
    : raw
}

/** The text of a record; undefined where it is no UTF-8. */
export function decode(bytes: Buffer): string | undefined {
  return isUtf8(bytes) ? bytes.toString('utf8') : undefined
}

export const notUtf8 = 'is no valid UTF-8'
export const notJson = 'is no valid JSON'

/** What a JSON parser makes of one record. Its own messages quote the record, so they are not passed on. */
export function parseJsonRecord(line: number, raw: Buffer): ReadRecord {
  if (raw.length > recordBytesMax) return tooLargeRecord(line, raw)
  const text = decode(raw)
  if (text === undefined) return badRecord(line, raw, notUtf8)
  try {
    return { line, raw, value: JSON.parse(text) }
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1]
    return badRecord(line, raw, position ? `${notJson} (from its character ${Number(position) + 1} on)` : notJson)
  }
}
