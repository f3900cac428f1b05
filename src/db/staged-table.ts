/** A table that rows are copied into, as one list of its columns: the name, the type and the writer of each stand together. */
import type { CopyRows } from './copy.ts'

export interface StagedColumn<Row> {
  name: string
  type: string
  write(rows: CopyRows, row: Row): void
}

export interface StagedTable<Row> {
  /** `NAME (COLUMN TYPE, …)`, to create it. */
  definition: string
  /** `NAME (COLUMN, …)`, to copy into it. */
  target: string
  add(rows: CopyRows, row: Row): void
}

export function stagedTable<Row>(name: string, columns: readonly StagedColumn<Row>[]): StagedTable<Row> {
  const list = (show: (column: StagedColumn<Row>) => string) => `${name} (${columns.map(show).join(', ')})`
  return {
    definition: list((column) => `${column.name} ${column.type}`),
    target: list((column) => column.name),
    add(rows, row) {
      rows.begin(columns.length)
      for (const column of columns) column.write(rows, row)
    },
  }
}
