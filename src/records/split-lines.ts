/** Cuts NDJSON into records: one JSON text per line; blank lines are skipped. */
import { LeadpushError } from '../base/errors.ts'
import {
  emptyAt,
  notJson,
  parseJsonRecord,
  type ReadRecord,
  RecordBytes,
  type Splitter,
  tooLargeRecord,
  trimSpace,
} from './record.ts'

/** Splits NDJSON that arrives in chunks. */
export class LineSplitter implements Splitter {
  private line = 1
  private readonly coming = new RecordBytes()

  push(chunk: Buffer): ReadRecord[] {
    const records: ReadRecord[] = []
    let from = 0
    for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, from)) {
      this.coming.add(chunk.subarray(from, at))
      const record = this.take()
      if (record) records.push(record)
      this.line++
      from = at + 1
      // a compressed file may swell to any number of empty lines
      for (let length = emptyAt(chunk, from); length > 0; length = emptyAt(chunk, from)) {
        this.line++
        from += length
      }
    }
    this.coming.add(chunk.subarray(from))
    return records
  }

  end(): ReadRecord[] {
    const endsInBrace = this.coming.lastByte === 0x7d
    const record = this.take()
    if (!record) return []
    const isCut = record.error?.startsWith(notJson) || (record.error !== undefined && !endsInBrace)
    if (isCut) {
      throw new LeadpushError('failed', `it breaks off in line ${this.line}, which is no JSON and has no line end`)
    }
    return [record]
  }

  private take(): ReadRecord | undefined {
    if (this.coming.isEmpty) return undefined
    const { bytes, tooLarge } = this.coming.take()
    if (tooLarge) return tooLargeRecord(this.line, bytes)
    const raw = trimSpace(bytes)
    return raw.length === 0 ? undefined : parseJsonRecord(this.line, raw)
  }
}
