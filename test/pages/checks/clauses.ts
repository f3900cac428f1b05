/** Every clause of the contract that code, SQL, tests, examples and pages cite is there. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { packageRoot } from '../../../src/base/package-root.ts'
import { contractPages } from '../../support/markdown.ts'
import type { Finding } from './finding.ts'

/** `4` and `4.12`, of the headings and of the numbered clauses below them. */
function findClauses(): Set<string> {
  const clauses = new Set<string>()
  let section = ''
  for (const line of contractPages.flatMap(({ lines }) => lines)) {
    section = /^## (\d+)\./.exec(line)?.[1] ?? section
    const number = /^(\d+)\. /.exec(line)?.[1]
    clauses.add(number === undefined ? section : `${section}.${number}`)
  }
  return clauses
}

/** `contract 4.1 to 4.3, 4.10` and `docs/contract-delivery.md 4.10` cite clauses, and so does `clause: '4.10'`. */
function findCitations(line: string): string[] {
  const lists = line.matchAll(
    /\b(?:contract(?:-[a-z]+)?(?:\.md)?,?|clauses?['"]?:?)\s+['"]?((?:\d+(?:\.\d+)?(?: to | and |, )?)+)/g,
  )
  return [...lists].flatMap(([, list = '']) => list.match(/\d+(?:\.\d+)?/g) ?? [])
}

const readFolder = (folder: string): [file: string, text: string][] =>
  readdirSync(join(packageRoot, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|js|sql|md|example|conf|yml)$/.test(name) && !name.includes('node_modules'))
    .map((name) => [`${folder}/${name}`, readFileSync(join(packageRoot, folder, name), 'utf8')])

export function* checkClauses(): Iterable<Finding> {
  const clauses = findClauses()
  for (const [file, text] of ['src', 'sql', 'test', 'examples', 'docs', 'bin'].flatMap(readFolder)) {
    const lines = text.split('\n')
    for (const [at, line] of lines.entries()) {
      // a citation may go on in the next line
      for (const clause of findCitations(`${line} ${/\bcontract,?\s*$/.test(line) ? lines[at + 1] : ''}`))
        if (!clauses.has(clause)) yield { file, line: at + 1, text: `cite a clause that there is, not ${clause}` }
    }
  }
}
