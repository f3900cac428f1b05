import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { chmod, chown, mkdir, mkdtemp, readlink, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { LeadpushError } from '../../src/base/errors.ts'
import { packageRoot } from '../../src/base/package-root.ts'
import { findAccount, type SystemUser } from '../../src/db/embedded/account.ts'
import { findPaths } from '../../src/db/embedded/paths.ts'
import { startThrowAway } from '../../src/db/embedded/throw-away.ts'
import { enterEmbedded, keepEmbedded, stopEmbedded } from '../../src/db/embedded.ts'
import { openDatabase } from '../../src/db/open.ts'
import { findScript } from '../support/scripts.ts'
import { until } from '../support/until.ts'

const isRoot = process.getuid?.() === 0
const onLinux = process.platform === 'linux'

/** An empty folder that is removed after the file; private to its owner, as from `mktemp -d`, unless `open`. */
async function makeFolder(open = true): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'leadpush-embedded-'))
  if (open) await chmod(folder, 0o711)
  // an `after` here would belong to the test that asked first
  process.on('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  return folder
}

let shared: string | undefined

/** A home with a database, shared by all tests that ask for it; its server does not run. */
async function usedHome(): Promise<string> {
  if (shared === undefined) {
    shared = await newHome()
    await (await enterEmbedded(shared, { create: true })).leave()
  }
  return shared
}

const newHome = async (open?: boolean) => join(await makeFolder(open), 'home')

/** A new home with a database: copying one takes a fraction of the time of making one. */
async function copiedHome(home: string): Promise<string> {
  execFileSync('cp', ['-a', await usedHome(), home])
  return home
}

async function ask<T extends object>(url: string, statement: string): Promise<T[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<T>(statement)).rows
  } finally {
    await client.end()
  }
}

function readServerPid(home: string): number | undefined {
  const path = join(home, 'data', 'postmaster.pid')
  return existsSync(path) ? Number.parseInt(readFileSync(path, 'utf8'), 10) : undefined
}

