/**
 * Cuts CSV (RFC 4180) into records and cells; the first record is the header. Accepts what spreadsheets write: a byte order
 * mark, a line `sep=;`, both kinds of line ends, line ends and quotes inside quotes. A quote in the middle of an unquoted cell is an ordinary
 * character.
 */
import { LeadpushError } from '../base/errors.ts'
import { recordBytesMax } from '../base/limits.ts'
import {
  badRecord,
  type CsvHeader,
  decode,
  notUtf8,
  otherEncoding,
  type ReadRecord,
  RecordBytes,
  type Splitter,
  tooLargeRecord,
  withoutReturn,
} from './record.ts'

const [quote, lineFeed] = [34, 10]
/** What spreadsheets write above the header to tell each other the separator. */
export const separatorLine = /^"?sep=([^"\r\n])"?\r?(?:\n|$)/i
/** The scanner's position within a cell. */
const atStart = 0
const bare = 1
const quoted = 2
const afterQuote = 3

/** The cells of one record; undefined where text follows a closing quote. */
export function splitCells(text: string, separator = ','): string[] | undefined {
  const separates = separator.charCodeAt(0)
  const cells: string[] = []
  let from = 0
  for (;;) {
    let next: number
    if (text.charCodeAt(from) === quote) {
      let close = text.indexOf('"', from + 1)
      let doubled = false
      while (close >= 0 && text.charCodeAt(close + 1) === quote) {
        doubled = true
        close = text.indexOf('"', close + 2)
      }
      if (close < 0) return undefined
      const cell = text.slice(from + 1, close)
      cells.push(doubled ? cell.replaceAll('""', '"') : cell)
      next = close + 1
      if (next < text.length && text.charCodeAt(next) !== separates) return undefined
    } else {
      next = text.indexOf(separator, from)
      if (next < 0) next = text.length
      cells.push(text.slice(from, next))
    }
    if (next >= text.length) return cells
    from = next + 1
  }
}

/** Splits CSV that arrives in chunks. */
export class CsvSplitter implements Splitter {
  header: CsvHeader | undefined
  private line = 1
  private beginsOn = 1
  private state = atStart
  private readonly coming = new RecordBytes()
  private readonly separator: string

  /** `separator` is one ASCII character. */
  constructor(separator = ',') {
    this.separator = separator
  }

  push(chunk: Buffer): ReadRecord[] {
    const records: ReadRecord[] = []
    const separates = this.separator.charCodeAt(0)
    let state = this.state
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (byte === lineFeed) this.line++
      if (state === quoted) {
        if (byte === quote) state = afterQuote
      } else if (byte === lineFeed) {
        // a compressed file may swell to any number of empty lines
        if (at === from && this.coming.isEmpty) this.beginsOn = this.line
        else {
          this.coming.add(chunk.subarray(from, at))
          this.take(records)
        }
        from = at + 1
        state = atStart
      } else if (byte === separates) state = atStart
      else if (byte === quote && state !== bare) state = quoted
      else state = bare
    }
    this.coming.add(chunk.subarray(from))
    this.state = state
    return records
  }

  end(): ReadRecord[] {
    if (this.state === quoted) {
      throw new LeadpushError(
        'failed',
        `it breaks off inside quotes, in the record that begins on line ${this.beginsOn}`,
      )
    }
    const records: ReadRecord[] = []
    this.take(records)
    return records
  }

  private take(records: ReadRecord[]): void {
    const line = this.beginsOn
    this.beginsOn = this.line
    const { bytes, tooLarge } = this.coming.take()
    const raw = withoutReturn(bytes)
    if (raw.length === 0) return
    if (!this.header) {
      if (line === 1 && separatorLine.test(raw.toString('latin1'))) return
      this.header = readHeader(raw, tooLarge, this.separator)
      return
    }
    const record = tooLarge || raw.length > recordBytesMax ? tooLargeRecord(line, raw) : this.read(line, raw)
    if (record) records.push(record.error === undefined ? record : { ...record, doubtfulCells: this.cut(record.raw) })
  }

  /** Cuts a record that cannot be read. */
  private cut(raw: Buffer): string[] {
    const text = raw.toString('utf8')
    const plain = () => text.split(this.separator).map((cell) => cell.replace(/^"(.*)"$/s, '$1'))
    return splitCells(text, this.separator) ?? plain()
  }

  private read(line: number, raw: Buffer): ReadRecord | undefined {
    const text = decode(raw)
    if (text === undefined) return badRecord(line, raw, notUtf8)
    const cells = splitCells(text, this.separator)
    if (cells === undefined) return badRecord(line, raw, 'has something between a closing quote and the next separator')
    // spreadsheets write the empty rows below a table, as ,,,
    if (cells.every((cell) => cell.trim() === '')) return undefined
    const columns = this.header?.names.length ?? 0
    if (cells.length === columns) return { line, raw, cells }
    return badRecord(line, raw, `has ${cells.length} cells where the header has ${columns}`)
  }
}

function readHeader(raw: Buffer, tooLarge: boolean, separator: string): CsvHeader {
  const text = tooLarge ? undefined : decode(raw)
  if (text === undefined) {
    if (!tooLarge) throw otherEncoding('its header')
    throw new LeadpushError('failed', 'its first line is too long for the header of a CSV file')
  }
  // otherwise the whole file would be its header
  if (/\r/.test(text.trimEnd().replace(/"[^"]*"/g, ''))) {
    throw new LeadpushError('failed', 'its lines end in a carriage return alone: they must end in LF or CR LF')
  }
  const names = splitCells(text, separator)
  if (!names) throw new LeadpushError('failed', 'its first line is no header of a CSV file: its quotes are wrong')
  return { names: names.map((name) => name.trim()), raw }
}
