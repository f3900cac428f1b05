/** The rooms of `src/`: their order, who may import whom, and which room alone knows a library, the environment or exit codes. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { findTable, readDocument, spansOf } from '../support/markdown.ts'

/** From the bottom to the top: a room imports only rooms before it. */
const rooms = [
  'index.ts',
  'base',
  'db',
  'secrets',
  'http',
  'records',
  'places',
  'matching',
  'leads',
  'users',
  'deliveries',
  'integrations',
  'triggers',
  'push',
  'upkeep',
  'receiver-kit',
  'inspect',
  'server',
  'cli',
  'main.ts',
]

const source = join(packageRoot, 'src')
const toSlashes = (path: string) => path.split(sep).join('/')
const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map(toSlashes)

const roomOf = (path: string) => path.split('/')[0] ?? ''
const readSource = (file: string) => readFileSync(join(source, file), 'utf8')

interface Import {
  file: string
  /** A path below `src/`, or a package's name. */
  target: string
  isPackage: boolean
}

function readImports(file: string): Import[] {
  const pattern = /^(?:import|export)\s[^;'"]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm
  return [...readSource(file).matchAll(pattern)].map(([, from, bare, dynamic]) => {
    const target = from ?? bare ?? dynamic ?? ''
    if (target.startsWith('.')) {
      return { file, target: toSlashes(relative(source, join(source, dirname(file), target))), isPackage: false }
    }
    const name = target.split('/').slice(0, target.startsWith('@') ? 2 : 1)
    return { file, target: name.join('/'), isPackage: true }
  })
}

const imports = files.flatMap(readImports)
const inside = imports.filter(({ isPackage }) => !isPackage)
const say = ({ file, target }: Import) => `${file} imports ${target}`

test('the pattern sees imports of every form', () => {
  const sees = (file: string, target: string) => imports.some((one) => one.file === file && one.target === target)
  assert.ok(sees('db/open.ts', 'pg'))
  assert.ok(sees('db/open.ts', 'db/embedded.ts'))
  assert.ok(sees('db/embedded.ts', 'db/embedded/paths.ts'))
  assert.ok(imports.some(({ file }) => file === 'main.ts'))
})

test('every entry of src/ is a room of the list, and every room is there', () => {
  assert.deepEqual(readdirSync(source).sort(), [...rooms].sort())
})

test('a room imports only rooms before it', () => {
  const wrong = inside.filter(({ file, target }) => {
    return roomOf(file) !== roomOf(target) && rooms.indexOf(roomOf(target)) >= rooms.indexOf(roomOf(file))
  })
  assert.deepEqual(wrong.map(say), [])
})

test('ARCHITECTURE.md lists the same rooms, from the top to the bottom', () => {
  const rows = findTable(readDocument('ARCHITECTURE.md'), 'room')
  const told = rows.map(([room = '']) => spansOf(room)[0]?.replace(/\/$/, ''))
  assert.deepEqual(told, [...rooms].reverse())
})

/** The first circle of files that import each other, types included; undefined for none. */
function findCircle(): string[] {
  const targets = groupByFile()
  const done = new Set<string>()
  const visit = (file: string, path: string[]): string[] => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file]
    if (done.has(file)) return []
    for (const { target } of targets.get(file) ?? []) {
      const circle = visit(target, [...path, file])
      if (circle.length > 0) return circle
    }
    done.add(file)
    return []
  }
  for (const file of files) {
    const circle = visit(file, [])
    if (circle.length > 0) return circle
  }
  return []
}

function groupByFile(): Map<string, Import[]> {
  const groups = new Map<string, Import[]>()
  for (const one of inside) groups.set(one.file, [...(groups.get(one.file) ?? []), one])
  return groups
}

test('no files import each other in a circle, not even types', () => {
  assert.deepEqual(findCircle(), [])
})

