/**
 * Cuts CSV (RFC 4180) into records; the first record is the header. Accepts what spreadsheets and databases write: a line `sep=;`, both
 * kinds of line ends, line ends within quotes, cells left out at the end of a line, `\"`. A quote that is not closed costs its own record.
 */
import { LeadpushError } from '../base/errors.ts'
import { columnsMax, recordBytesMax } from '../base/limits.ts'
import { foldColumnName } from './columns.ts'
import { type Cut, cutCells, cutRecord } from './csv-cells.ts'
import {
  badRecord,
  type CsvHeader,
  decode,
  doubtfulBytesMax,
  emptyAt,
  keptBytes,
  notUtf8,
  otherEncoding,
  type ReadRecord,
  type Splitter,
  tooLargeRecord,
  withoutReturn,
} from './record.ts'

const lineFeed = 10
/** What spreadsheets write above the header to tell each other the separator. */
export const separatorLine = /^"?sep=([^"\r\n])"?\r?(?:\n|$)/i

const unclosed = 'has a quote that is not closed'
const afterQuotes = 'has something between a closing quote and the next separator'

/** A URL or an e-mail address: which record it is. */
const isKey = (cell: string) => /^\s*(?:https?:\/\/\S|[^\s@]+@[^\s@]+\s*$)/i.test(cell)

/** Of the lines within quotes on which another record may begin, so many are remembered. */
const [openMax, keyedMax] = [16, 1_000]

/** A line on which a record begins, or may begin if quotes before it were not closed. */
interface Start {
  line: number
  /** From the beginning of the record under way. */
  offset: number
  /** Cells until the line under way. */
  count: number
  isBad: boolean
  isOpen: boolean
  /** It has a URL or an e-mail address where one belongs. */
  isKeyed: boolean
  /** A line of it ends as a record does, if the quote that opens there is an ordinary character: then it is not closed. */
  isUnclosed: boolean
}

/** Splits CSV that arrives in chunks. */
export class CsvSplitter implements Splitter {
  header: CsvHeader | undefined
  /** Records with exactly as many cells as the header has. */
  exact = 0
  private readonly separator: string
  private readonly identity: ReadonlySet<string>
  /** Where in a record a URL or an e-mail address belongs. */
  private keys: readonly number[] = []
  /** The bytes from the record under way on. */
  private data: Buffer = Buffer.alloc(0)
  private recordFrom = 0
  private lineFrom = 0
  private line = 1
  /** Within quotes: the record under way, and lines on which others may begin. */
  private starts: Start[] = []
  /** The beginning of a record that is too large. */
  private head: Buffer | undefined
  /** The line under way is too large. */
  private skipsLine = false

  /** `separator` is one ASCII character; `identity` names the columns of URLs or e-mail addresses that tell records apart. */
  constructor(separator = ',', identity: readonly string[] = []) {
    this.separator = separator
    this.identity = new Set(identity.map(foldColumnName))
  }

  push(chunk: Buffer): ReadRecord[] {
    const records: ReadRecord[] = []
    let at = this.data.length
    if (this.skipsLine) {
      at = chunk.indexOf(lineFeed)
      if (at < 0) return records
      this.data = chunk.subarray(at)
      at = 0
    } else this.data = at === 0 ? chunk : Buffer.concat([this.data, chunk])
    for (let end = this.data.indexOf(lineFeed, at); end >= 0; end = this.data.indexOf(lineFeed, this.lineFrom)) {
      this.takeLine(end, records)
      this.skipEmpty()
    }
    this.keepRest()
    return records
  }

  end(): ReadRecord[] {
    const records: ReadRecord[] = []
    if (this.lineFrom < this.data.length || this.skipsLine) this.takeLine(this.data.length, records)
    const [open] = this.starts
    if (open) {
      throw new LeadpushError('failed', `it breaks off inside quotes, in the record that begins on line ${open.line}`)
    }
    return records
  }

