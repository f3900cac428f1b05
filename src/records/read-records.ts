/**
 * Reads the records of an import file or of standard input, page by page: NDJSON, a JSON array or CSV, gzipped or not.
 * However long the file is, only a chunk of it and the incoming record are in memory.
 */
import { accessSync, constants, createReadStream, openSync, statSync } from 'node:fs'
import { Socket } from 'node:net'
import { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import type { CsvHeader, ReadRecord, Splitter } from './record.ts'
import { ArraySplitter } from './split-array.ts'
import { CsvSplitter } from './split-csv.ts'
import { LineSplitter } from './split-lines.ts'

/** How a file writes its records. */
export type RecordFormat = 'ndjson' | 'json' | 'csv'

/** A file of an import, before it is read. */
export interface RecordFile {
  /** The name as it was given; `-` is standard input. */
  name: string
  /** Told by the name; undefined where the first bytes will tell. */
  format: RecordFormat | undefined
  gzip: boolean | undefined
  /** Undefined where the length is unknown, as of a pipe. */
  bytesTotal: number | undefined
}

/** The records of one chunk of a file. */
export interface RecordPage {
  records: ReadRecord[]
  format: RecordFormat
  /** In CSV the columns of the cells. */
  header: CsvHeader | undefined
  /** Bytes of the file on disk that were read so far. */
  bytesRead: number
}

const chunkBytes = 128 * 1024
/** White space may come before the first character, which tells the format. */
const sniffedBytes = 512
const endings: Record<string, RecordFormat> = { ndjson: 'ndjson', jsonl: 'ndjson', json: 'json', csv: 'csv' }

/**
 * What a file's name tells. Throws `usage` where the file does not exist or cannot be read, or the name does not tell one of
 * `formats`, which the caller takes.
 */
export function findRecordFile(name: string, formats: readonly RecordFormat[]): RecordFile {
  if (name === '-') return { name, format: undefined, gzip: undefined, bytesTotal: undefined }
  const size = checkReadable(name)
  const [, ending, gz] = /\.(\w+?)(\.gz)?$/i.exec(name) ?? []
  const format = endings[(ending ?? '').toLowerCase()]
  // a pipe of the shell (/dev/fd/63) has no ending, and `listings.gz` does not tell the format
  const saysNothing = size === undefined || ending?.toLowerCase() === 'gz'
  if (!format && saysNothing) return { name, format: undefined, gzip: undefined, bytesTotal: size }
  if (!format || !formats.includes(format)) {
    const allowed = Object.keys(endings).filter((key) => formats.includes(endings[key] as RecordFormat))
    const why = format ? `${format.toUpperCase()} is not taken here` : 'its name does not tell its format'
    throw new LeadpushError('usage', `${name}: ${why}`, {
      hint: `It should end in ${allowed.map((key) => `.${key}`).join(', ')}, or in one of these and .gz.`,
    })
  }
  return { name, format, gzip: gz !== undefined, bytesTotal: size }
}

/** The size of a file in bytes; undefined where it is a pipe. Throws `usage` where it cannot be read. */
export function checkReadable(name: string): number | undefined {
  try {
    accessSync(name, constants.R_OK)
    const stat = statSync(name)
    if (stat.isDirectory()) throw new LeadpushError('usage', `${name} is a folder, not a file`)
    return stat.isFile() ? stat.size : undefined
  } catch (error) {
    if (error instanceof LeadpushError) throw error
    const why = codeOf(error) === 'ENOENT' ? 'there is no such file' : `it cannot be read (${codeOf(error)})`
    throw new LeadpushError('usage', `${name}: ${why}`)
  }
}

/**
 * Opens a file for reading. A named pipe is read without a thread that waits for its writer: no stop would reach that thread,
 * and the process could not end. Only on Linux, since elsewhere a pipe without a writer looks like an empty file.
 */
export function openFile(name: string): Readable {
  const isPipe = process.platform === 'linux' && statSync(name, { throwIfNoEntry: false })?.isFIFO()
  if (!isPipe) return createReadStream(name, { highWaterMark: chunkBytes })
  return new Socket({ fd: openSync(name, constants.O_RDONLY | constants.O_NONBLOCK), readable: true })
}

function sniff(first: Buffer): RecordFormat {
  const byte = first.find((each) => each > 0x20)
  return byte === 0x5b ? 'json' : byte === 0x7b ? 'ndjson' : 'csv'
}

function splitterOf(format: RecordFormat): Splitter {
  if (format === 'csv') return new CsvSplitter()
  return format === 'json' ? new ArraySplitter() : new LineSplitter()
}

type Chunks = AsyncGenerator<Buffer, void, undefined>

async function* countedChunks(stream: Readable, counter: { bytesRead: number }): Chunks {
  for await (const chunk of stream) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Buffer)
    counter.bytesRead += bytes.length
    yield bytes
  }
}

