/** The commands, options, settings and exit codes that the documents, the examples and --help name: what there is, all of it, and nothing else. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from 'commander'
import { definitions } from '../../src/base/config.ts'
import { buildProgram, exitCodeOf } from '../../src/cli/program.ts'
import { exitCodes } from '../../src/cli/signals.ts'
import { documents, findTable, manual, readExampleLines, spansOf } from '../support/markdown.ts'

const exampleLines = readExampleLines()
const isComment = (line: string) => /^\s*#/.test(line)

/** Every command that does something, by its words. */
function leavesOf(command: Command, words: string[] = []): Map<string, Command> {
  const subcommands = command.commands.filter((one) => one.name() !== 'help')
  // `settings` shows them, and has a subcommand too
  const isLeaf = subcommands.length === 0 || words.join(' ') === 'settings'
  const own = isLeaf ? [[words.join(' '), command] as const] : []
  return new Map([...own, ...subcommands.flatMap((one) => [...leavesOf(one, [...words, one.name()])])])
}

const build = () =>
  buildProgram(
    () => async () => {},
    () => {},
  )
const commands = leavesOf(build())
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
    await build().exitOverride().parseAsync(args, { from: 'user' })
    return undefined
  } catch (error) {
    return (error as { exitCode: number }).exitCode === 0 ? undefined : (error as Error).message
  }
}

test('the pages list each command with each of its options, and none that does not exist', () => {
  const told = new Map<string, Set<string>>()
  for (const [forms = '', meaning = ''] of findTable(manual, 'command')) {
    let name = ''
    for (const span of spansOf(`${forms} ${meaning}`)) {
      name = commandOf(span) ?? name
      const options = told.get(name) ?? new Set()
      for (const option of optionsIn(span)) options.add(option)
      told.set(name, options)
    }
    assert.ok(commandOf(spansOf(forms)[0] ?? ''), `no command: ${forms}`)
  }
  const isListed = (option: string) => option !== '--json'
  for (const [name, command] of commands) {
    assert.deepEqual([...(told.get(name) ?? ['(not in the table)'])].sort(), optionsOf(command).filter(isListed).sort(), name)
  }
  assert.deepEqual([...told.keys()].filter((name) => !commands.has(name)), [])
}) // biome-ignore format: dense

test('every command has --json, but for those that the pages name', () => {
  const without = [...commands].filter(([, command]) => !optionsOf(command).includes('--json')).map(([name]) => name)
  const sentence = /Every command but (.*?) takes `--json`/.exec(manual.prose.join(' '))?.[1] ?? ''
  assert.deepEqual(spansOf(sentence).sort(), without.sort())
})

/** The examples of each `--help`: lines that are indented, before what explains them. */
const helpLines = [...commands.values(), build()].flatMap((command) => {
  let text = ''
  command.configureOutput({
    writeOut: (piece) => {
      text += piece
    },
  })
  command.outputHelp()
  const [, examples = ''] = /^(?:Examples|Begin with):\n((?: {2}.*\n?)+)/m.exec(text) ?? []
  return examples.split('\n').map((line) => line.trim().replace(/ {2,}.*/, ''))
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
    if (/^leadpush [a-z]/.test(span) && command === undefined && !build().commands.some((one) => span === `leadpush ${one.name()}`)) {
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

test('the table of exit codes has each code that the program ends with', () => {
  const codes = findTable(manual, 'exit code').flatMap(([cell = '']) => cell.split(', ').map(Number))
  assert.deepEqual(
    codes,
    [...new Set([0, ...Object.values(exitCodeOf), ...Object.values(exitCodes)])].sort((a, b) => a - b),
  )
})