  /** Keeps the bytes of the record under way; of one that is too large its beginning and the line under way. */
  private keepRest(): void {
    this.data = this.data.subarray(this.recordFrom)
    this.lineFrom -= this.recordFrom
    this.recordFrom = 0
    // two bytes more than the limit: a line end may still be cut off
    if (this.data.length <= recordBytesMax + 2) return
    this.head ??= Buffer.from(this.data.subarray(0, keptBytes))
    this.data = this.data.subarray(this.lineFrom)
    this.lineFrom = 0
    this.starts = this.starts.slice(0, 1)
    if (this.data.length <= recordBytesMax + 2) return
    this.skipsLine = true
    this.data = Buffer.alloc(0)
  }

  private takeLine(end: number, records: ReadRecord[]): void {
    if (this.skipsLine) {
      this.skipsLine = false
      this.lineFrom = this.recordFrom
      this.endLarge(records)
    } else {
      const raw = withoutReturn(this.data.subarray(this.lineFrom, end))
      const text = decode(raw)
      const alone = this.cut(text ?? raw.toString())
      if (this.starts.length > 0) this.goOn(raw, text, alone, records)
      else if (alone.isOpen) this.starts = [this.startOf(text ?? raw.toString(), alone)]
      else this.take(this.line, raw, text, alone, records)
    }
    this.line++
    this.lineFrom = end + 1
    if (this.starts.length === 0) this.recordFrom = this.lineFrom
  }

  /** A compressed file may swell to any number of empty lines; within quotes they change nothing either. */
  private skipEmpty(): void {
    for (let length = emptyAt(this.data, this.lineFrom); length > 0; length = emptyAt(this.data, this.lineFrom)) {
      this.lineFrom += length
      this.line++
    }
    if (this.starts.length === 0) this.recordFrom = this.lineFrom
  }

  private get columns(): number {
    return this.header?.names.length ?? columnsMax
  }

  private cut(text: string): Cut {
    return cutRecord(text, { separator: this.separator, cellsMax: this.columns })
  }

  private startOf(text: string, cut: Cut): Start {
    const { cells, count, isBad, isOpen } = cut
    const isKeyed = this.isKeyed(isOpen ? cells.slice(0, -1) : cells)
    const isUnclosed = this.endsWhole(text, cut, count)
    return { line: this.line, offset: this.lineFrom - this.recordFrom, count, isBad, isOpen, isKeyed, isUnclosed }
  }

  private isKeyed(cells: readonly string[]): boolean {
    return this.keys.some((at) => isKey(cells[at] ?? ''))
  }

  private isByItself({ cells, count, isBad, isOpen }: Cut): boolean {
    return !isOpen && !isBad && count === this.columns && this.isKeyed(cells)
  }

  /** A line within quotes. Where it is a record by itself, they were not closed. */
  private goOn(raw: Buffer, text: string | undefined, alone: Cut, records: ReadRecord[]): void {
    const offset = this.lineFrom - this.recordFrom
    const line = text ?? raw.toString()
    const on = this.cutOn(line)
    for (const start of this.starts) {
      if (!start.isOpen) continue
      start.count += on.count - 1
      start.isBad ||= on.isBad
      start.isUnclosed ||= on.count > 1 && this.endsWhole(line, on, start.count)
    }
    if (this.isByItself(alone) && !this.starts.some((start) => this.mayClose(start, on))) {
      this.giveUp(offset, records)
      this.take(this.line, raw, text, alone, records)
    } else if (!on.isOpen) this.close({ offset, bytes: raw.length, line }, alone, on, records)
    else this.addStart(line, alone)
  }

  /** Whether a line that looks like a record by itself may be the last one of a record that began at `start`. */
  private mayClose({ isOpen, isBad, count, isUnclosed }: Start, on: Cut): boolean {
    if (on.isOpen || this.head || !isOpen || isBad || count !== this.columns) return false
    // a URL within the quotes is another record's
    return !isUnclosed && !this.isKeyed(this.cut(on.cells[0] ?? '').cells)
  }

