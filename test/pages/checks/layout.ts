/** How pages are set: the width of their lines, and the size of the cells of their tables. CONTRIBUTING.md has both figures. */
import { documents, wordsOf } from '../../support/markdown.ts'
import { type Finding, foundAt } from './finding.ts'

const charsMax = 140
const wordsMax = 60

export function* checkWidth(): Iterable<Finding> {
  for (const document of documents) {
    for (const line of document.prose) {
      if (line.startsWith('|') || [...line].length <= charsMax) continue
      yield foundAt(document, line, `wrap the line at ${charsMax} characters: \`npm run prose\` does`)
    }
  }
}

/** No cell of a table is a page of its own. */
export function* checkCells(): Iterable<Finding> {
  for (const document of documents) {
    for (const cell of document.tables.flatMap(({ rows }) => rows.flat())) {
      const words = wordsOf(cell).length
      if (words > wordsMax)
        yield foundAt(document, cell.replaceAll('|', '\\|'), `take words out of the cell: it has ${words}, ${wordsMax} are allowed`)
    }
  }
} // biome-ignore format: one line
