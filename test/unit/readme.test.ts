/** README and what goes with it, held against the program, both ways: nothing that is missing, nothing that does not exist. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Command } from 'commander'
import { buildProgram, exitCodeOf } from '../../src/cli/program.ts'
import { exitCodes } from '../../src/cli/signals.ts'
import { definitions, readSettings, type SettingName } from '../../src/config.ts'
import * as limits from '../../src/limits.ts'
import { packageRoot } from '../../src/root.ts'
import { findDeadLinks, findTable, readDocument, spansOf } from '../support/markdown.ts'

const readme = readDocument('README.md')
const documents = [readme, ...['CHANGELOG.md', 'SECURITY.md', 'examples/zapier/README.md'].map(readDocument)]
const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'))

/** What is for a machine to run: lines of crontab.example and of examples/, without comments. */
const exampleFiles = readdirSync(join(packageRoot, 'examples'), { recursive: true, encoding: 'utf8' })
  .filter((file) => /\.(service|timer|conf|ya?ml)$/.test(file))
  .map((file) => join('examples', file))
const exampleLines = ['crontab.example', ...exampleFiles].flatMap((file) =>
  readFileSync(join(packageRoot, file), 'utf8').split('\n'),
)
const isComment = (line: string) => /^\s*#/.test(line)

// ---- commands

/** Every command that does something, by its words. */
function leavesOf(command: Command, words: string[] = []): Map<string, Command> {
  const subcommands = command.commands.filter((one) => one.name() !== 'help')
  if (subcommands.length === 0) return new Map([[words.join(' '), command]])
  return new Map(subcommands.flatMap((one) => [...leavesOf(one, [...words, one.name()])]))
}

const build = () =>
  buildProgram(
    () => async () => {},
    () => {},
  )
const commands = leavesOf(build())
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
  const calls = bare.matchAll(/(?:^|[\s"(]|\/bin\/)leadpush ((?:"[^"]*"|'[^']*'|[^|;&)"'\\])*)/g)
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

