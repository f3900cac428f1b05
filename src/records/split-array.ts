/**
 * Cuts a JSON array into its elements by brackets and quotes alone, and each element is parsed by itself. A bad one costs no other: where
 * quotes or brackets are wrong, it ends where the next object begins.
 */
import { LeadpushError } from '../base/errors.ts'
import { recordBytesMax } from '../base/limits.ts'
import {
  badRecord,
  isSpace,
  keptBytes,
  notJson,
  parseJsonRecord,
  type ReadRecord,
  type Splitter,
  tooLargeRecord,
  trimSpace,
} from './record.ts'

const [quote, comma, colon, backslash] = [34, 44, 58, 92]
const [openBracket, closeBracket, openBrace, closeBrace] = [91, 93, 123, 125]

/** Deeper brackets are counted and not told apart: their element is bad anyway. */
const toldDepthMax = 1_000
/** The parser takes long to say what is wrong, and there may be a bad element every two bytes: of shorter ones it is not asked. */
const shortBytes = 64
/** So far back it is looked for the brackets that stand before a quote. */
const lookBackBytes = 256

const isStructural = (byte: number | undefined) =>
  byte === comma ||
  byte === colon ||
  byte === openBrace ||
  byte === closeBrace ||
  byte === openBracket ||
  byte === closeBracket
/** What may follow a string. */
const mayFollow = (byte: number | undefined) => isStructural(byte) && byte !== openBrace && byte !== openBracket
/** With what a number, a string, `true`, `false` or `null` begins. */
const beginsValue = (byte: number) => byte === quote || /[-\dtfn]/.test(String.fromCharCode(byte))

/** The open brackets of an element. */
class Brackets {
  private readonly open: number[] = []
  private braces = 0
  private deeper = 0

  get depth(): number {
    return this.open.length + this.deeper
  }

  /** Undefined where there is none, or too many. */
  get last(): number | undefined {
    return this.deeper > 0 ? undefined : this.open[this.open.length - 1]
  }

  add(bracket: number): void {
    if (this.open.length === toldDepthMax) this.deeper++
    else {
      this.open.push(bracket)
      if (bracket === openBrace) this.braces++
    }
  }

  /** Closes the last one, and any within it that lack their end. Returns whether it fits. */
  close(bracket: number): { found: boolean; fits: boolean } {
    if (this.deeper > 0) {
      this.deeper--
      return { found: true, fits: true }
    }
    const wanted = bracket === closeBrace ? openBrace : openBracket
    const found = wanted === openBrace ? this.braces > 0 : this.open.length > this.braces
    const fits = this.last === wanted
    while (found) if (this.pop() === wanted) break
    return { found, fits }
  }

  pop(): number | undefined {
    const bracket = this.open.pop()
    if (bracket === openBrace) this.braces--
    return bracket
  }

  clear(): void {
    this.open.length = 0
    this.braces = 0
    this.deeper = 0
  }
}

/** Splits a JSON array that arrives in chunks. */
export class ArraySplitter implements Splitter {
  private position: 'before' | 'inside' | 'after' = 'before'
  private number = 0
  private readonly brackets = new Brackets()
  /** The bytes from the element under way on, and how many were looked at. */
  private data: Buffer = Buffer.alloc(0)
  private from = 0
  private at = 0
  /** Where the string under way begins; -1 outside of strings. */
  private stringFrom = -1
  /** Where a quote stands that ends a string if the next byte says so; -1 for none. */
  private quoteAt = -1
  private escaped = false
  /** The last byte outside of strings that is no white space, and where a comma was the last. */
  private last: number | undefined
  private commaAt = -1
  private hasContent = false
  private isBad = false
  /** An end of a list that no list of the element has: perhaps that of the array. */
  private strayEnd = -1
  /** The beginning of an element that is too large. */
  private head: Buffer | undefined

  push(chunk: Buffer): ReadRecord[] {
    const records: ReadRecord[] = []
    const rest = this.take(chunk, records)
    if (this.position === 'after' && trimSpace(rest).length > 0) {
      throw new LeadpushError('failed', 'something follows the end of its JSON array')
    }
    return records
  }

