/**
 * Cuts the records out of one JSON object without `href` that has a single list of objects in it, such as `{"count":2,"listings":[…]}`
 * (contract 4.18), while it arrives. Another object is itself the one record.
 */
import { LeadpushError } from '../base/errors.ts'
import { quoteWord } from '../base/shell-word.ts'
import { parseJsonRecord, type ReadRecord, RecordBytes, type Splitter, tooLargeRecord } from './record.ts'
import { ArraySplitter } from './split-array.ts'

const [quote, openBracket, backslash, closeBracket, openBrace, closeBrace, colon] = [34, 91, 92, 93, 123, 125, 58]
const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
/** A longer name of a member is cut: it is only told. */
const nameCharsMax = 100
/** This list is a field of a user: an object with it may be a user on the only line of a pipe. */
const fieldOfUser = 'queries'
/** So long records are held back: an object that is itself a record may have its `href` behind a list of photos. */
const heldBytesMax = 64 * 1024

/** A name as JSON spells it; a name that was cut, or is no JSON, stays as it came. */
function readName(text: string): string {
  try {
    return String(JSON.parse(`"${text}"`))
  } catch {
    return text
  }
}

/** Splits an object that arrives in chunks. */
export class ObjectSplitter implements Splitter {
  private readonly coming = new RecordBytes()
  private bytes = 0
  private held: ReadRecord[] = []
  private isFlushed = false
  /** 1 among the members of the object. */
  private depth = 0
  private inString = false
  private escaped = false
  private isOver = false
  /** The bytes of the last string among the members, which may be the name of one. */
  private text: number[] = []
  private name = ''
  private isValue = false
  /** A list of a member was entered, and its first character is still to come. */
  private entersList = false
  private isRecord = false
  private hasEmptyList = false
  private list: { name: string; elements: ArraySplitter } | undefined
  private secondList: string | undefined

  /** Whether it has a list of records so far. */
  get isWrapper(): boolean {
    return this.list !== undefined && !this.isRecord
  }

  push(chunk: Buffer): ReadRecord[] {
    this.bytes += chunk.length
    if (!this.isFlushed) this.coming.add(chunk)
    let rest = chunk
    while (rest.length > 0) {
      const { list } = this
      rest = list && !list.elements.isOver ? list.elements.take(rest, this.held) : this.scan(rest)
    }
    return this.isWrapper && this.bytes > heldBytesMax ? this.flush() : []
  }

  end(): ReadRecord[] {
    if (!this.isOver) throw new LeadpushError('failed', 'it breaks off: its JSON object has no end')
    if (this.isWrapper) return this.flush()
    if (this.hasEmptyList && !this.isRecord) return []
    const { bytes, tooLarge } = this.coming.take()
    return [tooLarge ? tooLargeRecord(1, bytes) : parseJsonRecord(1, bytes)]
  }

  private flush(): ReadRecord[] {
    if (this.secondList !== undefined) {
      const records = quoteWord(`.[${JSON.stringify(this.secondList)}]`)
      const hint = `Take out the one with the records: jq ${records} FILE | leadpush leads import -`
      throw new LeadpushError('failed', `it has two lists of objects, ${this.list?.name} and ${this.secondList}`, {
        hint,
      })
    }
    if (!this.isFlushed) this.coming.take()
    this.isFlushed = true
    const records = this.held
    this.held = []
    return records
  }

  /** Reads what is no element of the list, and returns what follows where one begins. */
  private scan(chunk: Buffer): Buffer {
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number
      if (this.inString) this.readString(byte)
      else if (isSpace(byte)) continue
      else if (this.entersList && this.enterList(byte)) return chunk.subarray(at)
      else this.readOther(byte)
    }
    return chunk.subarray(chunk.length)
  }

  private readString(byte: number): void {
    if (this.escaped) this.escaped = false
    else if (byte === backslash) this.escaped = true
    else if (byte === quote) {
      this.inString = false
      return
    }
    if (this.depth === 1 && !this.isValue && this.text.length < nameCharsMax) this.text.push(byte)
  }

  private readOther(byte: number): void {
    if (this.isOver) {
      const hint = 'A file of JSON lines ends in .ndjson.'
      throw new LeadpushError('failed', 'something follows the end of its JSON object', { hint })
    }
    if (byte === quote) {
      this.inString = true
      if (this.depth === 1 && !this.isValue) this.text = []
    } else if (byte === colon && this.depth === 1) this.beginValue()
    else if (byte === openBrace || byte === openBracket) {
      this.entersList = byte === openBracket && this.depth === 1
      this.depth++
    } else if (byte === closeBrace || byte === closeBracket) this.leave()
    else if (byte === 0x2c && this.depth === 1) this.isValue = false
  }

  private beginValue(): void {
    this.isValue = true
    this.name = readName(Buffer.from(this.text).toString())
    if (this.isRecord || this.name.toLowerCase() !== 'href') return
    if (this.isFlushed)
      throw new LeadpushError('failed', `its one object has the list ${this.list?.name} and, after it, ${this.name}`)
    this.isRecord = true
    this.held = []
  }

  private leave(): void {
    this.depth--
    if (this.depth === 0) this.isOver = true
  }

  /** Whether the list whose first character this is holds objects that are the records. */
  private enterList(byte: number): boolean {
    this.entersList = false
    const { name } = this
    if (name.toLowerCase() === fieldOfUser) return false
    if (byte === closeBracket) this.hasEmptyList = true
    if (byte !== openBrace || this.isRecord) return false
    if (this.list) {
      this.secondList ??= name
      return false
    }
    const elements = new ArraySplitter()
    elements.take(Buffer.from('['), [])
    this.list = { name, elements }
    // the closing bracket belongs to the list
    this.depth--
    return true
  }
}
