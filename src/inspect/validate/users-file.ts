/** A file of users for `validate`: whether `users import` would take each record. */
import { IgnoredFields } from '../../records/ignored-fields.ts'
import type { RecordPage } from '../../records/read-records.ts'
import { LineParser } from '../../users/csv-line.ts'
import { parseUser } from '../../users/user.ts'
import type { Finding } from './finding.ts'
import type { RecordsCheck } from './leads-file.ts'

/** Yields a problem for each record that an import would reject, and a note for each field that it ignores. */
export class UsersCheck implements RecordsCheck {
  private readonly name: string
  private readonly ignored = new IgnoredFields()
  private readonly lines = new LineParser(this.ignored)

  constructor(name: string) {
    this.name = name
  }

  /** In CSV each line is looked at by itself: what the lines of one user make together, only an import sees. */
  *check({ records, header }: RecordPage): Generator<Finding> {
    if (header) this.lines.setHeader(header)
    for (const { line, value, cells, error } of records) {
      const parse = () => (cells ? this.lines.parse(cells, line) : parseUser(value, this.ignored))
      const parsed = error === undefined ? parse() : { path: '', message: error }
      if ('user' in parsed) continue
      yield { type: 'problem', where: `${this.name}:${line}`, path: parsed.path, message: parsed.message }
    }
  }

  *finish(): Generator<Finding> {
    for (const [field, records] of Object.entries(this.ignored.toObject())) {
      const message = `is no field of a user: ignored in ${records} ${records === 1 ? 'record' : 'records'}`
      yield { type: 'note', where: this.name, path: field, message }
    }
  }
}