test('README lists each command with each of its options, and none that does not exist', () => {
  const told = new Map<string, Set<string>>()
  for (const [forms = '', meaning = ''] of findTable(readme, 'command')) {
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

test('every command has --json, but for those that README names', () => {
  const without = [...commands].filter(([, command]) => !optionsOf(command).includes('--json')).map(([name]) => name)
  const sentence = /Every command but (.*?) takes `--json`/.exec(readme.prose.join(' '))?.[1] ?? ''
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
  const printed = new Set(findTable(readme, 'it prints').flatMap(([cell = '']) => spansOf(cell)))
  for (const span of documents.flatMap(({ prose }) => prose.flatMap(spansOf))) {
    if (printed.has(span)) continue
    const command = commandOf(span)
    if (/^leadpush [a-z]/.test(span) && command === undefined && !build().commands.some((one) => span === `leadpush ${one.name()}`)) {
      wrong.push(span)
    }
    const known = command === undefined ? allOptions : new Set([...optionsOf(commands.get(command)), '--help'])
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
  const codes = findTable(readme, 'exit code').flatMap(([cell = '']) => cell.split(', ').map(Number))
  assert.deepEqual(codes, [...new Set([0, ...Object.values(exitCodeOf), ...Object.values(exitCodes)])].sort((a, b) => a - b))
}) // biome-ignore format: dense

// ---- settings

const read = (key: SettingName, value: string | undefined, env: Record<string, string> = {}) =>
  readSettings([key], {
    env: { ...env, ...(value !== undefined && { [definitions[key].name]: value }) },
    cwd: '/nowhere',
  })[key]

function accepts(key: SettingName, value: string): boolean {
  try {
    read(key, value)
    return true
  } catch {
    return false
  }
}

/** A little beyond a limit: `1` and `1d` are numbers with or without a unit. */
const beyond = (limit: string, by: 1 | -1) =>
  limit.replace(/^[\d.]+/, (digits) => String(Number(digits) + by * (digits.includes('.') ? 0.0001 : 1)))

test('README lists each setting, with its default and what it may hold', () => {
  const rows = findTable(readme, 'name', 'default', 'allowed')
  const keyOf = (name: string) => (Object.keys(definitions) as SettingName[]).find((key) => definitions[key].name === name)
  assert.deepEqual(rows.map(([name = '']) => spansOf(name)[0]).sort(), Object.values(definitions).map(({ name }) => name).sort())
  for (const [name = '', standard = '', allowed = ''] of rows) {
    const [variable = ''] = spansOf(name)
    const key = keyOf(variable) as SettingName
    const { fallback } = definitions[key] as { fallback?: string }
    if (fallback === undefined) assert.ok(!/^`[^`]*`$/.test(standard), `${name} has no default`)
    else assert.equal(standard, `\`${fallback}\``)

    const [, min, max] = /^([\d.]+\w*) to ([\d.]+\w*)/.exec(allowed) ?? []
    if (min !== undefined && max !== undefined && !allowed.includes('characters')) {
      assert.deepEqual([min, max, beyond(min, -1), beyond(max, 1)].map((value) => accepts(key, value)), [true, true, false, false], name)
    }
    for (const value of spansOf(allowed)) assert.ok(accepts(key, value.replace('…', 'user@host/database')), `${variable}=${value}`)
  }
  assert.deepEqual(['x'.repeat(100), 'x'.repeat(101), ''].map((value) => accepts('dataSource', value)), [true, false, true])
  assert.deepEqual(['on', 'off', 'of'].map((value) => accepts('guard', value)), [true, true, false])
  const home = process.getuid?.() === 0 ? '/var/lib/leadpush' : '/home/user/.local/share/leadpush'
  assert.equal(read('home', undefined, { HOME: '/home/user' }), home)
  assert.equal(read('home', undefined, { HOME: '/home/user', XDG_DATA_HOME: '/data' }), '/data/leadpush')
}) // biome-ignore format: dense

// ---- figures

const number = (value: number) => value.toLocaleString('en-US')

test('the limits in README are the program’s', () => {
  const rows = Object.fromEntries(findTable(readme, 'limit').map(([name = '', value = '']) => [name, value]))
  const mib = (bytes: number) => `${bytes / 1024 / 1024} MiB`
  const expected: Record<string, string[]> = {
    'leads a query': [number(limits.leadsPerQueryMax)],
    'bytes a request': [number(limits.bodyBytesMax)],
    'attempts a delivery': [number(limits.attemptsMax)],
    'receiver key': [`1 to ${limits.receiverKeyCharsMax} visible`],
    queries: [`${number(limits.queriesPerUserMax)} a user`, `${limits.queryValueCharsMax} characters`, `0 to ${limits.radiusMilesMax} miles`],
    'a record of an import': [mib(limits.recordBytesMax), `\`href\` ${number(limits.hrefBytesMax)} bytes`, `e-mail ${limits.emailCharsMax} characters`],
    hooks: [`${limits.hooksPerIntegrationMax} an integration`, `${number(limits.hookUrlCharsMax)} characters`],
    'API key': [`${limits.apiKeyCharsMin} to ${limits.apiKeyCharsMax} visible`],
  }
  assert.deepEqual(Object.keys(rows).sort(), Object.keys(expected).sort())
  for (const [name, parts] of Object.entries(expected)) {
    for (const part of parts) assert.ok(rows[name]?.includes(part), `${name}: ${part}`)
  }
}) // biome-ignore format: a list

test('the figures in README’s sentences are the program’s', () => {
  const prose = readme.prose.join(' ').replace(/\s+/g, ' ')
  const minutes = limits.triggerPausesMs.map((ms) => (ms < 3_600_000 ? `${ms / 60_000} m` : `${ms / 3_600_000} h`))
  const sentences = [
    `After ${limits.outageFailuresInARow} first attempts in a row`,
    `it sends one every ${limits.outageProbeMs / 1_000} s`,
    `or was away for longer than ${limits.databaseAwayMsMax / 1_000} s`,
    `a longer \`Retry-After\` is honoured, up to ${limits.retryAfterMsMax / 60_000} minutes`,
    `came to its end in the last ${limits.monitoredRunDays} days`,
    `${limits.comparedDays} days of runs and imports`,
    `the median of up to ${limits.comparedWeeksMax} weeks before, where that median is ${number(limits.comparedListingsMin)} listings or more`,
    `had ${limits.comparedLeadsMin} leads or more, and this one would have ${100 - 100 / limits.userFall} % fewer`,
    `A hook gets the ${limits.leadsPerHookMax} newest of a run, ${limits.triggersPerSecondMax} a second and ${limits.triggersAtOncePerHookMax} at once`,
    `tried again after ${minutes.slice(0, -1).join(', ')} and ${minutes.at(-1)}`,
    `bounds a body at ${limits.requestBodyBytesMax / 1024} KiB`,
    `\`${limits.neverValidReceiverKey}\` is the wrong key`,
    `Node.js (${manifest.engines.node.replace('>=', '')} or newer)`,
  ]
  assert.deepEqual(sentences.filter((sentence) => !prose.includes(sentence)), [])
}) // biome-ignore format: a list

test('the figures in SECURITY.md are the program’s', () => {
  const prose = readDocument('SECURITY.md').prose.join(' ').replace(/\s+/g, ' ')
  const sentences = [
    `up to ${limits.hooksPerIntegrationMax} hooks of this integration`,
    `at most one a minute`,
    `after ${definitions.limitAddress.fallback} such answers a minute`,
    `A key has ${definitions.limitKey.fallback} requests a minute`,
    `a body of more than ${limits.requestBodyBytesMax / 1024} KiB`,
    `${limits.triggersPerSecondMax} requests a second, ${limits.triggersAtOncePerHookMax} at once and ${limits.leadsPerHookMax} new ones a run`,
    `Records have at most ${limits.recordBytesMax / 1024 / 1024} MiB`,
    `At most ${limits.responseBytesMax / 1024} KiB of its answer are read`,
    `a \`Retry-After\` of at most ${limits.retryAfterMsMax / 60_000} minutes`,
  ]
  assert.equal(limits.subscriptionPauseMs, 60_000)
  assert.deepEqual(sentences.filter((sentence) => !prose.includes(sentence)), [])
}) // biome-ignore format: a list

// ---- the package

test('CHANGELOG.md has the version that the package has', () => {
  assert.ok(readDocument('CHANGELOG.md').headings.some((heading) => heading.startsWith(manifest.version)))
})

test('README has a line for each library, and for none that is not there', () => {
  const told = findTable(readme, 'library').flatMap(([cell = '']) => {
    const isOf = cell.includes('(development)') ? 'devDependencies' : cell.includes('(optional)') ? 'optionalDependencies' : 'dependencies'
    return cell.replace(/\s*\(.*?\)/, '').split(', ').map((name) => `${isOf} ${name}`)
  })
  const real = ['dependencies', 'optionalDependencies', 'devDependencies'].flatMap((kind) =>
    Object.keys(manifest[kind]).filter((name) => !name.startsWith('@types/')).map((name) => `${kind} ${name}`))
  assert.deepEqual(told.sort(), real.sort())
}) // biome-ignore format: dense

test('README says of each script what it does, and names none that does not exist', () => {
  const text = documents.flatMap(({ prose, code }) => [...prose, ...code]).join('\n')
  const named = new Set([...text.matchAll(/npm run ([a-z][a-z:]*)/g)].map(([, name]) => name))
  if (/npm test\b/.test(text)) named.add('test')
  const scripts = Object.keys(manifest.scripts).filter((name) => !/^(pre|post)/.test(name))
  assert.deepEqual([...named].sort(), scripts.sort())
})

test('links lead somewhere, and files that are named exist', () => {
  for (const document of documents) assert.deepEqual(findDeadLinks(document), [], document.file)
  const files = readme.prose.flatMap(spansOf).filter((span) => /^(src|sql|test|bin|demo|examples)\/[\w./-]*$/.test(span))
  assert.ok(files.length >= 4)
  assert.deepEqual(files.filter((file) => !existsSync(join(packageRoot, file))), [])
}) // biome-ignore format: dense

test('prose fits a screen', () => {
  const wide = documents.flatMap(({ file, prose }) =>
    prose.filter((line) => !line.startsWith('|') && [...line].length > 140).map((line) => `${file}: ${line}`),
  )
  assert.deepEqual(wide, [])
})
