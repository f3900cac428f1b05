/** Unzips a file that is a gzip, of one member or several (contract 3). */
import { Readable } from 'node:stream'
import { createGunzip, type Gunzip } from 'node:zlib'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import type { Chunks } from './encoding.ts'

/** Remembers the chunks that zlib may not have read: what stands behind zeros, which pad a file on tape, it leaves out without a word. */
class GunzipTail {
  private readonly unzip: Gunzip
  private unread: Buffer[] = []
  private from = 0
  private isOver = false

  constructor(unzip: Gunzip) {
    this.unzip = unzip
  }

  async *watch(chunks: Chunks): Chunks {
    for await (const chunk of chunks) {
      if (!this.isOver) this.unread.push(chunk)
      for (
        let [first] = this.unread;
        first && this.from + first.length <= this.unzip.bytesWritten;
        [first] = this.unread
      ) {
        this.from += first.length
        this.unread.shift()
      }
      yield chunk
    }
  }

  /** Throws `failed` where something but zeros follows the end. */
  async check(rest: AsyncIterable<Buffer>): Promise<void> {
    this.isOver = true
    const refuse = (bytes: Buffer) => {
      if (bytes.some((byte) => byte !== 0)) throw new LeadpushError('failed', 'something follows the end of its gzip')
    }
    refuse(Buffer.concat(this.unread).subarray(this.unzip.bytesWritten - this.from))
    this.unread = []
    for await (const bytes of rest) refuse(bytes)
  }
}

/** The unzipped bytes. Throws `failed` where `chunks` are no whole gzip, or something follows it. */
export async function* gunzip(chunks: Chunks, chunkSize: number): Chunks {
  const unzip = createGunzip({ chunkSize })
  const tail = new GunzipTail(unzip)
  const source = Readable.from(tail.watch(chunks), { objectMode: false })
  source.on('error', (error) => unzip.destroy(error))
  source.pipe(unzip)
  let bytes = 0
  try {
    for await (const chunk of unzip) {
      bytes += chunk.length
      yield chunk as Buffer
    }
    source.unpipe(unzip)
    await tail.check(source)
  } catch (error) {
    if (!/^Z_/.test(codeOf(error) ?? '')) throw error
    const why = codeOf(error) === 'Z_BUF_ERROR' ? 'its gzip has no end' : `it is no valid gzip (${messageOf(error)})`
    throw new LeadpushError('failed', bytes > 0 ? `it breaks off: ${why}` : why)
  } finally {
    source.destroy()
    unzip.destroy()
  }
}
