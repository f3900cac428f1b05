/**
 * What the first bytes of a file say about it (contract 4.18): a mark of Unicode, or that it is no text at all; and its text as
 * UTF-8, which is all that the splitters know.
 */
import { isAscii } from 'node:buffer'
import { LeadpushError } from '../base/errors.ts'
import { didYouMean } from '../base/nearest.ts'
import type { RecordFormat } from './record.ts'

export type Chunks = AsyncGenerator<Buffer, void, undefined>

/** Names to suggest; TextDecoder knows others for most of them. */
const suggested =
  'utf-8 utf-16le utf-16be windows-1250 windows-1251 windows-1252 windows-1253 windows-1254 windows-1255 windows-1256 windows-1257 windows-1258 iso-8859-1 iso-8859-2 iso-8859-5 iso-8859-7 iso-8859-9 iso-8859-15 latin1 ascii macintosh ibm866 koi8-r koi8-u gbk gb18030 big5 euc-jp shift_jis iso-2022-jp euc-kr'.split(
    ' ',
  )

/** Throws `usage` where `name` is no encoding that TextDecoder knows. */
export function checkEncoding(name: string): string {
  try {
    return new TextDecoder(name, { fatal: true }).encoding
  } catch {
    const hint = 'Names are those of the web, such as utf-8, utf-16le, windows-1252, macintosh, shift_jis.'
    throw new LeadpushError('usage', `--encoding ${name}: there is no such encoding${didYouMean(name, suggested)}`, {
      hint,
    })
  }
}

/** How other files begin, and what to do with one. */
const binaries: [kind: string, begins: string | RegExp, advice: string][] = [
  ['a zip file', 'PK\x03\x04', 'Unpack it (`unzip FILE`) and import what is in it.'],
  ['a zip file without content', 'PK\x05\x06', 'Export the listings again.'],
  ['a workbook of Excel (.xls)', '\xd0\xcf\x11\xe0', 'Save it as CSV UTF-8 and import that.'],
  ['a PDF document', '%PDF-', 'Export the listings as CSV or JSON.'],
  ['compressed by bzip2', /^BZh[1-9]1AY/, 'Unpack it: `bunzip2 FILE`.'],
  ['compressed by xz', '\xfd7zXZ\0', 'Unpack it: `unxz FILE`.'],
  ['compressed by zstd', '\x28\xb5\x2f\xfd', 'Unpack it: `unzstd FILE`.'],
  ['a 7z archive', '7z\xbc\xaf', 'Unpack it: `7z x FILE`.'],
  ['a RAR archive', 'Rar!\x1a', 'Unpack it: `unrar x FILE`.'],
  ['a Parquet file', 'PAR1\x15', 'Write it as CSV or NDJSON.'],
  ['a SQLite database', 'SQLite format 3\0', 'Write its table as CSV: `sqlite3 -csv -header FILE "select * from …"`.'],
  ['a web page', /^\s*<(!doctype html|html)[\s>]/i, 'Is it what the server says instead of the file? Fetch the file again.'],
  ['XML', /^\s*<\?xml\s/i, 'Export the listings as CSV or JSON.'],
] // biome-ignore format: a table

const isXlsx = (text: string) => /\[Content_Types\]\.xml|xl\/|_rels\//.test(text)

/** Throws `failed` where the first bytes are those of a file that is no text, with what to do instead. */
export function refuseBinary(first: Buffer): void {
  const text = first.toString('latin1')
  for (const [kind, begins, advice] of binaries) {
    if (typeof begins === 'string' ? !text.startsWith(begins) : !begins.test(text)) continue
    if (kind === 'a zip file' && isXlsx(text)) {
      const hint = 'Save it as CSV UTF-8 and import that.'
      throw new LeadpushError('failed', 'it is a workbook of Excel (.xlsx), not the text of one', { hint })
    }
    throw new LeadpushError('failed', `it is ${kind}, not NDJSON, JSON or CSV`, { hint: advice })
  }
}

/** Which of the two a text with many NUL bytes is, by whether they come first or second in each pair. */
function guessUtf16(first: Buffer): string | undefined {
  const even = first.filter((byte, at) => byte === 0 && at % 2 === 0).length
  const odd = first.filter((byte, at) => byte === 0 && at % 2 === 1).length
  if (even + odd < first.length / 4) return undefined
  return odd > even ? 'utf-16le' : 'utf-16be'
}

/**
 * Throws `failed` where bytes that are to be UTF-8 are no text: as many NULs as UTF-16 has, or one in the header of CSV. A NUL elsewhere
 * costs its value or its record, not the file (contract 4.18).
 */
