/** A table without its looks: `cli/table.ts` lays it out for a terminal, `inspect/page/table.ts` for a page. */
import { formatCount } from './amounts.ts'

export interface Column {
  head: string
  /** Aligned to the right. */
  isNumber?: boolean
  /** Long text, which may be cut on a narrow terminal, and break anywhere on a page. */
  wide?: boolean
}

export type Tone = 'good' | 'bad' | 'doubtful' | 'faint'

interface ToldCell {
  text: string
  tone?: Tone
}

export type Cell = string | ToldCell

export interface Table {
  columns: readonly Column[]
  /** The first cell of a row is its heading. */
  rows: readonly (readonly Cell[])[]
}

export const numberColumns = (...heads: string[]): Column[] => heads.map((head) => ({ head, isNumber: true }))

export const toned = (text: string, tone: Tone): Cell => ({ text, tone })

/** A number of things, which has its tone above 0. */
export const counted = (value: number, tone?: Tone): Cell => ({
  text: formatCount(value),
  ...(value > 0 && tone && { tone }),
})
