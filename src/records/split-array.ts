/**
 * Cuts a JSON array into its elements by brackets and quotes alone. Each element is parsed by itself, so a bad one costs no
 * other.
 */
import { LeadpushError } from '../base/errors.ts'
import {
  badRecord,
  notJson,
  parseJsonRecord,
  type ReadRecord,
  RecordBytes,
  type Splitter,
  tooLargeRecord,
  trimSpace,
} from './record.ts'

const [quote, comma, openBracket, backslash, closeBracket, openBrace, closeBrace] = [34, 44, 91, 92, 93, 123, 125]

/** Splits a JSON array that arrives in chunks. */
export class ArraySplitter implements Splitter {
  private position: 'before' | 'inside' | 'after' = 'before'
  private number = 0
  private depth = 0
  private inString = false
  private escaped = false
  private readonly coming = new RecordBytes()

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
    // in locals: the loop looks at every byte
    let depth = this.depth
    let inString = this.inString
    let escaped = this.escaped
    let from = 0
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]
      if (inString) {
        if (escaped) escaped = false
        else if (byte === backslash) escaped = true
        else if (byte === quote) inString = false
      } else if (byte === quote) inString = true
      else if (byte === openBrace || byte === openBracket) depth++
      else if ((byte === closeBrace || byte === closeBracket) && depth > 0) depth--
      else if (depth === 0 && (byte === comma || byte === closeBracket)) {
        this.coming.add(chunk.subarray(from, at))
        this.takeElement(byte === closeBracket, records)
        from = at + 1
        if (byte === closeBracket) {
          this.position = 'after'
          return chunk.subarray(from)
        }
      }
    }
    this.coming.add(chunk.subarray(from))
    this.depth = depth
    this.inString = inString
    this.escaped = escaped
    return chunk.subarray(chunk.length)
  }

  private takeElement(isLast: boolean, records: ReadRecord[]): void {
    const { bytes, tooLarge } = this.coming.take()
    const raw = trimSpace(bytes)
    if (isLast && this.number === 0 && raw.length === 0) return
    this.number++
    if (tooLarge) records.push(tooLargeRecord(this.number, bytes))
    else if (raw.length === 0) records.push(badRecord(this.number, raw, notJson))
    else records.push(parseJsonRecord(this.number, raw))
  }
}
