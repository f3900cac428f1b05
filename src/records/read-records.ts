/**
 * Reads the records of an import file or of standard input, page by page: NDJSON, JSON or CSV, gzipped or not, in any encoding.
 * However long the file is, only a chunk of it and the incoming record are in memory.
 */
import { isAscii } from 'node:buffer'
import { accessSync, closeSync, constants, createReadStream, openSync, readSync, statSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { codeOf, LeadpushError } from '../base/errors.ts'
import {
  type Chunks,
  type Encoding,
  findForeignLine,
  findMarked,
  refuseBinary,
  refuseNul,
  transcode,
  utf8,
} from './encoding.ts'
import { gunzip } from './gunzip.ts'
import {
  type CsvHeader,
  notUtf8,
  otherEncoding,
  type ReadRecord,
  type RecordFormat,
  type Splitter,
  trimSpace,
} from './record.ts'
import { isLines, sniffedBytes, sniffFormat, sniffSeparator } from './sniff.ts'
import { ArraySplitter } from './split-array.ts'
import { CsvSplitter } from './split-csv.ts'
import { LineSplitter } from './split-lines.ts'
import { ObjectSplitter } from './split-object.ts'

export type { RecordFormat }

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
  encoding: Encoding
  /** That the beginning of the file is in another encoding: it is said before anything is proposed. */
  foreign?: LeadpushError | undefined
  /** Bytes of the file on disk that were read so far. */
  bytesRead: number
}

const chunkBytes = 128 * 1024
/** A page of more records makes the next piece of the file smaller: a bad file may have a record every two bytes. */
const pageRecords = 1_024
const firstPieceBytes = 4 * 1024
const endings: Record<string, RecordFormat> = {
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  json: 'json',
  csv: 'csv',
  tsv: 'csv',
}
/** So many bytes tell what a file is that has no JSON lines. */
const markBytes = 512
/** Endings of names that do not tell the format; what is in a zip file says so itself. */
const untold = ['txt', 'gz', 'zip']

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
  const saysNothing = size === undefined || untold.includes(ending?.toLowerCase() ?? '')
  if (!format && (saysNothing || isBinary(name))) return { name, format: undefined, gzip: undefined, bytesTotal: size }
  if (!format || !formats.includes(format)) {
    const allowed = Object.keys(endings).filter((key) => formats.includes(endings[key] as RecordFormat))
    const why = format ? `${format.toUpperCase()} is not taken here` : 'its name does not tell its format'
    throw new LeadpushError('usage', `${name}: ${why}`, {
      hint: `It should end in ${allowed.map((key) => `.${key}`).join(', ')}, or in one of these and .gz.`,
    })
  }
  return { name, format, gzip: gz !== undefined, bytesTotal: size }
}