/** Whether a process lives; one that has ended and was not reaped yet does not. */
function isAlive(pid: number): boolean {
  if (onLinux)
    return existsSync(`/proc/${pid}/stat`) && !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const leftIn = (home: string) => readdirSync(home).filter((name) => name.startsWith('.'))

interface Visitor {
  child: ChildProcess
  /** The home it entered. */
  entered: Promise<string>
  leave(): Promise<void>
  kill(): Promise<void>
}

function startVisitor(home: string): Visitor {
  const { file, execArgv } = findScript('support/embedded-visitor.ts')
  const child = spawn(process.execPath, [...execArgv, file, home], {
    cwd: packageRoot,
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: 120_000,
    killSignal: 'SIGKILL',
  })
  const ended = once(child, 'close')
  let output = ''
  const entered = new Promise<string>((done, fail) => {
    child.stdout.on('data', (chunk) => {
      output += chunk
      const match = /^in (.*)$/m.exec(output)
      if (match?.[1]) done(match[1])
    })
    child.on('close', () => fail(new Error(`the visitor never got in: ${output}`)))
  })
  entered.catch(() => {})
  return {
    child,
    entered,
    async leave() {
      child.stdin.end()
      await ended
      assert.match(output, /^left$/m)
    },
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

test('without an embedded database, only a command that makes one makes it', async () => {
  const home = await newHome()
  await assert.rejects(enterEmbedded(home, {}), (error) => {
    assert.ok(error instanceof LeadpushError)
    assert.equal(error.code, 'usage')
    const text = `${error.message} ${error.hint}`
    for (const name of ['DATABASE_URL', 'leadpush leads import', 'leadpush users import'])
      assert.ok(text.includes(name))
    return true
  })
  assert.equal(existsSync(home), false)
})

test('data survive a stop and a start of the server, and nothing runs in between', async () => {
  const home = await usedHome()
  const first = await enterEmbedded(home, { create: true })
  await ask(first.url, 'create table kept as select 7 as value')
  const pid = readServerPid(first.home)
  assert.ok(pid)
  await first.leave()
  await first.leave()
  assert.equal(isAlive(pid), false)
  assert.equal(readServerPid(first.home), undefined)
  const second = await enterEmbedded(home, {})
  try {
    assert.equal(second.url, first.url)
    assert.deepEqual(await ask(second.url, 'select value from kept'), [{ value: 7 }])
    assert.deepEqual(
      await ask(
        second.url,
        `select current_setting('server_encoding') as encoding, datcollate as collation, current_user as role
         from pg_database where datname = current_database()`,
      ),
      [{ encoding: 'UTF8', collation: 'C', role: 'leadpush' }],
    )
  } finally {
    await second.leave()
  }
  assert.deepEqual(leftIn(second.home), [])
})

test('processes that come at once make one database, share one server, and the last that leaves stops it', async () => {
  const home = await newHome()
  const visitors = [0, 1, 2].map(() => startVisitor(home))
  const [entered = ''] = await Promise.all(visitors.map((visitor) => visitor.entered))
  const pid = readServerPid(entered)
  assert.ok(pid)
  await visitors[0]?.leave()
  assert.ok(isAlive(pid))
  await Promise.all([visitors[1]?.leave(), visitors[2]?.leave()])
  assert.equal(isAlive(pid), false)
  assert.deepEqual(leftIn(entered), [])
})

test('after a process was killed while it made the database, the next one just works, and clears up', async () => {
  const home = await newHome()
  for (const ms of [600, 1_100]) {
    const visitor = startVisitor(home)
    await Promise.race([sleep(ms), visitor.entered])
    await visitor.kill()
  }
  const server = await enterEmbedded(home, { create: true })
  assert.equal((await ask(server.url, 'select 1')).length, 1)
  await server.leave()
  // an initdb that outlived its parent may have written during the clearing: the next start clears that
  if (leftIn(server.home).length > 0) await (await enterEmbedded(home, {})).leave()
  assert.deepEqual(leftIn(server.home), [])
})

test('a process that was killed leaves its server to the next one, which stops it', async () => {
  const home = await usedHome()
  const visitor = startVisitor(home)
  const entered = await visitor.entered
  const pid = readServerPid(entered)
  await visitor.kill()
  const server = await enterEmbedded(home, {})
  assert.equal(readServerPid(entered), pid)
  await server.leave()
  assert.equal(readServerPid(entered), undefined)
})

test('a killed server is started again: at once by the next command, and for a running command when it next asks', async () => {
  const server = await enterEmbedded(await usedHome(), {})
  await ask(server.url, 'create table survivor as select 7 as value')
  const busy = new pg.Client({ connectionString: server.url })
  busy.on('error', () => {})
  await busy.connect()
  // a process deep in a statement does not notice that its server is gone
  const working = busy.query('select count(*) from generate_series(1, 300000000)').catch(() => {})
  await sleep(100)
  const pid = readServerPid(server.home)
  assert.ok(pid)
  process.kill(pid, 'SIGKILL')
  const next = await enterEmbedded(server.home, {})
  await server.ensureRunning()
  assert.notEqual(readServerPid(server.home), pid)
  await next.leave()
  assert.deepEqual(await ask(server.url, 'select value from survivor'), [{ value: 7 }])
  await server.leave()
  assert.equal(readServerPid(server.home), undefined)
  await working
  await busy.end().catch(() => {})
})

test("a killed server's pid file counts for nothing, even if another process has its id by now", async () => {
  const server = await enterEmbedded(await usedHome(), {})
  await server.leave()
  const path = join(server.home, 'data', 'postmaster.pid')
  const owner = await stat(join(server.home, 'data'))
  for (const text of [`${process.pid}\n${join(server.home, 'data')}\n`, `${2 ** 22 + 7}\n`, '']) {
    await writeFile(path, text)
    await chown(path, owner.uid, owner.gid)
    const again = await enterEmbedded(server.home, {})
    assert.equal((await ask(again.url, 'select 1')).length, 1)
    await again.leave()
    assert.equal(existsSync(path), false)
  }
})

test('kept running on demand, the server is stopped on demand; one that is in use is stopped by the last that leaves', async () => {
  const home = await usedHome()
  assert.equal(await stopEmbedded(home), 'not running')
  const kept = await keepEmbedded(home)
  const pid = readServerPid(kept.home)
  assert.ok(pid)
  const guest = await enterEmbedded(home, {})
  await guest.leave()
  assert.equal(readServerPid(kept.home), pid)
  assert.equal((await ask(kept.url, 'select 1')).length, 1)
  assert.equal(await stopEmbedded(home), 'stopped')
  assert.equal(isAlive(pid), false)

  await keepEmbedded(home)
  const user = await enterEmbedded(home, {})
  assert.equal(await stopEmbedded(home), 'in use')
  assert.equal((await ask(user.url, 'select 1')).length, 1)
  await user.leave()
  assert.equal(readServerPid(kept.home), undefined)
})

// Above 74 bytes the socket was in /tmp, under a name that anybody could work out and make first.
test('the socket is in the home, however long its path; other programs can be told of it up to 82 bytes', async () => {
  const folder = await makeFolder()
  for (const bytes of [81, 82, 83, 200]) {
    const home = await copiedHome(join(folder, 'x'.repeat(bytes - folder.length - 1)))
    const server = await openDatabase({ databaseUrl: undefined, home })
    assert.equal((await server.pool.query('select 1')).rowCount, 1)
    assert.ok(existsSync(join(home, 'socket', '.s.PGSQL.5432')))
    await server.close()
    if (bytes > 82) await assert.rejects(keepEmbedded(home), { code: 'usage', hint: /at most 82 bytes/ })
    else {
      assert.equal((await ask((await keepEmbedded(home)).url, 'select 1')).length, 1)
      await stopEmbedded(home)
    }
  }
  assert.deepEqual(
    readdirSync('/tmp').filter((name) => /^leadpush-[0-9a-f]{20}$/.test(name)),
    [],
  )
  const longFolder = join(folder, 'y'.repeat(120))
  await mkdir(longFolder, { mode: 0o711 })
  const server = await startThrowAway({ folder: longFolder })
  assert.equal((await ask(server.url, 'select 1')).length, 1)
  await server.leave()
})

test('no TCP port is open', { skip: !onLinux }, async () => {
  const server = await enterEmbedded(await usedHome(), {})
  const pid = readServerPid(server.home)
  const sockets = await Promise.all(
    readdirSync(`/proc/${pid}/fd`).map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => '')),
  )
  await server.leave()
  const inodes = sockets.flatMap((name) => /^socket:\[(\d+)\]$/.exec(name)?.[1] ?? [])
  assert.ok(inodes.length > 0)
  const ports = ['tcp', 'tcp6', 'udp', 'udp6'].map((name) => `/proc/net/${name}`).filter((path) => existsSync(path))
  const open = ports.flatMap((path) =>
    readFileSync(path, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/)[9]),
  )
  assert.deepEqual(
    inodes.filter((inode) => open.includes(inode)),
    [],
  )
})

