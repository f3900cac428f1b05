/** The embedded database beside other accounts of the machine (contract 2, `LEADPUSH_HOME`): what they can put in its way. */
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  lstatSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { lackingAccounts, lackingFilter, makeFolders, runAs, stranger, victim } from '../support/accounts.ts'
import { findInstalled } from '../support/installed.ts'

const options = { skip: lackingAccounts }
const key = 'k'.repeat(32)
const input = JSON.stringify({ email: 'a@example.com', receiverApiKey: key, queries: [{ value: '78704' }] })

async function importUser(uid: number, home: string) {
  return await runAs(uid, ['users', 'import', '-'], { env: { LEADPUSH_HOME: home }, input })
}

/** Something that makes one of the folders not only this account's; returns what takes it back. */
type Fault = readonly [what: string, put: (folder: string) => () => void]

const mode = (bits: number): Fault => [
  `of mode ${bits.toString(8)}`,
  (folder) => {
    const before = lstatSync(folder).mode & 0o777
    chmodSync(folder, bits)
    return () => chmodSync(folder, before)
  },
]

const link: Fault = [
  'that is a link',
  (folder) => {
    const itself = `${folder}-itself`
    const { uid, gid } = lstatSync(folder)
    renameSync(folder, itself)
    symlinkSync(itself, folder)
    execFileSync('chown', ['-h', `${uid}:${gid}`, folder])
    return () => {
      rmSync(folder)
      renameSync(itself, folder)
    }
  },
]

const owner: Fault = [
  'of another user',
  (folder) => {
    const { uid, gid } = lstatSync(folder)
    chownSync(folder, stranger, stranger)
    return () => chownSync(folder, uid, gid)
  },
]

const modes = [0o701, 0o710, 0o704, 0o750, 0o755, 0o770, 0o777].map(mode)
const homeModes = [0o712, 0o715, 0o721, 0o755, 0o777].map(mode)
const faults: Record<'user' | 'root', [folder: '' | 'data' | 'socket', Fault][]> = {
  user: (['', 'data', 'socket'] as const).flatMap((folder) =>
    [...modes, link, owner].map((fault): [typeof folder, Fault] => [folder, fault]),
  ),
  // what lies in root's home only root can have put there, whoever owns it
  root: [
    ...[...homeModes, link, owner].map((fault): ['', Fault] => ['', fault]),
    ...(['data', 'socket'] as const).flatMap((folder) =>
      [mode(0o755), link].map((fault): [typeof folder, Fault] => [folder, fault]),
    ),
  ],
}

const commands = [
  ['users', 'import', '-'],
  ['users', 'list'],
  ['db', 'stop'],
  ['db', 'url'],
]

// Whoever had a server in such a folder got the receiver keys of an import, which ended with 0; root's too.
for (const [who, uid] of [
  ['user', victim],
  ['root', 0],
] as const) {
  test(`nothing is sent to a server in a folder that is not this account's alone: run by ${who}`, options, async () => {
    const [folder = ''] = makeFolders(uid)
    if (uid === 0) chmodSync(folder, 0o711)
    const home = join(folder, 'home')
    const made = await importUser(uid, home)
    assert.equal(made.code, 0, made.stderr)
    let connections = 0
    const impostor = createServer((socket) => {
      connections++
      socket.destroy()
    }).listen(join(home, 'socket', '.s.PGSQL.5432'))
    await once(impostor, 'listening')
    chmodSync(join(home, 'socket', '.s.PGSQL.5432'), 0o777)
    try {
      for (const [at, [name, [what, put]]] of faults[who].entries()) {
        const path = join(home, name)
        const takeBack = put(path)
        const { code, stderr } = await runAs(uid, commands[at % commands.length] ?? [], {
          env: { LEADPUSH_HOME: home },
          input,
        })
        assert.equal(code, 3, `${path} ${what}: ${stderr}`)
        assert.ok(stderr.startsWith(`error: ${path} is not used for the embedded database: it `), `${what}: ${stderr}`)
        takeBack()
      }
      writeFileSync(join(home, 'data', 'PG_VERSION'), '17\n')
      const other = await runAs(uid, ['users', 'list'], { env: { LEADPUSH_HOME: home } })
      assert.equal(other.code, 3)
      assert.match(other.stderr, /is of PostgreSQL 17, this program's is 18/)
      writeFileSync(join(home, 'data', 'PG_VERSION'), '18\n')
    } finally {
      impostor.close()
    }
    assert.equal(connections, 0)
    const again = await importUser(uid, home)
    assert.equal(again.code, 0, again.stderr)
  })
}

test('an empty home that others may read is closed; one where they may write is refused', options, async () => {
  for (const uid of [victim, 0]) {
    const [folder = ''] = makeFolders(uid)
    if (uid === 0) chmodSync(folder, 0o711)
    for (const [bits, code] of [
      [0o755, 0],
      [0o775, 3],
      [0o757, 3],
    ] as const) {
      const home = join(folder, bits.toString(8))
      execFileSync('mkdir', ['-m', bits.toString(8), home])
      chownSync(home, uid, uid)
      const ended = await importUser(uid, home)
      assert.equal(ended.code, code, ended.stderr)
      if (code === 0) assert.equal(lstatSync(home).mode & 0o777, uid === 0 ? 0o711 : 0o700)
    }
  }
})

// Another user's PostgreSQL counted as the server that the file named: every command failed after a minute, `db stop` never ended.
test('a stale pid file counts for nothing if its number is now the PostgreSQL of another user', options, async () => {
  const [home = '', other = ''] = makeFolders(victim, stranger)
  const env = { LEADPUSH_HOME: home }
  assert.equal((await importUser(victim, home)).code, 0)
  const program = join(other, 'postgres')
  copyFileSync(findInstalled('sleep') ?? '', program)
  chmodSync(program, 0o755)
  const theirs = spawn(program, ['600'], { uid: stranger, gid: stranger, cwd: other, stdio: 'ignore' })
  try {
    const file = join(home, 'data', 'postmaster.pid')
    writeFileSync(file, `${theirs.pid}\n${join(home, 'data')}\n`)
    chownSync(file, victim, victim)
    assert.equal((await runAs(victim, ['db', 'stop'], { env })).stdout, 'It was not running.\n')
    const { code, stderr } = await runAs(victim, ['users', 'list'], { env })
    assert.equal(code, 0, stderr)
    assert.equal(existsSync(file), false)
  } finally {
    theirs.kill('SIGKILL')
  }
})

// Making the folder of the socket gave it to its own account, which a unit of systemd may not: no command had a database there.
test('the account of a unit, which may give no file away, has an embedded database', {
  skip: lackingAccounts || lackingFilter,
}, async () => {
  const [home = ''] = makeFolders(victim)
  const { code, stdout, stderr } = await runAs(victim, ['users', 'import', '-'], {
    env: { LEADPUSH_HOME: home },
    input,
    mayChown: false,
  })
  assert.deepEqual([code, /inserted +1\n/.test(stdout)], [0, true], stderr)
})
