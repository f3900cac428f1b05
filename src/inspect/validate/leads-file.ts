/** `validate FILE.ndjson`, `FILE.csv`, also with `.gz`: whether `leads import` would take each record of a file. */
import { LeadpushError, messageOf } from '../../base/errors.ts'
import { UnreadableValues } from '../../leads/examples.ts'
import { FieldPicker } from '../../leads/pick-fields.ts'
import { describeUnreadable, showValue } from '../../leads/read-value.ts'
import { postalKey } from '../../places/postal-key.ts'
import { type RecordFile, readRecords } from '../../records/read-records.ts'
import type { Findings } from './finding.ts'

interface Progress {
  records: number
}

/**
 * Yields a problem for each record that an import would reject (`where` is `FILE:LINE`) and one for a file that breaks off; then
 * a note for each field with values that cannot be read, and for each that an import ignores. `progress` counts the records.
 */
export async function* checkLeadsFile(file: RecordFile, progress: Progress, signal?: AbortSignal): Findings {
  const picker = new FieldPicker()
  const unreadable = new UnreadableValues()
  try {
    for await (const page of readRecords(file, { signal })) {
      if (page.header) picker.setHeader(page.header)
      for (const record of page.records) {
        progress.records++
        const picked = picker.pick(record)
        const where = `${file.name}:${record.line}`
        if (!('patch' in picked)) {
          const { path, message } = picked
          yield { type: 'problem', where, path, message }
          continue
        }
        for (const unread of picked.unread ?? []) {
          unreadable.add(unread.field, 1, { file: file.name, line: record.line, ...describeUnreadable(unread) })
        }
        if (picked.patch.postalCode === undefined) {
          const message = 'is missing: only a listing that is known already may leave it out'
          yield { type: 'problem', where, path: 'postalCode', message }
        } else if (postalKey(picked.patch.postalCode) === undefined) {
          yield {
            type: 'problem',
            where,
            path: 'postalCode',
            message: `is no postal code: ${showValue(picked.patch.postalCode, 'postalCode')}`,
          }
        }
      }
    }
  } catch (error) {
    if (signal?.aborted) return
    if (!(error instanceof LeadpushError)) throw error
    yield {
      type: 'problem',
      where: file.name,
      path: '',
      message: messageOf(error),
      hint: 'An import would take nothing of this file.',
    }
  }
  for (const [path, { line, message }] of unreadable.examples) {
    const count = unreadable.counts.get(path) ?? 0
    const others = count > 1 ? `; so are ${count - 1} more` : ''
    const hint = 'An import takes it as unknown; --null TEXT names texts that mean that.'
    yield { type: 'note', where: `${file.name}:${line}`, path, message: `${message}${others}`, hint }
  }
  for (const [field, records] of Object.entries(picker.ignored.toObject())) {
    const message = `is no field of a lead: ignored in ${records} ${records === 1 ? 'record' : 'records'}`
    const hint = 'An import reads a field from a column of another name with --map FIELD=COLUMN.'
    yield { type: 'note', where: file.name, path: field, message, hint }
  }
}
