/** Backups of the embedded database, and homes made of them (contract 3, `db backup` and `db restore`). */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import pg from 'pg'
import { hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import {
  callProgram,
  cleanEnvironment,
  type ProgramOptions,
  runProgram,
  startProgram,
  testHome,
} from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'
import { until } from '../support/until.ts'

const place = (name: string) => join(testHome(), name)
const file = place('backup.gz')
const at = (name: string): ProgramOptions => ({ env: { LEADPUSH_HOME: place(name) } })
const run = (args: string, options: ProgramOptions) => runProgram(args.split(' '), options)
const call = (args: string, options: ProgramOptions) => callProgram(args.split(' '), options)

/** The lines of a backup, without those that tell when it was made. */
const linesOf = (path: string) => gunzipSync(readFileSync(path)).toString().split('\n').slice(1)

const oddTexts = ['\\.', '\n\\.\n', '\\N', 'tab\tand\\backslash\r\n', '🏠 "quoted"', '\\\\.\n']

test('a backup made while others write has one moment of all of it, and a home made of it is the same', async () => {
  const leads = oddTexts.map((description, n) => ({
    href: hrefOf(n),
    postalCode: '78704',
    description,
    price: 1.5 + n,
  }))
  const imported = [
    await run(`leads import ${writeInput('leads.ndjson', toLines(leads))}`, at('then')),
    await call(`users import ${writeInput('users.ndjson', toLines(makeUsers(3)))}`, at('then')),
    await call('integrations create --user user-0@example.com', at('then')),
  ]
  for (const { code, stderr } of imported) assert.equal(code, 0, stderr)
  const { stdout: url } = await call('db url', at('then'))
  const writer = new pg.Client({ connectionString: url.trim() })
  await writer.connect()
  try {
    await writer.query('begin; delete from users')
    const saved = await run(`db backup ${file} --json`, at('then'))
    assert.equal(saved.code, 0, saved.stderr)
    const [{ type, bytes, tables, rows }] = saved.json
    assert.deepEqual([type, bytes], ['backup', statSync(file).size])
    assert.ok(tables > 20 && rows > 10)
    assert.equal(statSync(file).mode & 0o777, 0o600)
    await writer.query('rollback')

    const restored = await run(`db restore ${file} --json`, at('now'))
    assert.deepEqual([restored.code, restored.stderr], [0, ''])
    assert.deepEqual([restored.json[0].rows, restored.json[0].home], [rows, place('now')])
  } finally {
    await writer.end()
    await call('db stop', at('then'))
  }
  assert.equal((await run(`db backup ${place('again.gz')}`, at('now'))).code, 0)
  assert.deepEqual(linesOf(place('again.gz')), linesOf(file))
  assert.ok(linesOf(file).some((line) => line.includes('user-2@example.com')))

  // its sequences go on: a new listing gets no id that was given before
  const again = await run(
    `leads import ${writeInput('more.ndjson', toLines([{ href: hrefOf('new'), postalCode: '78704' }]))}`,
    at('now'),
  )
  assert.equal(again.code, 0, again.stderr)
  const shown = await call(`leads list --json`, at('now'))
  assert.deepEqual(shown.json.map(({ href }) => href).sort(), [...leads.map(({ href }) => href), hrefOf('new')].sort())
})

test('a home that has a database keeps it, and DATABASE_URL leaves nothing to save or restore', async () => {
  for (const [args, options, pattern] of [
    [`db restore ${file}`, at('now'), /There is a database in .*\n.*LEADPUSH_HOME/],
    ['db restore /nowhere/backup.gz', at('new'), /no such file/],
    ['db backup /nowhere/backup.gz', at('then'), /its folder does not exist/],
    [`db backup ${file}`, at('new'), /There is no database yet/],
    ['db backup - --json', at('then'), /exclude each other/],
    [`db restore ${file}`, { env: { DATABASE_URL: 'postgresql://localhost/x' } }, /DATABASE_URL is set/],
    [`db backup ${file}`, { env: { DATABASE_URL: 'postgresql://localhost/x' } }, /DATABASE_URL is set/],
  ] as const) {
    const { code, stdout, stderr } = await call(args, options)
    assert.deepEqual([code, stdout], [2, ''], args)
    assert.match(stderr, pattern)
  }
  assert.equal(existsSync(place('new')), false)
})

test('a backup that breaks off, or is none that this program knows, changes nothing', async () => {
  const bytes = readFileSync(file)
  const [first = '', ...rest] = gunzipSync(bytes).toString().split('\n')
  const withHead = (change: object) =>
    gzipSync([JSON.stringify({ ...JSON.parse(first), ...change }), ...rest].join('\n'))
  const end = JSON.parse(rest.at(-2) ?? '')
  const withEnd = gzipSync([first, ...rest.slice(0, -2), JSON.stringify({ ...end, rows: end.rows + 1 }), ''].join('\n'))
  const without = (table: string, keepsName = false) => {
    const from = rest.findIndex((line) => line.startsWith(`{"table":"${table}"`))
    const to = rest.indexOf('\\.', from)
    const rows = to - from - 1
    const left = keepsName ? rest.toSpliced(from + 1, rows) : rest.toSpliced(from, rows + 2)
    const last = { ...end, rows: end.rows - rows, tables: end.tables - (keepsName ? 0 : 1) }
    return gzipSync([first, ...left.slice(0, -2), JSON.stringify(last), ''].join('\n'))
  }
  for (const [content, code, pattern] of [
    // such a home could never be opened, or nothing in it be erased
    [without('schema_migrations'), 1, /cannot be restored.*has no table schema_migrations; nothing was kept/],
    [without('schema_migrations', true), 1, /migrations are not those that its head names; nothing was kept/],
    [without('erasure_key', true), 1, /has not the one row of erasure_key; nothing was kept/],
    [withEnd, 1, /cannot be restored.*has not the rows.*nothing was kept/],
    [Buffer.from('href,postalCode\n'), 2, /not a backup of leadpush/],
    [Buffer.alloc(0), 2, /not a backup of leadpush/],
    [withHead({ erasureKey: 1 }), 2, /not a backup of leadpush/],
    [withHead({ format: 2, version: '9.0.0' }), 2, /of a newer leadpush \(9\.0\.0\)/],
    [withHead({ migrations: ['000001_leads', '999999_unheard_of'] }), 2, /of a newer leadpush/],
  ] as const) {
    writeFileSync(place('odd.gz'), content)
    const ended = await run(`db restore ${place('odd.gz')}`, at('odd'))
    assert.deepEqual([ended.code, ended.stdout], [code, ''], ended.stderr)
    assert.match(ended.stderr, pattern)
    await until('nothing is left', () => !existsSync(place('odd')) || readdirSync(place('odd')).length === 0)
  }
})

// With a backup one could test guesses of erased contacts: the key of their hashes was beside them.
test('with a secret key set, a backup has the key of erasures encrypted, and a restore needs that key before it begins', async () => {
  const withKey = (name: string, byte: number | undefined): ProgramOptions => ({
    env: {
      LEADPUSH_HOME: place(name),
      ...(byte !== undefined && { LEADPUSH_SECRET_KEY: Buffer.alloc(32, byte).toString('base64') }),
    },
  })
  const sealed = place('sealed.gz')
  const tableOf = (lines: readonly string[]) =>
    lines[lines.findIndex((line) => line.startsWith('{"table":"erasure_key"')) + 1] ?? ''
  const erasureKey = tableOf(linesOf(file)).replaceAll('\\', '').replace(/^x/, '')
  assert.match(erasureKey, /^[0-9a-f]{64}$/)

  const saved = await call(`db backup ${sealed}`, withKey('now', 1))
  assert.equal(saved.code, 0, saved.stderr)
  const text = gunzipSync(readFileSync(sealed)).toString()
  for (const form of ['hex', 'base64', 'base64url'] as const)
    assert.ok(!text.includes(Buffer.from(erasureKey, 'hex').toString(form)), form)

  for (const [byte, pattern] of [
    [2, /LEADPUSH_SECRET_KEY: holds another key/],
    [undefined, /LEADPUSH_SECRET_KEY: is not set/],
  ] as const) {
    const { code, stdout, stderr } = await call(`db restore ${sealed}`, withKey('sealed', byte))
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, pattern)
    assert.equal(existsSync(place('sealed')), false)
  }
  for (const [from, name] of [
    [sealed, 'sealed'],
    [file, 'plain'],
  ] as const) {
    const { code, stderr } = await run(`db restore ${from}`, withKey(name, 1))
    assert.equal(code, 0, stderr)
    assert.equal((await call(`db backup ${place('out.gz')}`, at(name))).code, 0)
    assert.equal(tableOf(linesOf(place('out.gz'))), tableOf(linesOf(file)), name)
  }
})

