/** A file of listings for `validate`: whether `leads import` would take each record. */
import { plural } from '../../base/amounts.ts'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { UnreadableValues } from '../../leads/examples.ts'
import type { LeadMap } from '../../leads/field-map.ts'
import { NeededFields } from '../../leads/needed-fields.ts'
import { FieldPicker, type ReadOptions } from '../../leads/pick-fields.ts'
import { describeUnreadable } from '../../leads/read-value.ts'
import { type CommandThatFits, lackError } from '../../records/lack.ts'
import type { RecordPage } from '../../records/read-records.ts'
import { type Finding, problem } from '../finding.ts'

/** Checks the records of one file, page by page. */
export interface RecordsCheck {
  check(page: RecordPage): Generator<Finding>
  /** Findings that need the whole file. */
  finish(): Generator<Finding>
}

export interface LeadsCheckOptions extends ReadOptions {
  map?: LeadMap | undefined
  /** The command with the `--map` options that fit a file whose columns have other names. */
  commandThatFits: CommandThatFits
}

const missingCode = 'is missing: only a listing that is known already may leave it out'

/**
 * Yields a problem for each record that an import would reject (`where` is `FILE:LINE`), a problem if no record has the fields that a
 * listing needs, and notes on each field with unreadable values and each field that an import ignores.
 */
export class LeadsCheck implements RecordsCheck {
  private readonly name: string
  private readonly picker: FieldPicker
  private readonly needs: NeededFields
  private readonly options: LeadsCheckOptions
  private readonly counts: { filtered?: number }
  private readonly unreadable = new UnreadableValues()
  /** The counts of this file alone. */
  private filtered = 0

  constructor(name: string, options: LeadsCheckOptions, counts: { filtered?: number }) {
    this.name = name
    this.options = options
    this.counts = counts
    this.picker = new FieldPicker(options.map, options)
    this.needs = new NeededFields(options.map)
  }

  *check(page: RecordPage): Generator<Finding> {
    if (page.header) this.picker.setHeader(page.header)
    const lack = this.needs.look(page)
    if (lack) throw page.foreign ?? lackError(lack, this.options.commandThatFits)
    for (const record of page.records) {
      const picked = this.picker.pick(record)
      if ('filtered' in picked) {
        this.filtered++
        this.counts.filtered = (this.counts.filtered ?? 0) + 1
        continue
      }
      this.needs.count(picked, record)
      const at = { level: 'problem', code: 'listings', where: `${this.name}:${record.line}` } as const
      if (!('patch' in picked)) {
        yield { ...at, path: picked.path, what: picked.message }
        continue
      }
      for (const unread of picked.unread ?? []) {
        const example = { file: this.name, line: record.line, ...describeUnreadable(unread) }
        this.unreadable.add(unread.field, 1, example)
      }
      if (picked.patch.postalCode === undefined) yield { ...at, path: 'postalCode', what: missingCode }
    }
  }

  *finish(): Generator<Finding> {
    for (const message of this.picker.finish()) yield this.note('', message)
    const lack = this.needs.findLack(this.filtered)
    if (lack) yield problemOf(this.name, lackError(lack, this.options.commandThatFits))
    for (const [path, { line, message }] of this.unreadable.examples) {
      const count = this.unreadable.counts.get(path) ?? 0
      const others = count > 1 ? `; so are ${count - 1} more` : ''
      const toDo = 'An import takes it as unknown; --null TEXT names texts that mean that.'
      yield { ...this.note(path, `${message}${others}`, toDo), where: `${this.name}:${line}` }
    }
    for (const [field, told] of tellIgnored(this.picker.ignored, 'a lead')) yield this.note(field, ...told)
  }

  private note(path: string, what: string, toDo?: string): Finding {
    return { level: 'note', code: 'listings', where: this.name, path, what, toDo }
  }
}

/** The note on each field that an import ignores; `noun`: the kind of record that has no such field. */
export function tellIgnored(
  ignored: { toObject(): Record<string, number> },
  noun: string,
): [field: string, told: [what: string, toDo: string]][] {
  const toDo = 'An import reads a field from a column of another name with --map FIELD=COLUMN.'
  return Object.entries(ignored.toObject()).map(([field, records]) => [
    field,
    [`is not a field of ${noun}: ignored in ${plural(records, 'record')}`, toDo],
  ])
}

/** The finding on a file that an import would refuse. Throws errors that are not a `LeadpushError`, or are about the database. */
export function problemOf(name: string, error: unknown): Finding {
  if (!(error instanceof LeadpushError) || codeOf(error) === 'database') throw error
  const nothing = 'An import would take nothing of this file.'
  const toDo = error.hint ? `${nothing} ${error.hint.replaceAll('\n', ' ')}` : nothing
  return { code: 'file', where: name, path: '', ...problem(messageOf(error), toDo) }
}
