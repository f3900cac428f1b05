/** Reads the files of the Delete Request and Opt-out Platform: the kind of each list, and its work items. */
import { LeadpushError } from '../base/errors.ts'
import { findRecordFile, readRecords } from '../records/read-records.ts'
import {
  columnsOf,
  isWorkItemId,
  kindOfList,
  type ListKind,
  listTypes,
  parseDropFileName,
  parseDropHash,
} from './drop-format.ts'

/** A file of the platform. */
export interface DropFile {
  name: string
  type: keyof typeof kindOfList | 'Removed'
}

/** A work item as a file has it. */
export interface WorkItem {
  id: string
  kind: ListKind
  hash: Buffer
}

/** The files by their names. Throws `usage` for a file that does not exist or is of another kind. */
export function findDropFiles(names: readonly string[]): DropFile[] {
  return names.map((name) => {
    const type = parseDropFileName(name)
    if (type === undefined) {
      throw new LeadpushError('usage', `${name}: is not named as the platform names its lists`, {
        hint: 'Unzip the download, and give its files as they are: 20260801_1234_Email.csv, 20260801_1234_Removed.csv.',
      })
    }
    if (type !== 'Removed' && !(type in kindOfList)) {
      throw new LeadpushError('usage', `${name}: listings have nothing that a list of the type ${type} could match`, {
        hint: 'leadpush takes the lists Email and Phone, and those of removed identifiers.',
      })
    }
    // it is read again for its response
    if (findRecordFile(name, ['csv']).bytesTotal === undefined) {
      throw new LeadpushError('usage', `${name}: must be a file, not a pipe`)
    }
    return { name, type: type as DropFile['type'] }
  })
}

/**
 * The work items of a file, page by page; for a list of removed ones only those that leadpush takes. Throws `failed` if the file is
 * broken.
 */
export async function* readWorkItems(file: DropFile, signal?: AbortSignal): AsyncGenerator<WorkItem[]> {
  try {
    yield* readPages(file, signal)
  } catch (error) {
    if (!(error instanceof LeadpushError) || error.code !== 'failed') throw error
    throw new LeadpushError('failed', `${file.name}: ${error.message}`, { cause: error })
  }
}

async function* readPages(file: DropFile, signal?: AbortSignal): AsyncGenerator<WorkItem[]> {
  const columns = columnsOf(file.type)
  const fail = (line: number, message: string) => new LeadpushError('failed', `line ${line}: ${message}`)
  const source = { ...findRecordFile(file.name, ['csv']), format: 'csv' as const }
  let isChecked = false
  for await (const { header, records } of readRecords(source, { signal, mayBeEmpty: true })) {
    if (header && !isChecked) {
      const names = header.names.join(',')
      if (names.toLowerCase() !== columns.join(',').toLowerCase()) {
        throw fail(1, `must have the columns ${columns.join(',')}`)
      }
      isChecked = true
    }
    const items: WorkItem[] = []
    for (const { line, cells, error } of records) {
      if (cells === undefined) throw fail(line, error ?? 'cannot be read')
      const [id = '', text = '', list = file.type] = cells
      const hash = parseDropHash(text)
      if (!isWorkItemId(id)) throw fail(line, 'ID must be letters and digits')
      if (hash === undefined) throw fail(line, 'Hash must be a SHA-256 in Base64, 44 characters')
      if (!listTypes.some((type) => type === list)) throw fail(line, `ListType must be one of ${listTypes.join(', ')}`)
      if (list in kindOfList) items.push({ id, hash, kind: kindOfList[list as keyof typeof kindOfList] })
    }
    yield items
  }
  if (!isChecked) throw new LeadpushError('failed', 'is empty: it has not even a header')
}