test('a restore that is killed leaves a home that the next one fills', async () => {
  const fifo = place('fifo')
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  // everything but the end, and then silence
  const half = spawn('/bin/sh', [
    '-c',
    'exec 3> "$2"; head -c "$3" "$1" >&3; exec sleep 100',
    'sh',
    file,
    fifo,
    `${statSync(file).size - 5}`,
  ])
  const home = place('killed')
  const restore = startProgram(['db', 'restore', fifo], at('killed'))
  const begun = () =>
    existsSync(home) && readdirSync(home).some((name) => existsSync(join(home, name, 'data', 'postmaster.pid')))
  await until('the restore began', begun)
  restore.kill('SIGKILL')
  await restore.done
  half.kill('SIGKILL')
  await until('nothing is left', () => readdirSync(home).length === 0)
  const again = await run(`db restore ${file} --json`, at('killed'))
  assert.equal(again.code, 0, again.stderr)
})

test('through a pipe too, and tables that are none of leadpush’s are left out with a word', async () => {
  const { stdout: url } = await call('db url', at('now'))
  const client = new pg.Client({ connectionString: url.trim() })
  await client.connect()
  await client.query("create table notes as select 'mine'::text as note")
  await client.end()
  const pipe = `"$1" "$2" db backup - | LEADPUSH_HOME="$3" "$1" "$2" db restore -`
  const { status, stderr } = spawnSync('/bin/sh', ['-c', pipe, 'sh', process.execPath, findProgram(), place('piped')], {
    cwd: testHome(),
    env: cleanEnvironment(at('now').env),
    encoding: 'utf8',
  })
  await call('db stop', at('now'))
  assert.equal(status, 1)
  assert.match(stderr, /left out: notes/)
  assert.equal((await call('users show user-0@example.com', at('piped'))).code, 0)
})
