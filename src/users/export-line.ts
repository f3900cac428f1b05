/** A user as a record that `users import` reads: a line of NDJSON, or the lines of CSV, one a query. */
import { IgnoredFields } from '../records/ignored-fields.ts'
import { LineParser } from './csv-line.ts'
import { type UserColumn, userColumns } from './field-map.ts'
import { type Query, serialiseQuery } from './query.ts'

export interface ExportedUser {
  email: string
  /** Absent where keys are not exported. */
  receiverApiKey?: string
  subscribed: boolean
  queries: Query[]
}

/** The columns of CSV, in their order. */
export const exportColumns = (hasKeys: boolean): UserColumn[] =>
  userColumns.filter((column) => hasKeys || column !== 'receiverApiKey')

/** Text that a spreadsheet takes for a formula, or that an import reads as several lines or trims. */
const isSafe = (cell: string) => !/^[=+\-@]|\p{Cc}|\p{Zl}|\p{Zp}/u.test(cell)

const quote = (cell: string) => (/[",;|]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)

/** Makes the lines of one CSV file. */
export class UserLines {
  readonly header: string
  private readonly columns: UserColumn[]
  private readonly parser = new LineParser(new IgnoredFields())

  constructor(hasKeys: boolean) {
    this.columns = exportColumns(hasKeys)
    this.header = `${this.columns.join(',')}\n`
    this.parser.setHeader({ names: this.columns, raw: Buffer.from(this.header) })
  }

  /** Undefined where CSV cannot hold the user: an import would not read the same. */
  toLines(user: ExportedUser): string | undefined {
    const { email, receiverApiKey = '', subscribed, queries } = user
    let lines = ''
    for (const query of queries.length > 0 ? queries : [undefined]) {
      const given = { email, receiverApiKey, subscribed: String(subscribed), ...query }
      const cells = this.columns.map((column) => String(given[column] ?? ''))
      if (!cells.every(isSafe) || !this.readsAs(cells, user, query)) return undefined
      lines += `${cells.map(quote).join(',')}\n`
    }
    return lines
  }

  private readsAs(cells: string[], { email, receiverApiKey, subscribed }: ExportedUser, query?: Query): boolean {
    const parsed = this.parser.parse(cells)
    if (!('user' in parsed)) return false
    const read = parsed.user
    const asText = (queries: readonly Query[] = []) => queries.map(serialiseQuery).join()
    return (
      read.email === email &&
      read.receiverApiKey === receiverApiKey &&
      read.subscribed === subscribed &&
      asText(read.queries) === asText(query && [query])
    )
  }
}
