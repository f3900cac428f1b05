/** What tests read in the project's Markdown: headings, tables, blocks of code, words in backticks, links. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

export interface Table {
  head: string[]
  rows: string[][]
  /** Of the heading that it stands under. */
  title: string
}

export interface Document {
  /** Relative to the package. */
  file: string
  /** Without blocks of code. */
  prose: string[]
  headings: string[]
  tables: Table[]
  /** Lines of the blocks of code. */
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
  let table: Table | undefined
  for (const line of readFileSync(join(packageRoot, file), 'utf8').split('\n')) {
    if (line.startsWith('```')) isCode = !isCode
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

/** What stands in backticks. */
export const spansOf = (text: string): string[] =>
  [...text.matchAll(/(`+)(.+?)\1(?!`)/g)].map(([, , span = '']) => span.trim())

/** As GitHub names the place of a heading. */
const anchorOf = (heading: string) =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')

/** The links that lead nowhere: to a heading or a file that is not there. */
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

/** What is promised, clause by clause; the other pages say the same for their readers. */
export const contract = readDocument('docs/contract.md')
export const readme = readDocument('README.md')

const pages = readdirSync(join(packageRoot, 'docs'))
  .filter((name) => name !== 'contract.md')
  .map((name) => readDocument(`docs/${name}`))

const others = ['ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', 'examples/zapier/README.md']
export const documents = [readme, ...pages, contract, ...others.map(readDocument)]

/** README, the pages that it leads to and those for contributors, as if they were one: what is told once stands in one of them. */
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

/** What is for a machine to run or read: the crontab, and the files of the folders in `examples/` that are not programs. */
export function readExampleLines(): string[] {
  const folders = readdirSync(join(packageRoot, 'examples')).filter((name) => name !== 'zapier')
  const files = folders.flatMap((folder) =>
    readdirSync(join(packageRoot, 'examples', folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => relative(packageRoot, join(parentPath, name))),
  )
  return ['crontab.example', ...files].flatMap((file) => readFileSync(join(packageRoot, file), 'utf8').split('\n'))
}