  /** Whether a record of `count` cells ends with `line`, if the quote that opens its last cell is an ordinary character. */
  private endsWhole(line: string, { isOpen, lastFrom }: Cut, count: number): boolean {
    if (!isOpen) return false
    const cells = line.slice(lastFrom).split(this.separator)
    const [before, last] = [count - 1, cells.at(-1) ?? '']
    const isWhole = before + cells.length === this.columns
    const endsInKey = cells.length > 1 && this.keys.includes(this.columns - 1) && isKey(last) && !/^\s/.test(last)
    return endsInKey || (isWhole && this.keys.some((at) => isKey(cells[at - before] ?? '')))
  }

  /** Goes on within the quotes. */
  private cutOn(text: string): Cut {
    const how = { separator: this.separator, cellsMax: 1, isWithin: true }
    const on = cutCells(text, { ...how, escapes: true })
    if (!text.includes('\\"')) return on
    const plain = cutCells(text, how)
    const ends = (cut: Cut) =>
      !cut.isOpen && !cut.isBad && this.starts.some(({ count }) => count + cut.count - 1 === this.columns)
    return !ends(on) && ends(plain) ? plain : on
  }

  /** Remembers the line under way where another record may begin on it. */
  private addStart(line: string, alone: Cut): Start | undefined {
    if (!this.header || this.head) return undefined
    const start = this.startOf(line, alone)
    const mayBeKeyed = start.isOpen && !start.isBad && this.keys.some((at) => at >= alone.count - 1)
    // a line of text may be a URL
    const isRecord = start.isKeyed && alone.count > 1
    if (!mayBeKeyed && !isRecord) return undefined
    const others = this.starts.slice(1).filter(({ isKeyed }) => isKeyed === start.isKeyed)
    if (start.isKeyed && others.length >= keyedMax) return undefined
    if (!start.isKeyed && others.length >= openMax) this.starts = this.starts.filter((each) => each !== others[0])
    this.starts.push(start)
    return start
  }

  /** The quotes are closed: of the records that may have begun within them the last one that is whole, or else all of it. */
  private close(
    { offset, bytes, line }: { offset: number; bytes: number; line: string },
    alone: Cut,
    on: Cut,
    records: ReadRecord[],
  ): void {
    if (this.head) {
      this.endLarge(records)
      return
    }
    const end = offset + bytes
    const whole = (start: Start) => {
      const raw = this.rawOf(start.offset, end)
      const text = decode(raw)
      return { start, raw, text, cut: this.cut(text ?? raw.toString()) }
    }
    const mayClose = this.mayClose(this.starts[0] as Start, on)
    const found = this.starts
      .slice(1)
      .reverse()
      .filter(({ isOpen, isBad, isUnclosed, count }) => isOpen && !isBad && !isUnclosed && count === this.columns)
      .filter(({ isKeyed }) => isKeyed || !mayClose)
      .map(whole)
      .find(({ cut }) => this.isByItself(cut))
    if (found) {
      this.giveUp(found.start.offset, records)
      this.take(found.start.line, found.raw, found.text, found.cut, records)
      return
    }
    const main = whole(this.starts[0] as Start)
    const hasOther = this.starts.slice(1).some(({ isKeyed }) => isKeyed)
    const begun = mayClose ? undefined : this.addStart(line, alone)
    const { isOpen, isBad, hasMore } = main.cut
    const isGood = !isOpen && !isBad && !hasMore && !main.start.isUnclosed
    if (isGood && !hasOther && !begun?.isKeyed) {
      this.starts = []
      this.take(main.start.line, main.raw, main.text, main.cut, records)
    } else if (begun?.isOpen) {
      this.giveUp(offset, records)
      this.recordFrom = this.lineFrom
      this.starts = [{ ...begun, offset: 0 }]
    } else this.giveUp(end, records)
  }

  private rawOf(from: number, to: number): Buffer {
    const raw = this.data.subarray(this.recordFrom + from, this.recordFrom + to)
    return withoutReturn(raw[raw.length - 1] === lineFeed ? raw.subarray(0, -1) : raw)
  }