/** Whether the first bytes say what the file is, if not its name: reading it then says so. */
function isBinary(name: string): boolean {
  const fd = openSync(name, constants.O_RDONLY)
  try {
    const first = Buffer.alloc(markBytes)
    refuseBinary(first.subarray(0, readSync(fd, first)))
    return false
  } catch (error) {
    return error instanceof LeadpushError
  } finally {
    closeSync(fd)
  }
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

async function* countedChunks(stream: Readable, counter: { bytesRead: number }): Chunks {
  for await (const chunk of stream) {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : (chunk as Buffer)
    counter.bytesRead += bytes.length
    yield bytes
  }
}

/** Chunks of a file, with its first bytes. */
interface Opened {
  first: Buffer
  /** Whether `first` is all of it. */
  isWhole: boolean
  /** All chunks unchanged, the first bytes included. */
  all: Chunks
}

/** Their text as UTF-8. */
interface OpenedText extends Opened {
  encoding: Encoding
  /** Whether a mark or an option tells the encoding. */
  isTold: boolean
}

/** The chunks with their first `bytes` bytes or more; fewer where there are no more. */
async function peek(chunks: Chunks, bytes: number): Promise<Opened> {
  let first: Buffer = Buffer.alloc(0)
  let isWhole = false
  while (first.length < bytes && !isWhole) {
    const { value, done } = await chunks.next()
    isWhole = done === true
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
  return { first, isWhole, all: all() }
}

const isGzip = (bytes: Buffer) => bytes[0] === 0x1f && bytes[1] === 0x8b

/** The unzipped chunks. A zipped file says so in its first bytes; its name does not matter. */
async function openZipped(file: RecordFile, chunks: Chunks): Promise<Opened> {
  const raw = await peek(chunks, 2)
  if (file.gzip && raw.first.length === 0) throw new LeadpushError('failed', 'it is empty, so it is no valid gzip')
  const zipped = file.gzip || isGzip(raw.first)
  return peek(zipped ? gunzip(raw.all, chunkBytes) : raw.all, file.format === 'ndjson' ? markBytes : sniffedBytes)
}

async function* without(bytes: number, chunks: Chunks): Chunks {
  let left = bytes
  for await (const chunk of chunks) {
    yield left > 0 ? chunk.subarray(left) : chunk
    left = Math.max(0, left - chunk.length)
  }
}

/** The text as UTF-8, without a mark. Throws `failed` if it is not UTF-8. */
async function openText(file: RecordFile, chunks: Chunks, told: string | undefined): Promise<OpenedText> {
  const opened = await openZipped(file, chunks)
  refuseBinary(opened.first)
  const marked = findMarked(opened.first)
  const encoding = marked ?? { ...utf8, ...(told !== undefined && { name: told }) }
  const isTold = marked !== undefined || told !== undefined
  if (encoding.name === 'utf-8' && !marked) {
    refuseNul(opened.first, formatOf(file, opened))
    return { ...opened, encoding, isTold }
  }
  const text = marked ? without(marked.mark.length, opened.all) : opened.all
  const enough = opened.isWhole ? Number.POSITIVE_INFINITY : opened.first.length / 2
  const peeked = await peek(encoding.name === 'utf-8' ? text : transcode(text, encoding.name), enough)
  return { ...peeked, encoding, isTold }
}

/** The format of a text, by its name or its beginning. */
function formatOf(file: RecordFile, { first, isWhole }: Opened): RecordFormat {
  const named = file.format ?? sniffFormat(first, isWhole)
  return named === 'json' && isLines(first, isWhole) ? 'ndjson' : named
}

function splitterOf(
  file: RecordFile,
  text: Opened,
  { identity }: RecordReadOptions,
): { format: RecordFormat; splitter: Splitter } {
  const { first, isWhole } = text
  const format = formatOf(file, text)
  if (format === 'csv') return { format, splitter: new CsvSplitter(sniffSeparator(first, isWhole), identity) }
  if (format === 'ndjson') return { format, splitter: new LineSplitter() }
  const isObject = first.find((each) => each > 0x20) === 0x7b
  return { format, splitter: isObject ? new ObjectSplitter() : new ArraySplitter() }
}

const recordsAlone = ' (with --encoding utf-8 such records alone are rejected)'

/**
 * Tells a file in another encoding from one of UTF-8 with spoilt bytes here and there, which cost their records alone: in the
 * former no character beyond ASCII is valid UTF-8.
 */
class EncodingWatch {
  private hasUtf8 = false
  private spoilt = 0
  private line = 0
  /** Whether bytes beyond ASCII may be in records that are still to come. */
  private isOpen = false

  /** `chunk` is what completed `records`. */
  look(records: readonly ReadRecord[], chunk: Buffer): void {
    const more = !this.hasUtf8 && !isAscii(chunk)
    if (this.isOpen || more) for (const record of records) this.lookAt(record)
    if (records.length > 0 || more) this.isOpen = more
  }

  private lookAt({ error, raw, line }: ReadRecord): void {
    if (this.hasUtf8) return
    const isSpoilt = error?.startsWith(notUtf8) ?? false
    if (isSpoilt && this.spoilt++ === 0) this.line = line
    if (isAscii(raw)) return
    // a spoilt record may have valid characters too
    this.hasUtf8 = isSpoilt ? /[^\0-\x7f\ufffd]/.test(raw.toString()) : error === undefined
  }

  /** Throws `failed` where the file is in another encoding. */
  check(): void {
    if (this.spoilt === 0 || this.hasUtf8) return
    const others = this.spoilt > 1 ? `, as ${this.spoilt - 1} more ${this.spoilt > 2 ? 'are' : 'is'},` : ''
    const where = `record ${this.line}${others}`
    throw otherEncoding(where, recordsAlone)
  }
}

/** How the records of a file are read. */
export interface RecordReadOptions {
  signal?: AbortSignal | undefined
  /** The stream for `-`. */
  stdin?: Readable | undefined
  /** Where the file has no mark of Unicode: a name that `checkEncoding` returned. */
  encoding?: string | undefined
  /** In CSV the columns of the URLs or e-mail addresses that tell records apart. */
  identity?: readonly string[] | undefined
  /** A file without a record is not wrong. */
  mayBeEmpty?: boolean
}

/**
 * The records of `file`, in order. Throws `failed` where the file is broken off (contract 3) or can no longer be read: then
 * the records before must not count; also where it has no record, is no text, or is in another encoding (4.18).
 */
export async function* readRecords(
  file: RecordFile,
  options: RecordReadOptions = {},
): AsyncGenerator<RecordPage, void, undefined> {
  const stream = file.name === '-' ? options.stdin : openFile(file.name)
  if (!stream) throw new Error('no stream was given for -')
  const stop = () => stream.destroy(options.signal?.reason)
  options.signal?.addEventListener('abort', stop, { once: true })
  const counter = { bytesRead: 0 }
  try {
    options.signal?.throwIfAborted()
    const text = await openText(file, countedChunks(stream, counter), options.encoding)
    const { format, splitter } = splitterOf(file, text, options)
    const watch = text.isTold ? undefined : new EncodingWatch()
    const line = text.isTold ? undefined : findForeignLine(text.first, text.isWhole)
    const foreign = line === undefined ? undefined : otherEncoding(`line ${line}`, recordsAlone)
    const { encoding } = text
    let count = 0
    const pageOf = (records: ReadRecord[], chunk: Buffer): RecordPage => {
      count += records.length
      watch?.look(records, chunk)
      return { records, format, header: splitter.header, encoding, foreign, bytesRead: counter.bytesRead }
    }
    let pieceBytes = firstPieceBytes
    for await (const chunk of text.all) {
      let rest = chunk
      while (rest.length > 0) {
        const piece = rest.subarray(0, pieceBytes)
        rest = rest.subarray(piece.length)
        const records = splitter.push(piece)
        yield pageOf(records, piece)
        pieceBytes = Math.ceil(Math.min(chunkBytes, (piece.length * pageRecords) / records.length))
      }
    }
    // an empty file is no JSON that lacks its end
    const isBlank = text.isWhole && trimSpace(text.first).length === 0
    yield pageOf(isBlank ? [] : splitter.end(), Buffer.alloc(0))
    watch?.check()
    options.signal?.throwIfAborted()
    if (count === 0 && !options.mayBeEmpty)
      throw new LeadpushError('failed', noRecord(counter.bytesRead, splitter.header))
  } catch (error) {
    options.signal?.throwIfAborted()
    if (error instanceof LeadpushError || codeOf(error) === undefined) throw error
    throw new LeadpushError('failed', `it can no longer be read (${codeOf(error)})`, { cause: error })
  } finally {
    options.signal?.removeEventListener('abort', stop)
    if (file.name !== '-') stream.destroy()
  }
}

function noRecord(bytesRead: number, header: CsvHeader | undefined): string {
  if (bytesRead === 0) return 'it is empty: it has no record'
  return header ? 'it has a header and no record' : 'it has no record'
}