  /** Adds the elements that `chunk` completes to `records`, and returns what follows the end of the array. */
  take(chunk: Buffer, records: ReadRecord[]): Buffer {
    const inside = this.position === 'before' ? this.enter(chunk) : chunk
    return this.position === 'inside' ? this.split(inside, records) : inside
  }

  get isOver(): boolean {
    return this.position === 'after'
  }

  end(): ReadRecord[] {
    if (this.position === 'after') return []
    const records: ReadRecord[] = []
    // an element without its end, and behind it that of the array
    if (this.strayEnd >= 0 && trimSpace(this.data.subarray(this.strayEnd + 1)).length === 0) {
      this.endElement(this.strayEnd, records)
      return records
    }
    const where = this.number === 0 ? '' : `, after element ${this.number}`
    throw new LeadpushError('failed', `it breaks off${where}: its JSON array has no end`)
  }

  private enter(chunk: Buffer): Buffer {
    const text = trimSpace(chunk)
    if (text.length === 0) return text
    if (text[0] !== openBracket) {
      throw new LeadpushError(
        'failed',
        'it does not begin with [: it is no JSON array (a file of JSON lines ends in .ndjson)',
      )
    }
    this.position = 'inside'
    // of `chunk`, not `text`: the white space trimmed at its end may belong to a string
    return chunk.subarray(chunk.indexOf(openBracket) + 1)
  }

  /** Takes elements up to the end of the array, and returns what follows it. */
  private split(chunk: Buffer, records: ReadRecord[]): Buffer {
    this.data = this.data.length === 0 ? chunk : Buffer.concat([this.data, chunk])
    const { data } = this
    while (this.at < data.length) {
      if (this.quoteAt >= 0) this.endString(records)
      else if (this.stringFrom >= 0) this.readString()
      else this.look(data[this.at] as number, this.at++, records)
      if (this.isOver) return data.subarray(this.at)
    }
    this.keepRest()
    return chunk.subarray(chunk.length)
  }

  /** Goes on to the next quote of the string under way that is not escaped. */
  private readString(): void {
    const { data } = this
    let { at, escaped } = this
    for (; at < data.length; at++) {
      const byte = data[at]
      if (escaped) escaped = false
      else if (byte === backslash) escaped = true
      else if (byte === quote) {
        this.quoteAt = at++
        break
      }
    }
    this.at = at
    this.escaped = escaped
  }

  /** Behind a quote within a string: only what may follow a string makes it the end of one. */
  private endString(records: ReadRecord[]): void {
    const { data, quoteAt } = this
    while (this.at < data.length && isSpace(data[this.at])) this.at++
    if (this.at === data.length) return
    this.quoteAt = -1
    if (mayFollow(data[this.at])) {
      this.stringFrom = -1
      return
    }
    this.isBad = true
    // a quote in the middle of a text, or one that begins a string: then the end of another was left out before it
    const begins = this.findRun(quoteAt)
    this.at = quoteAt + 1
    if (begins === quoteAt) return
    this.stringFrom = -1
    for (let at = begins; at < quoteAt; at++) {
      this.look(data[at] as number, at, records)
      if (!this.isOver) continue
      this.at = at + 1
      return
    }
    this.beginString(quoteAt)
  }

  /** Where the brackets and commas begin that stand before `quoteAt`, if they say that a string may begin there; else `quoteAt`. */
  private findRun(quoteAt: number): number {
    const { data } = this
    let begins = quoteAt
    while (begins > this.stringFrom && quoteAt - begins < lookBackBytes) {
      const byte = data[begins - 1]
      if (!isSpace(byte) && !isStructural(byte)) break
      begins--
    }
    const before = trimSpace(data.subarray(begins, quoteAt)).at(-1)
    return before === comma || before === openBrace ? begins : quoteAt
  }

  private beginString(at: number): void {
    this.stringFrom = at + 1
    this.last = quote
  }

