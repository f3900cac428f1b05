/** The commands, options and settings that the documents, the examples and --help name: what there is, all of it, and nothing else. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { definitions } from '../../src/base/config.ts'
import { LeadpushError } from '../../src/base/errors.ts'
import { packageRoot } from '../../src/base/package-root.ts'
import { buildWithoutRunning, commandsPage, formatCommands, helpOf, leavesOf } from '../pages/commands.ts'
import { documents, findTable, manual, readExampleLines, spansOf } from '../support/markdown.ts'

const exampleLines = readExampleLines()
const isComment = (line: string) => /^\s*#/.test(line)

const commands = leavesOf(buildWithoutRunning())
/** With those that `--help` hides. */
const namesOf = (command: Command | undefined) => command?.options.map(({ long }) => long ?? '') ?? []
const optionsOf = (command: Command | undefined) =>
  command?.options.filter(({ hidden }) => !hidden).map(({ long }) => long ?? '') ?? []
const allOptions = new Set([...commands.values()].flatMap(optionsOf).concat('--help', '--version'))

/** The words of the command that a text begins with, `leadpush` or not. */
function commandOf(text: string): string | undefined {
  const words = text.replace(/^(leadpush|node bin\/leadpush\.js) /, '').split(' ')
  return [2, 1].map((count) => words.slice(0, count).join(' ')).find((name) => commands.has(name))
}

const optionsIn = (text: string) => [...text.matchAll(/(?<![\w-])--[a-z][a-z-]*/g)].map(([option]) => option)

/** The arguments of each `leadpush` on a line of shell. */
function callsIn(line: string): string[][] {
  const bare = line
    .replace(/\s\d?>+\s*\S+/g, ' ')
    .replace(/\s# .*/, '')
    .replace(/\s<\s*\S+/g, ' ')
  const calls = bare.matchAll(/(?:^|[\s"(`]|\/bin\/)leadpush ((?:"[^"]*"|'[^']*'|[^|;&)"'`\\])*)/g)
  return [...calls].map(([, args = '']) =>
    [...args.matchAll(/"([^"]*)"|'([^']*)'|\S+/g)].map(([word, double, single]) => double ?? single ?? word),
  )
}

async function findRefusal(args: string[]): Promise<string | undefined> {
  try {
    await buildWithoutRunning().exitOverride().parseAsync(args, { from: 'user' })
    return undefined
  } catch (error) {
    // a text may name a command that wants an option
    if (error instanceof LeadpushError && commands.has(args.join(' '))) return undefined
    return (error as { exitCode: number }).exitCode === 0 ? undefined : (error as Error).message
  }
}

test('docs/commands.md is what each --help prints; `npm run commands` writes it', () => {
  assert.equal(readFileSync(join(packageRoot, commandsPage), 'utf8'), formatCommands(), 'run `npm run commands`')
})

/** The examples of each `--help`: lines that are indented, before what explains them. */
const helpLines = [...commands.values(), buildWithoutRunning()].flatMap((command) => {
  const [, examples = ''] = /^(?:Examples|Begin with):\n((?: {2}.*\n?)+)/m.exec(`${helpOf(command)}\n`) ?? []
  return examples.split('\n').map((line) => line.trim().replace(/ {2,}.*/, ''))
})

// lines of up to 97 characters broke in the middle of a word on a terminal of 80
test('every --help fits a terminal of 80 columns', () => {
  const withSubcommands = buildWithoutRunning().commands.filter((one) => one.commands.length > 0)
  const all = new Set([...commands.values(), ...withSubcommands, buildWithoutRunning()])
  const lines = [...all].flatMap((command) => helpOf(command).split('\n'))
  assert.deepEqual(
    lines.filter((line) => line.length > 80),
    [],
  )
})

test('every command has an example, or more, in its --help', () => {
  const without = [...commands].filter(([name]) => !helpLines.some((line) => line.includes(`leadpush ${name}`)))
  assert.deepEqual(
    without.map(([name]) => name),
    [],
  )
})

test('every command line of the documents, the examples and of --help is one that the program takes', async () => {
  const lines = [...documents.flatMap(({ code }) => code), ...exampleLines, ...helpLines].filter(
    (line) => !isComment(line),
  )
  const calls = lines.flatMap(callsIn)
  assert.ok(calls.length >= 50, JSON.stringify(calls))
  const refused: string[] = []
  for (const args of calls) {
    const why = await findRefusal(args)
    if (why !== undefined) refused.push(`leadpush ${args.join(' ')}: ${why}`)
  }
  assert.deepEqual(refused, [])
})

test('no document and no example names a command, an option or a setting that does not exist', () => {
  const text = [...documents.flatMap(({ prose, code }) => [...prose, ...code]), ...exampleLines].join('\n')
  const wrong: string[] = []
  const printed = new Set(findTable(manual, 'it prints').flatMap(([cell = '']) => spansOf(cell)))
  for (const span of documents.flatMap(({ prose }) => prose.flatMap(spansOf))) {
    if (printed.has(span)) continue
    const command = commandOf(span)
    if (/^leadpush [a-z]/.test(span) && command === undefined && !buildWithoutRunning().commands.some((one) => span === `leadpush ${one.name()}`)) {
      wrong.push(span)
    }
    const known = command === undefined ? allOptions : new Set([...namesOf(commands.get(command)), '--help'])
    if (command !== undefined || span.startsWith('--')) {
      wrong.push(...optionsIn(span).filter((option) => !known.has(option) && option !== '--processes').map((option) => `${span}: ${option}`))
    }
  }
  const names = new Set<string>(Object.values(definitions).map(({ name }) => name))
  for (const [name] of text.matchAll(/LEADPUSH_[A-Z_]*[A-Z]/g)) {
    if (!names.has(name.replace(/_FILE$/, ''))) wrong.push(name)
  }
  assert.deepEqual(wrong, [])
}) // biome-ignore format: dense