  /** Rejects the bytes up to `end`: their quotes are not closed. A line within them that can be read alone goes in. */
  private giveUp(end: number, records: ReadRecord[]): void {
    const { starts } = this
    this.starts = []
    if (this.head) {
      this.endLarge(records, starts[0]?.line)
      return
    }
    const begun = starts.filter(({ isKeyed, offset }, at) => at === 0 || (isKeyed && offset < end))
    for (const [at, { line, offset, isOpen }] of begun.entries()) {
      const raw = this.rawOf(offset, begun[at + 1]?.offset ?? end)
      const text = decode(raw)
      const cut = this.cut(text ?? raw.toString())
      const isAlone = !isOpen && !raw.includes(lineFeed)
      this.take(line, raw, text, isAlone ? cut : { ...cut, isOpen: !cut.isBad }, records)
    }
  }

  private endLarge(records: ReadRecord[], line = this.starts[0]?.line ?? this.line): void {
    const { head = Buffer.alloc(0) } = this
    this.head = undefined
    this.starts = []
    if (!this.header) throw new LeadpushError('failed', 'its first line is too long for the header of a CSV file')
    records.push(this.withDoubtful(tooLargeRecord(line, head)))
  }

  private take(line: number, raw: Buffer, text: string | undefined, cut: Cut, records: ReadRecord[]): void {
    if (raw.length === 0) return
    if (!this.header) {
      if (line === 1 && separatorLine.test(raw.toString('latin1'))) return
      this.header = readHeader(raw, text, cut)
      const names = this.header.names.map(foldColumnName)
      const named = [...names.keys()].filter((at) => this.identity.has(names[at] ?? ''))
      this.keys = named.length > 0 ? named : [...names.keys()]
      return
    }
    const record = raw.length > recordBytesMax ? tooLargeRecord(line, raw) : this.read(line, raw, text, cut)
    if (record) records.push(record.error === undefined ? record : this.withDoubtful(record))
  }

  /** Cuts a record that cannot be read. */
  private withDoubtful(record: ReadRecord): ReadRecord {
    const text = record.raw.subarray(0, doubtfulBytesMax).toString()
    const { cells, count, isOpen, isBad } = cutRecord(text, { separator: this.separator, cellsMax: columnsMax })
    if (!isOpen && !isBad && count === cells.length) return { ...record, doubtfulCells: cells }
    const plain = text.split(this.separator).map((cell) => cell.replace(/^"(.*)"$/s, '$1'))
    return { ...record, doubtfulCells: plain }
  }

  private read(line: number, raw: Buffer, text: string | undefined, cut: Cut): ReadRecord | undefined {
    if (text === undefined) return badRecord(line, raw, notUtf8)
    if (cut.isBad) return badRecord(line, raw, afterQuotes)
    if (cut.isOpen) return badRecord(line, raw, unclosed)
    const { cells, count } = cut
    const { columns } = this
    if (cut.hasMore) return badRecord(line, raw, `has ${count} cells where the header has ${columns}`)
    // spreadsheets write the empty rows below a table, as ,,,
    if (cells.every((cell) => cell.trim() === '')) return undefined
    if (count === columns) this.exact++
    while (cells.length < columns) cells.push('')
    return { line, raw, cells }
  }
}

function readHeader(raw: Buffer, text: string | undefined, { cells, count, isBad }: Cut): CsvHeader {
  if (text === undefined) throw otherEncoding('its header')
  if (raw.length > recordBytesMax)
    throw new LeadpushError('failed', 'its first line is too long for the header of a CSV file')
  // otherwise the whole file would be its header
  if (/\r/.test(text.trimEnd().replace(/"[^"]*"/g, ''))) {
    throw new LeadpushError('failed', 'its lines end in a carriage return alone: they must end in LF or CR LF')
  }
  if (isBad) throw new LeadpushError('failed', 'its first line is no header of a CSV file: its quotes are wrong')
  if (count > columnsMax) throw new LeadpushError('failed', `its header has more than ${columnsMax} columns`)
  return { names: cells.map((name) => name.trim()), raw }
}
