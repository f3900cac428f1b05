/** `validate FILE…`: tells the kind of each file by its name, and checks it. No database is needed. */
import { LeadpushError } from '../../base/errors.ts'
import { findRecordFile, type RecordFile } from '../../records/read-records.ts'
import { checkBodyFile } from './body-file.ts'
import type { Findings } from './finding.ts'
import { checkLeadsFile } from './leads-file.ts'

export type FileToCheck = { kind: 'body'; name: string } | { kind: 'leads'; file: RecordFile }

function findFile(name: string): FileToCheck {
  if (name === '-') {
    throw new LeadpushError('usage', 'Standard input (-) has no name that says what it is.', {
      hint: 'Write it to a file that ends in .json (a delivery body), .ndjson or .csv (listings).',
    })
  }
  if (!/\.json$/i.test(name)) return { kind: 'leads', file: findRecordFile(name, ['ndjson', 'csv']) }
  findRecordFile(name, ['json'])
  return { kind: 'body', name }
}

/** Throws `usage` where a file does not exist, cannot be read, or has a name that does not tell its kind. */
export function findFiles(names: readonly string[]): FileToCheck[] {
  return names.map(findFile)
}

export interface FileCounts {
  files: number
  /** Records in files of listings. */
  records: number
}

/** Yields the findings on the files, one file after the other; `counts` grows as they are read. */
export async function* checkFiles(files: readonly FileToCheck[], counts: FileCounts, signal?: AbortSignal): Findings {
  for (const file of files) {
    if (signal?.aborted) return
    counts.files++
    if (file.kind === 'body') yield* checkBodyFile(file.name, signal)
    else yield* checkLeadsFile(file.file, counts, signal)
  }
}
