import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'

const source = join(packageRoot, 'src')
const files = readdirSync(source, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.split(sep).join('/'))

interface Import {
  file: string
  /** A path below `src/`, or a package's name. */
  target: string
  isPackage: boolean
}

function readImports(file: string): Import[] {
  const text = readFileSync(join(source, file), 'utf8')
  const pattern = /^(?:import|export)\s[^;'"]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm
  return [...text.matchAll(pattern)].map(([, from, bare, dynamic]) => {
    const target = from ?? bare ?? dynamic ?? ''
    if (target.startsWith('.')) {
      const path = relative(source, join(source, dirname(file), target))
        .split(sep)
        .join('/')
      return { file, target: path, isPackage: false }
    }
    const name = target.split('/').slice(0, target.startsWith('@') ? 2 : 1)
    return { file, target: name.join('/'), isPackage: true }
  })
}

const imports = files.flatMap(readImports)
const say = ({ file, target }: Import) => `${file} imports ${target}`

/** `a/b.ts` is of room `a`, `b.ts` of room `b`. */
const roomOf = (path: string) => path.split('/')[0]?.replace(/\.ts$/, '') ?? ''

const base = ['amounts', 'config', 'errors', 'index', 'issues', 'limits', 'root', 'small-file', 'terminal']
const capabilities = ['leads', 'users', 'places', 'matching', 'deliveries', 'integrations']
const above = [
  'push',
  'server',
  'receiver',
  'probe',
  'doctor',
  'report',
  'explain',
  'dry-run',
  'prune',
  'forget',
  'cli',
  'main',
]

test('the pattern sees imports of every form', () => {
  assert.ok(imports.some(({ file, target }) => file === 'db/open.ts' && target === 'pg'))
  assert.ok(imports.some(({ file, target }) => file === 'db/open.ts' && target === 'db/embedded.ts'))
  assert.ok(imports.some(({ file, target }) => file === 'db/embedded.ts' && target === 'db/embedded/throw-away.ts'))
  assert.ok(imports.some(({ file }) => file === 'main.ts'))
})

test('settings, errors and limits know nobody but each other', () => {
  const wrong = imports.filter(
    ({ file, target, isPackage }) => base.includes(roomOf(file)) && !isPackage && !base.includes(roomOf(target)),
  )
  assert.deepEqual(wrong.map(say), [])
})

test('the database knows no room but the base', () => {
  const wrong = imports.filter(
    ({ file, target, isPackage }) => roomOf(file) === 'db' && !isPackage && ![...base, 'db'].includes(roomOf(target)),
  )
  assert.deepEqual(wrong.map(say), [])
})

test('a capability never knows a push, the server, the receiver, a report or the command line', () => {
  const wrong = imports.filter(
    ({ file, target, isPackage }) =>
      capabilities.includes(roomOf(file)) && !isPackage && above.includes(roomOf(target)),
  )
  assert.deepEqual(wrong.map(say), [])
})

test('parts of a page know nothing of what it shows', () => {
  const wrong = imports.filter(
    ({ file, target, isPackage }) =>
      roomOf(file) === 'page' && !isPackage && ![...base, 'page'].includes(roomOf(target)),
  )
  assert.deepEqual(wrong.map(say), [])
})

test('nothing but the program itself knows the command line', () => {
  const wrong = imports.filter(
    ({ file, target, isPackage }) => !['cli', 'main'].includes(roomOf(file)) && !isPackage && roomOf(target) === 'cli',
  )
  assert.deepEqual(wrong.map(say), [])
})

const owners: Record<string, string> = {
  pg: 'db',
  'pg-copy-streams': 'db',
  undici: 'http',
  commander: 'cli',
  ora: 'cli',
  'cli-table3': 'cli',
  fastify: 'server',
  'prom-client': 'server',
  'd3-scale': 'page',
  'd3-geo': 'page',
  'topojson-client': 'page',
  'us-atlas': 'page',
}

for (const [name, owner] of Object.entries(owners)) {
  test(`only ${owner} knows ${name}`, () => {
    const wrong = imports.filter(
      ({ file, target, isPackage }) => isPackage && target === name && roomOf(file) !== owner,
    )
    assert.deepEqual(wrong.map(say), [])
  })
}

const words: [word: RegExp, what: string, allowed: string[]][] = [
  [/\bprocess\.env\b/, 'the environment', ['config', 'terminal']],
  [/\bprocess\.exit\(|\bprocess\.exitCode\b/, 'exit codes', ['cli', 'main']],
]

for (const [word, what, allowed] of words) {
  test(`only ${allowed.join(' and ')} knows ${what}`, () => {
    const wrong = files.filter(
      (file) => word.test(readFileSync(join(source, file), 'utf8')) && !allowed.includes(roomOf(file)),
    )
    assert.deepEqual(wrong, [])
  })
}