/** The server's answer to a process of user `uid` that connects as `leadpush`. */
async function knock(socketFolder: string, uid: number): Promise<string> {
  const startup = 'user\0leadpush\0database\0leadpush\0\0'
  const script = `
    const socket = require('net').connect(process.argv[1])
    const text = Buffer.from(process.argv[2].replaceAll(' ', '\\0'))
    const head = Buffer.alloc(8); head.writeInt32BE(text.length + 8); head.writeInt32BE(196608, 4)
    socket.on('connect', () => socket.write(Buffer.concat([head, text])))
    socket.on('data', (data) => { console.log(data.toString('latin1')); socket.destroy() })
    socket.on('error', (error) => console.log(error.code))`
  const args = ['-e', script, join(socketFolder, '.s.PGSQL.5432'), startup.replaceAll('\0', ' ')]
  const child = spawn(process.execPath, args, { uid, gid: uid, cwd: '/', stdio: ['ignore', 'pipe', 'inherit'] })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  await once(child, 'close')
  return output
}

for (const open of [true, false]) {
  const where = open ? 'an open folder' : 'a private folder'
  test(`as root, in ${where}, it works as anywhere; other users of the machine cannot connect, even past the socket's folder`, {
    skip: !isRoot || !onLinux,
  }, async () => {
    const folder = await makeFolder(open)
    const home = join(folder, 'home')
    // also in a folder that nobody else may enter, it is made, stopped and started
    if (open) await copiedHome(home)
    else await (await enterEmbedded(home, { create: true })).leave()
    const server = await enterEmbedded(home, {})
    const socketFolder = decodeURIComponent(new URL(server.url).hostname)
    try {
      assert.equal((await ask(server.url, 'select 1')).length, 1)
      assert.match(await knock(socketFolder, 0), /^R/)
      assert.match(await knock(socketFolder, 54_321), /EACCES/)
      for (const path of [folder, server.home, socketFolder]) await chmod(path, 0o755)
      await chmod(join(socketFolder, '.s.PGSQL.5432'), 0o777)
      for (const uid of [54_321, 65_534, 1]) assert.match(await knock(socketFolder, uid), /C28000/, `user ${uid}`)
      assert.match(await knock(socketFolder, 0), /^R/)
    } finally {
      await chmod(socketFolder, 0o700)
      await server.leave()
    }
    assert.equal(readServerPid(home), undefined)
  })
}

