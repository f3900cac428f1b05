/** Reads a backup piece by piece: its lines of JSON, and between them the rows of each table as they are. */
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip } from 'node:zlib'

const lineBytesMax = 1_000_000
const chunkBytes = 256 * 1024

/** Data of COPY never have this line, since COPY doubles each backslash. The line break before it belongs to the rows. */
const rowsEnd = Buffer.from('\n\\.\n')

export class BackupReader {
  private readonly chunks: AsyncIterator<Buffer>
  /** Begins with the line break before the next unread line. */
  private held = Buffer.from('\n')

  constructor(input: Readable) {
    const gunzip = createGunzip({ chunkSize: chunkBytes })
    // the iterator below throws the errors of both
    pipeline(input, gunzip).catch(() => {})
    this.chunks = gunzip[Symbol.asyncIterator]()
  }

  /** Throws if the input has ended. */
  private async readMore(): Promise<void> {
    const { done, value } = await this.chunks.next()
    if (done) throw new Error('it ends too early')
    this.held = Buffer.concat([this.held, value])
  }

  /** The next line. Throws if it is not a JSON object, or has no end. */
  async readLine(): Promise<object> {
    let end = this.held.indexOf('\n', 1)
    for (; end < 0; end = this.held.indexOf('\n', 1)) {
      if (this.held.length > lineBytesMax) throw new Error('a line of it is too long')
      await this.readMore()
    }
    const line = JSON.parse(this.held.toString('utf8', 1, end))
    if (line === null || typeof line !== 'object') throw new Error('a line of it is no object')
    this.held = this.held.subarray(end)
    return line
  }

  /** Throws if something is left, or if the checksum of gzip, which comes last, shows damage. */
  async readEnd(): Promise<void> {
    const { done } = await this.chunks.next()
    if (!done || this.held.length > 1) throw new Error('it goes on after its end')
  }

  /** The rows of the table that the line before named. */
  async *readRows(): AsyncGenerator<Buffer> {
    for (let from = 1; ; await this.readMore()) {
      const end = this.held.indexOf(rowsEnd)
      // the last bytes may be the beginning of the end
      const until = end < 0 ? this.held.length - rowsEnd.length + 1 : end + 1
      if (until > from) {
        yield this.held.subarray(from, until)
        if (end < 0) this.held = this.held.subarray(until)
        from = 0
      }
      if (end < 0) continue
      this.held = this.held.subarray(end + rowsEnd.length - 1)
      return
    }
  }
}
