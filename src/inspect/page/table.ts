/** Builds the tables of a page. */
import type { Cell, Column, Table } from '../../base/table.ts'
import { type Html, html, withCode } from './html.ts'

export interface TableParts extends Table {
  /** Names the table: read out, and shown as a heading unless `captionHidden`. */
  caption: string
  captionHidden?: boolean
  /** How many rows were left out. */
  more?: string | undefined
}

/** On a narrow page a row with this many columns, or with a long text, becomes a paragraph: nothing of it is off the screen. */
const stackedColumnsMin = 5

function buildCell(cell: Cell, column: Column | undefined, isHead: boolean): Html {
  const { text, tone }: Exclude<Cell, string> = typeof cell === 'string' ? { text: cell } : cell
  const names = [column?.isNumber && 'number', column?.wide && 'wide', tone].filter(Boolean).join(' ')
  const attributes = html`${names && html` class="${names}"`}${!isHead && html` data-head="${column?.head ?? ''}"`}`
  // long texts come from data, and may run from right to left
  const content = column?.wide ? html`<bdi>${text}</bdi>` : text
  return isHead ? html`<th scope="row"${attributes}>${content}</th>` : html`<td${attributes}>${content}</td>`
}

/** The table with its heading; `more` is printed below it. */
export function buildTable({ caption, captionHidden, columns, rows, more }: TableParts): Html {
  const heads = columns.map(
    ({ head, isNumber }) => html`<th scope="col"${isNumber && html` class="number"`}>${head}</th>`,
  )
  const isStacked = columns.length >= stackedColumnsMin || columns.some(({ wide }) => wide)
  return html`<div class="${isStacked ? 'table stacked' : 'table'}">
 ${
   !captionHidden &&
   html`<h3>${caption}</h3>
`
 }<div class="scroll" role="region" aria-label="Table: ${caption}" tabindex="0">
<table>
<caption class="unseen">${caption}</caption>
<thead><tr>${heads}</tr></thead>
<tbody>
${rows.map(
  (row) => html`<tr>${row.map((cell, at) => buildCell(cell, columns[at], at === 0))}</tr>
`,
)}</tbody>
</table>
</div>
${more && html`<p class="more">${withCode(more)}</p>`}
</div>
`
}