// All of root's embedded data belonged to `nobody`, as the files of other services do, which could read and change them.
test('as root, new data belong to a user of their own where there is one; an existing home keeps its user', {
  skip: !isRoot || !onLinux,
}, async () => {
  const folder = await makeFolder()
  const paths = await findPaths(join(folder, 'home'))
  await mkdir(paths.home, { mode: 0o711 })
  const [own, postgres, other] = ['leadpush', 'postgres', 'nobody'].map((name, n) => ({
    name,
    uid: 54_321 + n,
    gid: 54_331 + n,
  }))
  const uidFor = async (...users: (SystemUser | undefined)[]) =>
    (
      await findAccount(
        paths,
        users.flatMap((user) => user ?? []),
      )
    ).uid
  assert.deepEqual(
    [await uidFor(other, postgres, own), await uidFor(other, postgres), await uidFor(other), await uidFor()],
    [54_321, 54_322, 54_323, 65_534],
  )
  await chown(paths.home, 54_323, 54_333)
  await chmod(paths.home, 0o700)
  assert.equal(await uidFor(other, postgres, own), 54_323, 'the first who can enter')

  // the home of an earlier version, and the socket's folder that is left of one whose data are gone
  const home = await copiedHome(join(folder, 'earlier'))
  execFileSync('chown', ['-R', '65534:65534', join(home, 'data'), join(home, 'socket')])
  const server = await enterEmbedded(home, {})
  assert.equal((await ask(server.url, 'select 1')).length, 1)
  assert.equal((await stat(join(home, 'data', 'postmaster.pid'))).uid, 65_534)
  await server.leave()
  rmSync(join(home, 'data'), { recursive: true })
  execFileSync('cp', ['-a', join(await usedHome(), 'data'), home])
  const again = await enterEmbedded(home, {})
  assert.equal((await ask(again.url, 'select 1')).length, 1)
  await again.leave()
})