export function refuseNul(first: Buffer, format: RecordFormat): void {
  if (!first.includes(0)) return
  const guess = guessUtf16(first)
  if (guess !== undefined) {
    const hint = `Give its encoding: --encoding ${guess}`
    throw new LeadpushError('failed', 'it looks like UTF-16 without the mark that UTF-16 begins with', { hint })
  }
  if (format !== 'csv') return
  const lineEnd = first.indexOf(0x0a)
  if (first.subarray(0, lineEnd < 0 ? undefined : lineEnd).includes(0))
    throw new LeadpushError('failed', 'it is no text: it has NUL bytes')
}

/** How the text of a file is written. */
export interface Encoding {
  name: string
  /** What the file begins with, if it says so itself. */
  mark: Buffer
}

export const utf8: Encoding = { name: 'utf-8', mark: Buffer.alloc(0) }
const marked: readonly Encoding[] = [
  { name: 'utf-8', mark: Buffer.of(0xef, 0xbb, 0xbf) },
  { name: 'utf-16le', mark: Buffer.of(0xff, 0xfe) },
  { name: 'utf-16be', mark: Buffer.of(0xfe, 0xff) },
]

/** The encoding that the mark at the beginning tells. */
export const findMarked = (first: Buffer): Encoding | undefined =>
  marked.find(({ mark }) => first.subarray(0, mark.length).equals(mark))

/**
 * Where a text that should be UTF-8 is in another encoding for sure: the line of its first bytes that are none, where no character beyond
 * ASCII is UTF-8. `isWhole`: it is not cut off.
 */
export function findForeignLine(first: Buffer, isWhole: boolean): number | undefined {
  const text = first.toString()
  const whole = isWhole ? text : text.replace(/\ufffd+$/, '')
  const at = whole.indexOf('\ufffd')
  if (at < 0 || /[^\0-\x7f\ufffd]/.test(whole)) return undefined
  return whole.slice(0, at).split('\n').length
}

/** The bytes 0x80 to 0x9f of windows-1252: Node.js, 20.18.3 and others, reads them as control characters. */
const windows1252 = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ'

const mended = (text: string) =>
  text.replace(/[\x80-\x9f]/g, (character) => windows1252[character.charCodeAt(0) - 0x80] as string)

/** Reads a text of an encoding piece by piece; no piece ends it. Throws TypeError where bytes are not in it. */
export function decoderOf(encoding: string): (piece?: Buffer) => string {
  const decoder = new TextDecoder(encoding, { fatal: !encoding.startsWith('utf-16'), ignoreBOM: true })
  return (piece) => {
    const text = decoder.decode(piece, { stream: piece !== undefined })
    return encoding === 'windows-1252' ? mended(text) : text
  }
}

/** Tells bytes that are UTF-8 already: read in another encoding each name would be spoilt. */
class Utf8Watch {
  private readonly decoder = new TextDecoder('utf-8', { fatal: true })
  private isUtf8 = true
  private isBeyondAscii = false

  look(chunk?: Buffer): void {
    if (!this.isUtf8) return
    this.isBeyondAscii ||= chunk !== undefined && !isAscii(chunk)
    try {
      this.decoder.decode(chunk, { stream: chunk !== undefined })
    } catch {
      this.isUtf8 = false
    }
  }

  /** Throws `failed` where the bytes are UTF-8, and more than ASCII. */
  check(encoding: string): void {
    this.look()
    if (!this.isUtf8 || !this.isBeyondAscii) return
    throw new LeadpushError('failed', `it is in UTF-8, not in ${encoding}`, { hint: 'Import it without --encoding.' })
  }
}

/**
 * The text of `chunks` as UTF-8. Throws `failed` where they are not `encoding`. In UTF-16 half a surrogate pair, which programs
 * leave that cut texts, becomes U+FFFD.
 */
export async function* transcode(chunks: Chunks, encoding: string): Chunks {
  const decode = decoderOf(encoding)
  const watch = encoding.startsWith('utf-16') ? undefined : new Utf8Watch()
  try {
    for await (const chunk of chunks) {
      watch?.look(chunk)
      yield Buffer.from(decode(chunk))
    }
    yield Buffer.from(decode())
    watch?.check(encoding)
  } catch (error) {
    if (!(error instanceof TypeError)) throw error
    throw new LeadpushError('failed', `it has bytes that are no ${encoding}`, { hint: 'Give another --encoding.' })
  }
}
