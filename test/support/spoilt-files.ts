/**
 * Worlds of files of which some records are spoilt: their bytes are changed, cut, doubled, their quotes opened or closed, cells left out,
 * a line end lost. Faults come in bunches: one kind, and records next to each other.
 */
import fc from 'fast-check'

/** The key that tells records apart, two texts, and a code. */
export type Row = readonly [key: string, text: string, other: string, code: string]

/** What the records are. */
export interface Kind {
  columns: readonly [string, string, string, string]
  keyOf(n: number): string
}

export const listings: Kind = {
  columns: ['href', 'description', 'address', 'postalCode'],
  keyOf: (n) => `https://s.example/${n}`,
}
export const users: Kind = {
  columns: ['email', 'value', 'note', 'receiverApiKey'],
  keyOf: (n) => `u${n}@s.example`,
}

export type Form = ',' | ';' | '\t' | '|' | 'ndjson' | 'json'
export const forms: readonly Form[] = [',', ';', '\t', '|', 'ndjson', 'json']
export const isCsv = (form: Form) => form.length === 1

const texts = fc.constantFrom(
  ...['', 'house', 'a "fine" house', '5" pipe', 'two\nlines', 'three\n\nlines, "here"', 'x, y; z|\tw', 'garden\\', 'é ½', '{"a":[1]}', '],[', '","'],
) // biome-ignore format: a list

/** How cells are quoted: where they must be, all, or as MySQL does it. */
export type Quoting = 'needed' | 'all' | 'backslash'

function writeCell(text: string, separator: string, quoting: Quoting): string {
  const must = quoting !== 'needed' || text.includes(separator) || /["\n\\]/.test(text)
  if (!must) return text
  return `"${quoting === 'backslash' ? text.replaceAll('"', '\\"') : text.replaceAll('"', '""')}"`
}

/** One record as it stands in a file, without what separates it from the next. */
function write(row: Row, form: Form, quoting: Quoting, { columns }: Kind): string {
  if (isCsv(form)) return row.map((cell) => writeCell(cell, form, quoting)).join(form)
  const [key, ...others] = columns.map((name, at) => [name, row[at]] as const)
  return JSON.stringify(Object.fromEntries([key, ['photos', [{ u: 1 }, { u: 2 }]], ...others] as [string, unknown][]))
}

/** Ways to spoil the bytes of one record; `at` is a place in it, from 0 to 1. */
const spoilers: Record<string, (raw: string, at: number, byte: string) => string> = {
  change: (raw, at, byte) => raw.slice(0, at) + byte + raw.slice(at + 1),
  cut: (raw, at) => raw.slice(0, at) + raw.slice(at + 1),
  double: (raw, at) => raw.slice(0, at) + (raw[at] ?? '') + raw.slice(at),
  insert: (raw, at, byte) => raw.slice(0, at) + byte + raw.slice(at),
  'open a quote': (raw, at) => raw.replace(/([,;\t|:])/g, (found, _, place) => (place >= at ? `${found}"` : found)),
  'open one quote': (raw, at) => raw.slice(0, at) + raw.slice(at).replace(/([,;\t|])(?!")/, '$1"'),
  'lose a quote': (raw, at) => raw.slice(0, at) + raw.slice(at).replace('"', ''),
  'escape a quote': (raw, at) => raw.slice(0, at) + raw.slice(at).replace('"', '\\"'),
  'leave the rest out': (raw, at) => raw.slice(0, at),
  'leave out the beginning': (raw, at) => raw.slice(at),
  'lose a bracket': (raw, at) => raw.slice(0, at) + raw.slice(at).replace(/[{}[\]]/, ''),
  'add cells': (raw, at, byte) => `${raw}${byte},;\t|x${at}`,
}

export const kinds = Object.keys(spoilers)
const bytes = fc.constantFrom('"', '\\', ',', ';', '|', '\t', '{', '}', '[', ']', ':', 'x', '\xff', '\n', ' ', '\0')

export interface World {
  form: Form
  quoting: Quoting
  kind: string
  rows: Row[]
  spoilt: ReadonlySet<number>
  file: Buffer
}

interface Drawn {
  form: Form
  quoting: Quoting
  kind: string
  cells: [string, string][]
  first: number
  marks: { at: number; byte: string }[]
  keyLast: boolean
}

const drawn: fc.Arbitrary<Drawn> = fc.record({
  form: fc.constantFrom(...forms),
  quoting: fc.constantFrom<Quoting>('needed', 'all', 'backslash'),
  kind: fc.constantFrom(...kinds),
  cells: fc.array(fc.tuple(texts, texts), { minLength: 2, maxLength: 7 }),
  first: fc.nat(6),
  marks: fc.array(fc.record({ at: fc.double({ min: 0, max: 1, noNaN: true }), byte: bytes }), {
    minLength: 1,
    maxLength: 3,
  }),
  keyLast: fc.boolean(),
})

const latin1 = (text: string) => Buffer.from(text, 'latin1')
/** UTF-8 as one character a byte: a byte is changed, not a character. */
const toBytes = (text: string) => Buffer.from(text).toString('latin1')

function build({ form, quoting, kind, cells, first, marks, keyLast }: Drawn, of: Kind): World {
  // what a backslash at the end of a cell means differs from writer to writer
  const plain = (text: string) => (quoting === 'backslash' ? text.replaceAll('\\', '/') : text)
  const rows = cells.map(([text, other], n): Row => [of.keyOf(n + 1), plain(text), plain(other), String(78_701 + n)])
  const spoilt = new Set<number>()
  const spoil = spoilers[kind] as (raw: string, at: number, byte: string) => string
  const order = keyLast ? [1, 2, 3, 0] : [0, 1, 2, 3]
  const raws = rows.map((row, n) => {
    const cellsOf = isCsv(form) ? (order.map((at) => row[at]) as unknown as Row) : row
    const raw = toBytes(write(cellsOf, form, quoting, of))
    const mark = marks[n - (first % rows.length)]
    if (!mark) return raw
    spoilt.add(n)
    return spoil(raw, Math.floor(mark.at * raw.length), mark.byte)
  })
  const header = order.map((at) => of.columns[at]).join(form)
  const text =
    form === 'json'
      ? `[${raws.join(',\n')}]`
      : [...(isCsv(form) ? [header] : []), ...raws].map((raw) => `${raw}\n`).join('')
  return { form, quoting, kind, rows, spoilt, file: latin1(text) }
}

/** Files of two to seven records, of which one to three next to each other are spoilt in the same way. */
export const worldsOf = (of: Kind): fc.Arbitrary<World> => drawn.map((one) => build(one, of))

/** The file without a fault. */
export const writeGood = (rows: readonly Row[], of: Kind): string =>
  rows.map((row) => `${write(row, 'ndjson', 'needed', of)}\n`).join('')

/** Whether `key` stands in the bytes of the file, between what separates it from other text: otherwise it is another key. */
export const isIn = ({ file, form }: World, key: string): boolean =>
  file
    .toString('latin1')
    .split(form.length === 1 ? new RegExp(`[\\s"${form}]+`) : /[\s",]+/)
    .includes(key)