// Root wrote for the server into folders of other users and followed their links: any file could be overwritten, and became theirs.
test('as root, a link that another user puts where the server writes leads nowhere', {
  skip: !isRoot || !onLinux,
}, async () => {
  const folder = await makeFolder()
  await chmod(folder, 0o755)
  const victim = join(folder, 'victim')
  await writeFile(victim, 'mine\n', { mode: 0o644 })
  const isUntouched = async () => {
    assert.equal(readFileSync(victim, 'utf8'), 'mine\n')
    assert.equal((await stat(victim)).uid, 0)
  }
  // the server's user, while the database is made: its configuration is there, and root is about to add to it
  const home = join(folder, 'home')
  const swap = `while :; do for data in "$1"/.new-*; do [ ! -f "$data/postgresql.conf" ] || ln -sf "$2" "$data/postgresql.conf"; done; sleep 0.01; done`
  const { uid, gid } = await stat(join(await usedHome(), 'data'))
  const attacker = spawn('/bin/sh', ['-c', swap, 'sh', home, victim], { uid, gid, stdio: 'ignore' })
  try {
    await mkdir(home, { mode: 0o755 })
    // on a busy machine the link may come too late
    const entered = await enterEmbedded(home, { create: true }).catch(
      (error) => void assert.ok(error instanceof LeadpushError),
    )
    await entered?.leave()
    await isUntouched()
  } finally {
    attacker.kill('SIGKILL')
  }
  // the home's owner replaces the server's log and the marker that keeps it running
  const theirs = await copiedHome(join(folder, 'theirs'))
  await chown(theirs, 54_321, 54_321)
  for (const name of ['postgres.log', 'keep-running']) {
    rmSync(join(theirs, name), { force: true })
    await symlink(victim, join(theirs, name))
    await assert.rejects(keepEmbedded(theirs), LeadpushError)
    await isUntouched()
    rmSync(join(theirs, name))
  }
})

test('a home that cannot be one, or is of another PostgreSQL, is told with what to do', async () => {
  const folder = await makeFolder()
  await writeFile(join(folder, 'file'), '')
  await mkdir(join(folder, 'old', 'data'), { recursive: true, mode: 0o700 })
  await writeFile(join(folder, 'old', 'data', 'PG_VERSION'), '14\n')
  if (isRoot) {
    await chmod(join(folder, 'old'), 0o711)
    await chown(join(folder, 'old', 'data'), 65_534, 65_534)
  }
  for (const [home, code, expected] of [
    [join(folder, 'file', 'home'), 'usage', /DATABASE_URL/],
    [join(folder, 'old'), 'database', /PostgreSQL 14/],
  ] as const) {
    await assert.rejects(enterEmbedded(home, { create: true }), (error) => {
      assert.ok(error instanceof LeadpushError)
      assert.equal(error.code, code)
      assert.match(`${error.message} ${error.hint}`, expected)
      return true
    })
  }
})

// As root it killed the process that the file named, and another user can write that file.
test('the end of a throw-away server ends no other process, even if its pid file names one', async () => {
  const server = await startThrowAway()
  const pid = readServerPid(server.home)
  assert.ok(pid)
  const other = spawn('sleep', ['600'], { stdio: 'ignore' })
  try {
    await writeFile(join(server.home, 'data', 'postmaster.pid'), `${other.pid}\n`)
    await server.leave()
    assert.deepEqual([isAlive(other.pid ?? 0), existsSync(server.home)], [true, false])
  } finally {
    other.kill('SIGKILL')
    // without its folder the server ends by itself, at some time
    if (isAlive(pid)) process.kill(pid, 'SIGKILL')
  }
})

test('nothing remains of a throw-away server after it was left, nor after its process was killed', async () => {
  const server = await startThrowAway()
  assert.equal((await ask(server.url, 'select 1')).length, 1)
  const pid = readServerPid(server.home)
  await server.leave()
  assert.ok(pid && !isAlive(pid))
  assert.equal(existsSync(server.home), false)

  const visitor = startVisitor('throw-away')
  const home = await visitor.entered
  const orphan = readServerPid(home)
  assert.ok(orphan && isAlive(orphan))
  await visitor.kill()
  await until('the folder of the killed process goes', () => !existsSync(home))
  await until('its server ends', () => !isAlive(orphan))
})