// `findSources` was three functions, and `Verdict` three types: whoever looked one up found another.
test('two files give a name to one thing only; a command of cli/ is named as the work that it calls', () => {
  const declared =
    /^export (?:declare |abstract |async )*(?:function\*?|const|let|class|interface|type) ([A-Za-z_]\w*)/gm
  const filesOf = new Map<string, Set<string>>()
  for (const file of files.filter((file) => !file.startsWith('cli/')))
    for (const [, name = ''] of readSource(file).matchAll(declared))
      filesOf.set(name, (filesOf.get(name) ?? new Set()).add(file))
  assert.ok(filesOf.size > 1_000, `${filesOf.size} names`)
  assert.deepEqual(
    [...filesOf].filter(([, each]) => each.size > 1),
    [],
  )
})

test('ARCHITECTURE.md lists the rooms of push', () => {
  const rows = findTable(readDocument('ARCHITECTURE.md'), 'room of `push/`')
  const told = rows.map(([room = '']) => spansOf(room)[0]?.replace(/\/$/, ''))
  const there = readdirSync(join(source, 'push'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  assert.deepEqual(told.toSorted(), there.map(({ name }) => name).sort())
})

test('the parts of pages know nothing of their content', () => {
  const allowed = (target: string) => /^(base\/|index\.ts|inspect\/page\/)/.test(target)
  const wrong = inside.filter(({ file, target }) => file.startsWith('inspect/page/') && !allowed(target))
  assert.deepEqual(wrong.map(say), [])
})

const owners: Record<string, string> = {
  pg: 'db/',
  'pg-copy-streams': 'db/',
  undici: 'http/',
  commander: 'cli/',
  ora: 'cli/',
  'string-width': 'cli/',
  fastify: 'server/',
  'd3-scale': 'inspect/page/',
}

for (const [name, owner] of Object.entries(owners)) {
  test(`only ${owner} knows ${name}`, () => {
    const wrong = imports.filter(({ file, target, isPackage }) => {
      return isPackage && target === name && !file.startsWith(owner)
    })
    assert.deepEqual(wrong.map(say), [])
  })
}

/** What a process has; a command gets it through `runProgram`, so that a test calls it without a process of its own. */
const words: [word: RegExp, what: string, allowed: RegExp][] = [
  [/\bprocess\.argv\b/, 'the arguments', /^main\.ts$/],
  [/\bprocess\.env\b/, 'the environment', /^main\.ts$/],
  [/\bprocess\.(cwd|chdir)\b/, 'the working folder', /^main\.ts$/],
  [/\bprocess\.std(in|out|err)\b|\bfd: [012]\b/, 'the standard streams', /^main\.ts$/],
  [/\bprocess\.(exit|exitCode)\b/, 'exit codes', /^main\.ts$/],
  [/\bprocess\.(on|once)\(/, 'signals and the end', /^(main|cli\/hangups)\.ts$/],
]

for (const [word, what, allowed] of words) {
  test(`only ${allowed.source} knows ${what}`, () => {
    assert.deepEqual(
      files.filter((file) => word.test(readSource(file)) && !allowed.test(file)),
      [],
    )
  })
}

/** Behind the border of a run: what binds it to PostgreSQL, and what looks without being a run. */
const behind = /^push\/(database|preview)\//
/** What a run meets only through its interfaces, and who binds it. */
const outside: [word: RegExp, what: string, allowed: RegExp][] = [
  [/\bset(Timeout|Interval|Immediate)\b|\bperformance\.now\b|\bDate\.now\b|'node:timers/, 'the time', /^$/],
  [/from 'kysely'|\brideOut\(\(\)|\bimport .*\bdb\/open\.ts'/, 'the database', /^push\/(run-push|push-request)\.ts$/],
  [/http\/client\.ts'|\bsendAttempt\b/, 'the receiver', /^push\/(run-push|push-request|wire)\.ts$/],
]

for (const [word, what, allowed] of outside) {
  test(`a run meets ${what} through its interfaces alone`, () => {
    const run = files.filter((file) => file.startsWith('push/') && !behind.test(file))
    assert.deepEqual(
      run.filter(
        (file) => word.test(readSource(file).replaceAll(/\b(ledger|leases)\.rideOut/g, '')) && !allowed.test(file),
      ),
      [],
    )
  })
}

const linesPerFileMax = 400

test('no file of src/ is longer than a person reads in one go', () => {
  const long = files.filter((file) => readSource(file).split('\n').length > linesPerFileMax)
  assert.deepEqual(long, [])
})
