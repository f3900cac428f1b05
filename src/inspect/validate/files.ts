/** `validate FILE…`: tells what each file is by its name and its first records, and checks it. No database is needed. */
import { LeadpushError } from '../../base/errors.ts'
import { foldName } from '../../records/columns.ts'
import { findRecordFile, type RecordFile, type RecordPage, readRecords } from '../../records/read-records.ts'
import { checkBodyFile } from './body-file.ts'
import type { Findings } from './finding.ts'
import { LeadsCheck, type LeadsCheckOptions, problemOf, type RecordsCheck } from './leads-file.ts'
import { UsersCheck } from './users-file.ts'

export interface FileCheckOptions extends LeadsCheckOptions {
  encoding?: string | undefined
}

function findFile(name: string): RecordFile {
  if (name !== '-') return findRecordFile(name, ['ndjson', 'csv', 'json'])
  throw new LeadpushError('usage', 'Standard input (-) has no name that says what it is.', {
    hint: 'Write it to a file that ends in .json (a delivery body), .ndjson or .csv (listings or users).',
  })
}

/** Throws `usage` where a file does not exist, cannot be read, or has a name that does not tell its format. */
export function findFiles(names: readonly string[]): RecordFile[] {
  return names.map(findFile)
}

export interface FileCounts {
  files: number
  /** Records in files of listings and users. */
  records: number
  /** Records that `--where` does not take. */
  filtered?: number
}

/** Whether the first records are users: they have an `email`, and nothing that a listing is known by. */
function areUsers({ header, records }: RecordPage, { map }: FileCheckOptions): boolean {
  const first = records.find(({ value }) => typeof value === 'object' && value !== null)?.value ?? {}
  const names = new Set((header?.names ?? Object.keys(first)).map(foldName))
  return names.has('email') && !names.has(foldName(map?.get('href')?.column ?? 'href')) && !names.has('postalcode')
}

async function* checkRecords(
  file: RecordFile,
  counts: FileCounts,
  options: FileCheckOptions,
  signal: AbortSignal | undefined,
): Findings {
  let check: RecordsCheck | undefined
  try {
    for await (const page of readRecords(file, { signal, encoding: options.encoding })) {
      counts.records += page.records.length
      if (!check && page.records.length === 0) continue
      check ??= areUsers(page, options)
        ? new UsersCheck(file.name, { commandThatFits: options.commandThatFits })
        : new LeadsCheck(file.name, options, counts)
      yield* check.check(page)
    }
    if (check) yield* check.finish()
  } catch (error) {
    if (signal?.aborted) return
    yield problemOf(file.name, error)
  }
}

/** Yields the findings on the files, one file after the other; `counts` grows as they are read. */
export async function* checkFiles(
  files: readonly RecordFile[],
  counts: FileCounts,
  signal?: AbortSignal,
  options: FileCheckOptions = { commandThatFits: () => 'leadpush validate FILE' },
): Findings {
  for (const file of files) {
    if (signal?.aborted) return
    counts.files++
    // a body is not zipped
    if (file.format === 'json' && !file.gzip) yield* checkBodyFile(file.name, signal)
    else yield* checkRecords(file, counts, options, signal)
  }
}