  /** A byte outside of strings. */
  private look(byte: number, at: number, records: ReadRecord[]): void {
    if (isSpace(byte)) return
    const { brackets } = this
    if (brackets.depth === 0 && this.lookBetween(byte, at, records)) return
    this.hasContent = true
    if (byte === quote) this.beginString(at)
    else if (byte === openBrace && brackets.last === openBrace && this.last !== colon) this.begunAnew(at, records)
    else if (byte === openBrace || byte === openBracket) brackets.add(byte)
    else if (byte === closeBrace || byte === closeBracket) {
      const { found, fits } = brackets.close(byte)
      this.isBad ||= !fits
      if (!found && byte === closeBracket) this.strayEnd = at
    }
    this.last = byte
    if (byte === comma) this.commaAt = at
  }

  /** A byte outside of brackets. Returns whether nothing is left to do. */
  private lookBetween(byte: number, at: number, records: ReadRecord[]): boolean {
    if (byte === closeBracket) {
      this.endElement(at, records, true)
      this.position = 'after'
      return true
    }
    if (byte === comma && !this.isBad) {
      this.endElement(at, records)
      return true
    }
    if (byte === openBrace && this.hasContent) this.endBefore(at, records)
    else if (byte === colon || byte === closeBrace) this.isBad = true
    else if (!this.hasContent) this.isBad = byte !== openBrace && byte !== openBracket && !beginsValue(byte)
    return false
  }

  /** An object begins where a name should stand: the one around it lacks its end. */
  private begunAnew(at: number, records: ReadRecord[]): void {
    this.isBad = true
    this.brackets.pop()
    if (this.brackets.depth === 0) this.endBefore(at, records)
    this.hasContent = true
    this.brackets.add(openBrace)
  }

  /** Ends the element before the object that begins at `at`, and before the comma that separates them. */
  private endBefore(at: number, records: ReadRecord[]): void {
    const end = this.last === comma ? this.commaAt : at
    this.endElement(end, records)
    this.from = at
  }

  private endElement(end: number, records: ReadRecord[], isLast = false): void {
    const bytes = this.data.subarray(this.from, end)
    const raw = trimSpace(bytes)
    const { head } = this
    this.from = end + 1
    this.head = undefined
    const isSurelyBad = this.isBad && raw.length < shortBytes
    this.brackets.clear()
    this.hasContent = false
    this.isBad = false
    this.strayEnd = -1
    this.last = undefined
    if (isLast && this.number === 0 && raw.length === 0 && !head) return
    this.number++
    if (head) records.push(tooLargeRecord(this.number, head))
    else if (raw.length === 0 || isSurelyBad) records.push(badRecord(this.number, raw, notJson))
    else records.push(parseJsonRecord(this.number, raw))
  }

  /** Drops white space before the element under way, and behind it all but one character, which keeps two values apart. */
  private dropSpace(): void {
    if (this.stringFrom >= 0 || this.quoteAt >= 0 || this.brackets.depth > 0) return
    if (!this.hasContent) this.from = this.data.length
    let end = this.data.length
    while (end > this.from + 1 && isSpace(this.data[end - 1]) && isSpace(this.data[end - 2])) end--
    this.data = this.data.subarray(0, end)
    this.at = end
  }

  /** Keeps the bytes of the element under way; of one that is too large its beginning, and as much as may be looked back at. */
  private keepRest(): void {
    this.dropSpace()
    let drop = this.from
    // white space around it does not count
    if (this.data.length - this.from > 2 * recordBytesMax || (this.head && this.data.length > keptBytes)) {
      this.head ??= Buffer.from(this.data.subarray(this.from, this.from + keptBytes))
      drop = Math.max(this.from, Math.min(this.data.length, this.quoteAt < 0 ? this.at : this.quoteAt) - lookBackBytes)
    }
    this.data = this.data.subarray(drop)
    this.at -= drop
    this.from = Math.max(0, this.from - drop)
    this.commaAt -= drop
    if (this.quoteAt >= 0) this.quoteAt -= drop
    if (this.stringFrom >= 0) this.stringFrom = Math.max(0, this.stringFrom - drop)
    if (this.strayEnd >= 0) this.strayEnd = Math.max(0, this.strayEnd - drop)
  }
}
