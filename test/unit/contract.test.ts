/** The contract's pages, held against what cites it, and against the program: clauses, settings, commands, exit codes. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { buildProgram, exitCodeOf } from '../../src/cli/program.ts'
import { exitCodes } from '../../src/cli/signals.ts'
import { contract, findTable, spansOf } from '../support/markdown.ts'

const pages = ['docs/contract.md', 'docs/contract-delivery.md', 'docs/contract-endpoints.md']

/** `4` and `4.12`, of the headings and of the numbered clauses below them. */
function findClauses(): Set<string> {
  const clauses = new Set<string>()
  let section = ''
  for (const line of pages.flatMap((page) => readFileSync(join(packageRoot, page), 'utf8').split('\n'))) {
    section = /^## (\d+)\./.exec(line)?.[1] ?? section
    const number = /^(\d+)\. /.exec(line)?.[1]
    clauses.add(number === undefined ? section : `${section}.${number}`)
  }
  return clauses
}

/** `contract 4.1 to 4.3, 4.10` and `docs/contract-delivery.md 4.10` cite clauses, and so does `clause: '4.10'`. */
function findCitations(source: string): string[] {
  const lists = source.matchAll(
    /\b(?:contract(?:-[a-z]+)?(?:\.md)?,?|clauses?['"]?:?)\s+['"]?((?:\d+(?:\.\d+)?(?: to | and |, )?)+)/g,
  )
  return [...lists].flatMap(([, list = '']) => list.match(/\d+(?:\.\d+)?/g) ?? [])
}

function readFolder(folder: string): [file: string, text: string][] {
  return readdirSync(join(packageRoot, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(ts|js|sql|md|example|conf|yml)$/.test(name) && !name.includes('node_modules'))
    .map((name) => [`${folder}/${name}`, readFileSync(join(packageRoot, folder, name), 'utf8')])
}

test('every clause that code, SQL, tests, examples and pages cite is there', () => {
  const clauses = findClauses()
  const sources = ['src', 'sql', 'test', 'examples', 'docs', 'bin'].flatMap(readFolder)
  const citations = sources.flatMap(([file, source]) => findCitations(source).map((clause) => ({ file, clause })))
  assert.ok(citations.length >= 150, `${citations.length} citations`)
  assert.deepEqual(
    citations.filter(({ clause }) => !clauses.has(clause)),
    [],
  )
})

test('it names no command that the program has not, and no exit code', () => {
  const program = buildProgram(
    async () => {},
    { out: () => {}, error: () => {} },
  )
  const words = spansOf(findTable(contract, 'command').map(([cell = '']) => cell).join(' '))
  const named = words.flatMap((span) => /^leadpush ([a-z]+)/.exec(span)?.[1] ?? [])
  assert.ok(named.length >= 25)
  assert.deepEqual(named.filter((name) => !program.commands.some((one) => one.name() === name)), [])
  const codes = findTable(contract, 'exit').flatMap(([cell = '']) => cell.split(', ').map(Number))
  assert.deepEqual(codes, [...new Set([0, ...Object.values(exitCodeOf), ...Object.values(exitCodes)])].sort((a, b) => a - b))
}) // biome-ignore format: dense
