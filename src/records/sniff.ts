/** Tells the format of a file that has no name, and the separator of its CSV, from its beginning. */
import { type RecordFormat, trimSpace } from './record.ts'
import { CsvSplitter, separatorLine } from './split-csv.ts'
import { ObjectSplitter } from './split-object.ts'

/** So much is looked at; a pipe is waited for until it has brought so much, or ends. */
export const sniffedBytes = 64 * 1024

/** A comma first: it wins where others would do as well. */
const separators = [',', ';', '\t', '|']

/** The records after the header that have as many cells as it, of all; no cells to speak of: -1. */
function judge(sample: Buffer, separator: string): { columns: number; fit: number } {
  try {
    const splitter = new CsvSplitter(separator)
    const records = splitter.push(sample)
    const columns = splitter.header?.names.length ?? 0
    return { columns, fit: records.length === 0 ? 1 : splitter.exact / records.length }
  } catch {
    return { columns: 0, fit: 0 }
  }
}

/**
 * The separator with which the most of the first records have as many cells as the header, and of several the one that makes the
 * most columns; a line `sep=;`, which spreadsheets write, tells it.
 */
export function sniffSeparator(first: Buffer, isWhole: boolean): string {
  const told = separatorLine.exec(first.subarray(0, 16).toString('latin1'))?.[1]
  if (told) return told
  // a record that is cut off would not fit
  const sample = isWhole ? Buffer.concat([first, Buffer.from('\n')]) : first
  let best = { separator: ',', columns: 1, fit: -1 }
  for (const separator of separators) {
    const { columns, fit } = judge(sample, separator)
    if (columns < 2) continue
    if (fit > best.fit || (fit === best.fit && columns > best.columns)) best = { separator, columns, fit }
  }
  return best.separator
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** `{` begins JSON lines, or one object with a list in it: its first line tells, where that is whole. */
function sniffObject(first: Buffer, isWhole: boolean): RecordFormat {
  const text = trimSpace(first)
  const lineEnd = text.indexOf(0x0a)
  const line = lineEnd < 0 ? text : text.subarray(0, lineEnd)
  // a line that ends in } is meant to be a record, if a bad one
  if (lineEnd >= 0) return trimSpace(line).at(-1) === 0x7d ? 'ndjson' : 'json'
  const splitter = new ObjectSplitter()
  // it may keep what it gets; what is wrong with it is told later
  splitter.push(Buffer.from(first))
  return splitter.isWrapper || (isWhole && !isJson(line.toString())) ? 'json' : 'ndjson'
}

/** The format of a file by its first characters, which must have no mark. */
export function sniffFormat(first: Buffer, isWhole: boolean): RecordFormat {
  const byte = first.find((each) => each > 0x20)
  if (byte === 0x5b) return 'json'
  return byte === 0x7b ? sniffObject(first, isWhole) : 'csv'
}

/** Whether a file that should be one JSON text is JSON lines. */
export const isLines = (first: Buffer, isWhole: boolean): boolean =>
  first.find((each) => each > 0x20) === 0x7b && sniffObject(first, isWhole) === 'ndjson'
