/** Reads the project's Markdown for tests: headings, tables, blocks of code, words in backticks, links. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
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
  /** The text without blocks of code. */
  prose: string[]
  headings: string[]
  tables: Table[]
  /** The lines of the blocks of code; of a `console` block the commands alone. */
  code: string[]
}

const cellsOf = (line: string) =>
  line
    .replace(/^\|\s*|\s*\|\s*$/g, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))

export function readDocument(file: string): Document {
  const document: Document = { file, prose: [], headings: [], tables: [], code: [] }
  let isCode = false
  let isConsole = false
  let table: Table | undefined
  for (const line of readFileSync(join(packageRoot, file), 'utf8').split('\n')) {
    if (line.startsWith('```')) {
      isCode = !isCode
      isConsole = line.startsWith('```console')
    } else if (isConsole) document.code.push(...(line.startsWith('$ ') ? [line.slice(2)] : []))
    else if (isCode) document.code.push(line)
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

/** The texts in backticks. */
export const spansOf = (text: string): string[] =>
  [...text.matchAll(/(`+)(.+?)\1(?!`)/g)].map(([, , span = '']) => span.trim())

/** The anchor that GitHub gives a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

/** The broken links: to a heading or a file that does not exist. */
export function findDeadLinks({ file, prose, headings }: Document): string[] {
  const links = [...prose.join('\n').matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  return links.filter((link) => {
    if (/^https:/.test(link)) return false
    const [path = '', anchor] = link.split('#')
    if (path !== '' && !existsSync(join(packageRoot, dirname(file), path))) return true
    if (anchor === undefined) return false
    const targets = path === '' ? headings : readDocument(join(dirname(file), path)).headings
    return !targets.some((heading) => anchorOf(heading) === anchor)
  })
}

/** The files that the text links to, from the root of the package. */
export const linkedFiles = ({ file, prose }: Document): string[] =>
  [...prose.join('\n').matchAll(/\]\(([^)\s#]+)[^)\s]*\)/g)].flatMap(([, link = '']) =>
    /^https:/.test(link) ? [] : [join(dirname(file), link)],
  )

/** The pages of the contract, clause by clause; the other pages repeat it for their readers. */
const contractPages = ['contract', 'contract-delivery', 'contract-endpoints'].map((name) =>
  readDocument(`docs/${name}.md`),
)
export const contract = joinDocuments(contractPages)
export const readme = readDocument('README.md')

// commands.md is written by the program itself
const pages = readdirSync(join(packageRoot, 'docs'))
  .filter((name) => name.endsWith('.md') && !name.startsWith('contract') && name !== 'commands.md')
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
    prose: parts.flatMap(({ prose }) => prose),
    headings: parts.flatMap(({ headings }) => headings),
    tables: parts.flatMap(({ tables }) => tables),
    code: parts.flatMap(({ code }) => code),
  }
}

/** The files that machines run or read: the crontab, and the files in the folders of `examples/` that are neither programs nor pages. */
export function readExampleLines(): string[] {
  const folders = readdirSync(join(packageRoot, 'examples')).filter((name) => name !== 'zapier')
  const files = folders.flatMap((folder) =>
    readdirSync(join(packageRoot, 'examples', folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/\.(md|json)$/.test(entry.name))
      .map(({ parentPath, name }) => relative(packageRoot, join(parentPath, name))),
  )
  return ['crontab.example', ...files].flatMap((file) => readFileSync(join(packageRoot, file), 'utf8').split('\n'))
}