/** All chunks unchanged, and their first `bytes` bytes or more; fewer where there are no more. */
async function peek(chunks: Chunks, bytes: number): Promise<{ first: Buffer; all: Chunks }> {
  let first: Buffer = Buffer.alloc(0)
  let isOver = false
  while (first.length < bytes && !isOver) {
    const { value, done } = await chunks.next()
    isOver = done === true
    if (value) first = first.length === 0 ? value : Buffer.concat([first, value])
  }
  async function* all(): Chunks {
    try {
      if (first.length > 0) yield first
      yield* chunks
    } finally {
      await chunks.return()
    }
  }
  return { first, all: all() }
}

async function* gunzip(chunks: Chunks): Chunks {
  const unzip = createGunzip({ chunkSize: chunkBytes })
  const source = Readable.from(chunks, { objectMode: false })
  source.on('error', (error) => unzip.destroy(error))
  source.pipe(unzip)
  let bytes = 0
  try {
    for await (const chunk of unzip) {
      bytes += chunk.length
      yield chunk as Buffer
    }
  } catch (error) {
    if (!/^Z_/.test(codeOf(error) ?? '')) throw error
    const why = codeOf(error) === 'Z_BUF_ERROR' ? 'its gzip has no end' : `it is no valid gzip (${messageOf(error)})`
    throw new LeadpushError('failed', bytes > 0 ? `it breaks off: ${why}` : why)
  } finally {
    source.destroy()
    unzip.destroy()
  }
}

const isGzip = (bytes: Buffer) => bytes[0] === 0x1f && bytes[1] === 0x8b

/** The unzipped chunks, and their first bytes, enough to tell the format. */
async function openText(file: RecordFile, chunks: Chunks): Promise<{ first: Buffer; all: Chunks }> {
  const raw = await peek(chunks, 2)
  if (file.gzip && raw.first.length === 0) throw new LeadpushError('failed', 'it is empty, so it is no valid gzip')
  const zipped = file.gzip ?? isGzip(raw.first)
  return peek(zipped ? gunzip(raw.all) : raw.all, file.format ? 3 : sniffedBytes)
}

async function* withoutByteOrderMark(chunks: Chunks): Chunks {
  let isFirst = true
  for await (const chunk of chunks) {
    const marked = isFirst && chunk[0] === 0xef && chunk[1] === 0xbb && chunk[2] === 0xbf
    isFirst = false
    yield marked ? chunk.subarray(3) : chunk
  }
}

/**
 * The records of `file`, in order. Throws `failed` where the file is broken off (contract 3) or can no longer be read: then
 * the records before must not count. `stdin` is the stream for `-`.
 */
export async function* readRecords(
  file: RecordFile,
  options: { signal?: AbortSignal | undefined; stdin?: Readable | undefined } = {},
): AsyncGenerator<RecordPage, void, undefined> {
  const stream = file.name === '-' ? (options.stdin ?? process.stdin) : openFile(file.name)
  const stop = () => stream.destroy(options.signal?.reason)
  options.signal?.addEventListener('abort', stop, { once: true })
  const counter = { bytesRead: 0 }
  try {
    options.signal?.throwIfAborted()
    const { first, all } = await openText(file, countedChunks(stream, counter))
    const isMarked = first[0] === 0xef && first[1] === 0xbb
    const format = file.format ?? sniff(isMarked ? first.subarray(3) : first)
    const splitter = splitterOf(format)
    for await (const chunk of withoutByteOrderMark(all)) {
      const records = splitter.push(chunk)
      yield { records, format, header: splitter.header, bytesRead: counter.bytesRead }
    }
    yield { records: splitter.end(), format, header: splitter.header, bytesRead: counter.bytesRead }
  } catch (error) {
    options.signal?.throwIfAborted()
    if (error instanceof LeadpushError || codeOf(error) === undefined) throw error
    throw new LeadpushError('failed', `it can no longer be read (${codeOf(error)})`, { cause: error })
  } finally {
    options.signal?.removeEventListener('abort', stop)
    if (file.name !== '-') stream.destroy()
  }
}
