/** Reads the project's Markdown for lint and tests: headings, tables, blocks of code, words in backticks, links. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

export interface Table {
  head: string[]
  rows: string[][]
  /** The heading above it. */
  title: string
}

export interface Document {
  /** The path relative to the package. */
  file: string
  /** All of the text. */
  lines: string[]
  /** The text without blocks of code. */
  prose: string[]
  headings: string[]
  tables: Table[]
  /** The lines of the blocks of code, except those of kind `text`; of a `console` block the commands alone. */
  code: string[]
}

const cellsOf = (line: string) =>
  line
    .replace(/^\|\s*|\s*\|\s*$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))

export function readDocument(file: string): Document {
  const lines = readFileSync(join(packageRoot, file), 'utf8').split('\n')
  const document: Document = { file, lines, prose: [], headings: [], tables: [], code: [] }
  /** Of the block of code that the line is in. */
  let kind: string | undefined
  let table: Table | undefined
  for (const line of lines) {
    const [, fence] = /^ *```(\w*)/.exec(line) ?? []
    if (fence !== undefined) kind = kind === undefined ? fence : undefined
    else if (kind === 'console') document.code.push(...(line.startsWith('$ ') ? [line.slice(2)] : []))
    else if (kind !== undefined) document.code.push(...(kind === 'text' ? [] : [line]))
    else {
      document.prose.push(line)
      const heading = /^#+ (.*)/.exec(line)?.[1]
      if (heading !== undefined) document.headings.push(heading)
      if (!line.startsWith('|')) table = undefined
      else if (table) table.rows.push(cellsOf(line))
      else {
        table = { head: cellsOf(line), rows: [], title: document.headings.at(-1) ?? '' }
        document.tables.push(table)
      }
    }
  }
  // the row of dashes
  for (const { rows } of document.tables) rows.shift()
  return document
}

/** The one table whose head begins with these words. */
export function findTable({ file, tables }: Document, ...head: string[]): string[][] {
  const found = tables.filter((table) => head.every((word, at) => table.head[at] === word))
  if (found.length !== 1 || !found[0]) throw new Error(`${file} has ${found.length} tables that begin with ${head}`)
  return found[0].rows
}

/** The rows of all tables whose head begins with this word. */
export const findRows = ({ tables }: Document, word: string): string[][] =>
  tables.filter(({ head }) => head[0] === word).flatMap(({ rows }) => rows)

export const wordsOf = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '')

/** The texts in backticks. */
export const spansOf = (text: string): string[] =>
  [...text.matchAll(/(`+)(.+?)\1(?!`)/g)].map(([, , span = '']) => span.trim())

/** The pages of the contract, clause by clause; the other pages repeat it for their readers. */
export const contractPages = ['contract', 'contract-delivery', 'contract-endpoints'].map((name) =>
  readDocument(`docs/${name}.md`),
)
export const contract = joinDocuments(contractPages)
export const readme = readDocument('README.md')

const pages = readdirSync(join(packageRoot, 'docs'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.md') && !name.startsWith('contract'))
  .sort()
  .map((name) => readDocument(`docs/${name}`))

const others = [
  'ARCHITECTURE.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  ...['n8n', 'node-red', 'zapier'].map((name) => `examples/${name}/README.md`),
]
export const documents = [readme, ...pages, ...contractPages, ...others.map(readDocument)]

/** README, the pages that it links and those for contributors, as one text: each fact stands in only one of them. */
export const manual = joinDocuments([readme, ...pages, ...others.slice(0, 2).map(readDocument)])

function joinDocuments(parts: Document[]): Document {
  return {
    file: parts.map(({ file }) => file).join(', '),
    lines: parts.flatMap(({ lines }) => lines),
    prose: parts.flatMap(({ prose }) => prose),
    headings: parts.flatMap(({ headings }) => headings),
    tables: parts.flatMap(({ tables }) => tables),
    code: parts.flatMap(({ code }) => code),
  }
}

/** The files that machines run or read: the crontab, and the files in the folders of `examples/` that are neither programs nor pages. */
export function readExamples(): Pick<Document, 'file' | 'lines' | 'code'>[] {
  const folders = readdirSync(join(packageRoot, 'examples')).filter((name) => name !== 'zapier')
  const files = folders.flatMap((folder) =>
    readdirSync(join(packageRoot, 'examples', folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/\.(md|json)$/.test(entry.name))
      .map(({ parentPath, name }) => relative(packageRoot, join(parentPath, name))),
  )
  return ['crontab.example', ...files].map((file) => {
    const lines = readFileSync(join(packageRoot, file), 'utf8').split('\n')
    return { file, lines, code: lines }
  })
}
