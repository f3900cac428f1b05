/** `validate` on machines where one thing is wrong: real servers, real sockets, real certificates. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import tls from 'node:tls'
import { promisify } from 'node:util'
import { packageRoot } from '../../src/base/package-root.ts'
import { startThrowAway, type ThrowAwayServer } from '../../src/db/embedded/throw-away.ts'
import { enterEmbedded } from '../../src/db/embedded.ts'
import { openDatabase } from '../../src/db/open.ts'
import { type Finding, sentenceOf } from '../../src/inspect/finding.ts'
import { MachineChecks } from '../../src/inspect/machine/run-checks.ts'
import { sealStored } from '../../src/secrets/seal-stored.ts'
import { changeSecretKey, openVault } from '../../src/secrets/vault.ts'
import { createDatabase, postgresVersion } from '../support/database.ts'
import { callProgram, cleanEnvironment, runProgram } from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'
import { startSecureWay } from '../support/secure-way.ts'
import { seedUsers } from '../support/seed.ts'
import { certificate, findClosedPort, listen } from '../support/sockets.ts'
import { startWay } from '../support/way.ts'

const folder = mkdtempSync(join(tmpdir(), 'leadpush-machine-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
const noHome = join(folder, 'no-home')
const closed = await findClosedPort()
/** Takes connections, and speaks something else. */
const raw = await listen(net.createServer((socket) => socket.once('data', () => socket.write('SSH-2.0\r\n'))))
/** Takes connections, and says nothing. */
const silent = await listen(net.createServer())
const receiver = await listen(
  http.createServer((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers['x-service-api-key'] ?? 'without a key'}`)
    if (request.url === '/page') response.setHeader('Content-Type', 'text/html; charset=utf-8').writeHead(200).end()
    else response.writeHead(Number(/\/(\d{3})$/.exec(request.url ?? '')?.[1] ?? 405)).end()
  }),
)
const asked: string[] = []
after(() => Promise.all([silent.close(), raw.close(), receiver.close()]))
const receiverUrl = `http://127.0.0.1:${receiver.port}/leads`

/** What is wrong with a machine with these settings, by code, and the reasons for which checks were left out. */
interface Diagnosis {
  found: Finding[]
  leftOut: string[]
}

async function diagnose(env: Record<string, string>, cwd = folder): Promise<Diagnosis> {
  const diagnosis: Diagnosis = { found: [], leftOut: [] }
  let close = async () => {}
  const machine = new MachineChecks({
    source: { env: { LEADPUSH_HOME: noHome, LEADPUSH_RECEIVER_URL: receiverUrl, ...env }, cwd },
    open: async (settings) => {
      const opened = await openDatabase(settings, { schema: 'untouched', connectionsMax: 2 })
      close = opened.close
      return opened
    },
  })
  for await (const { found, leftOut } of machine.run()) {
    diagnosis.found.push(...found)
    if (leftOut !== undefined) diagnosis.leftOut.push(leftOut)
  }
  await close()
  return diagnosis
}

const of = ({ found }: Diagnosis, code: string) => found.filter((finding) => finding.code === code)
const tell = (diagnosis: Diagnosis, code: string) =>
  of(diagnosis, code)
    .map((finding) => `${finding.level}: ${sentenceOf(finding)}`)
    .join(' ')
const says = (diagnosis: Diagnosis, code: string, words: RegExp) => assert.match(tell(diagnosis, code), words, code)
const isWell = (diagnosis: Diagnosis, ...codes: string[]) => {
  for (const code of codes) assert.equal(tell(diagnosis, code), '', code)
}

// begun first, since most of it is waiting
const fake = (name: string, text: string) => {
  mkdirSync(join(folder, 'fake'), { recursive: true })
  writeFileSync(join(folder, 'fake', name), `#!/bin/sh\n${text}\n`)
  chmodSync(join(folder, 'fake', name), 0o755)
}
fake('crontab', 'exec sleep 600')
fake('systemctl', 'exec sleep 600')
const everythingHangs = runProgram(['validate', '--json'], {
  env: {
    PATH: `${folder}/fake:${process.env.PATH}`,
    DATABASE_URL: `postgresql://a:secret-1@127.0.0.1:${silent.port}/x`,
    LEADPUSH_RECEIVER_URL: `https://127.0.0.1:${silent.port}/secret-2`,
    LEADPUSH_PING_URL: `https://127.0.0.1:${silent.port}/secret-3`,
    LEADPUSH_TIMEOUT: '300ms',
  },
})

let server: ThrowAwayServer

before(async () => {
  server = await startThrowAway()
  const access = join(server.home, 'data', 'pg_hba.conf')
  writeFileSync(access, `local all secretive scram-sha-256\n${readFileSync(access, 'utf8')}`)
  const opened = await openDatabase({ databaseUrl: server.url, home: '' }, { schema: 'untouched' })
  await opened.pool.query("create role secretive login password 'right'")
  await opened.pool.query('select pg_reload_conf()')
  await opened.close()
})
after(() => server?.leave())

test('name, port, silence, password, user, database and what no server is are told apart, and what rests on them is skipped', async () => {
  const as = (who: string) => server.url.replace('leadpush@', `${who}@`)
  for (const [databaseUrl, words] of [
    ['postgresql://a:hidden@nowhere.invalid/x', /^problem: The host name .* not known to DNS .*nowhere\.invalid.* DNS/],
    [`postgresql://a:hidden@127.0.0.1:${closed}/x`, /^problem: The connection was refused.*Start PostgreSQL/],
    ['postgresql://a:hidden@%2Fnowhere/x', /^problem: The connection was refused.*ENOENT/],
    [`postgresql://a:hidden@127.0.0.1:${receiver.port}/x`, /^problem: /],
    [as('secretive:hidden'), /^problem: The password is wrong or missing \(password authentication failed.*alter role/],
    [as('secretive'), /^problem: The password is wrong or missing/],
    [as('stranger'), /^problem: The server does not let this user in.*pg_hba\.conf/],
    [server.url.replace(/leadpush$/, 'nosuch'), /^problem: There is no such database.*createdb/],
    [`${(await startWay(server.url)).url}?sslmode=require`, /^problem: TLS: DATABASE_URL asks for it, and the server does not offer/],
  ] as const) {
    const lines = await diagnose({ DATABASE_URL: databaseUrl })
    says(lines, 'database', words)
    assert.deepEqual(lines.leftOut, Array(9).fill('the database cannot be reached'))
    isWell(lines, 'receiver')
    assert.doesNotMatch(JSON.stringify(lines), /hidden/)
  }
}) // biome-ignore format: a table

test('a password that is wrong or missing ends a command, and its process with it', async () => {
  // a connection that was not made was left open: the server ends it a minute later, and the process ended no sooner
  for (const who of ['secretive:hidden', 'secretive']) {
    const DATABASE_URL = server.url.replace('leadpush@', `${who}@`)
    const { code, stderr } = await runProgram(['status'], { cwd: folder, env: { DATABASE_URL }, timeoutMs: 50_000 })
    assert.equal(code, 3, stderr)
    assert.match(stderr, /password/)
  }
})
test('an empty database, one of a newer program, and one that only reads; the server says what it does not keep', async () => {
  const lines = await diagnose({ DATABASE_URL: server.url })
  isWell(lines, 'database')
  says(lines, 'durability', /^note: fsync is off.* full_page_writes is off.* synchronous_commit is off/)
  assert.equal(of(lines, 'durability').length, 3)
  says(lines, 'schema', /^problem: The schema of the database is behind.*`leadpush migrate`/)
  assert.deepEqual(new Set(lines.leftOut), new Set(['the schema is not the one of this program']))
  isWell(lines, 'time-zone')

  const { url, open } = await createDatabase()
  const { pool, close } = await open()
  await pool.query("insert into schema_migrations values ('999999_later', '', '')")
  await pool.query(`alter database ${new URL(url).pathname.slice(1)} set default_transaction_read_only = on`)
  await close()
  const other = await diagnose({ DATABASE_URL: url })
  says(other, 'schema', /^problem: The database is newer.*newest version/)
  says(other, 'writing', /^problem: default_transaction_read_only is on/)
})

test(`PostgreSQL ${postgresVersion} answers all that is asked`, async () => {
  const { url } = await createDatabase()
  const lines = await diagnose({ DATABASE_URL: url })
  isWell(lines, 'database', 'writing', 'schema', 'rights', 'connections', 'clock', 'time-zone')
  assert.deepEqual(lines.leftOut, [])
})

test('a role without rights is told what it lacks; one that may do all but own the tables is warned', async () => {
  const database = await createDatabase()
  const { pool, close } = await database.open()
  const role = `limited_${process.pid}`
  const as = { DATABASE_URL: `${database.url}?options=-c%20role%3D${role}` }
  const name = new URL(database.url).pathname.slice(1)
  try {
    await pool.query(`create role ${role}`)
    await pool.query(`revoke temporary on database ${name} from public`)
    const without = await diagnose(as)
    says(without, 'rights', new RegExp(`^problem: The role ${role} may not do what is needed \\(answers: select, insert, update, delete; .* more\\)\\..*grant all on all tables in schema public to "${role}".*temporary tables`))
    assert.match(without.leftOut.join(), /^(rights are missing|its schema could not be read)/)
    await pool.query(`grant all on all tables in schema public to ${role}; grant all on all sequences in schema public to ${role}; grant temporary on database ${name} to ${role}; revoke update on users from ${role}; revoke select on erasure_count from ${role}`)
    says(await diagnose(as), 'rights', /^problem: The role \S+ may not do what is needed \(erasure_count: select; users: update\)\./)
    await pool.query(`grant update on users to ${role}; grant select on erasure_count to ${role}`)
    says(await diagnose(as), 'rights', /^note: \S+ role \S+ may not change the schema.*as the owner/)
    await pool.query(`alter database ${name} connection limit 8`)
    says(await diagnose(as), 'connections', /^note: Only [1-7] of 8 are free, and a push takes up to 8/)
  } finally {
    await pool.query(`drop owned by ${role}; drop role ${role}`)
    await close()
  }
}) // biome-ignore format: long statements

test('a time zone of others', async () => {
  const database = await createDatabase()
  const opened = await database.open()
  const env = { DATABASE_URL: database.url, LEADPUSH_TIME_ZONE: 'America/Chicago' }
  isWell(await diagnose(env), 'time-zone')
  await opened.pool.query(`
    insert into runs (command, period, time_zone, worker_id, resumable)
    values ('all', to_char(now() at time zone 'America/Chicago', 'IYYY-"W"IW'), 'UTC', 99, true)`)
  const lines = await diagnose(env)
  says(lines, 'time-zone', /^note: LEADPUSH_TIME_ZONE is America\/Chicago, and the last run used UTC/)
  await opened.close()
})

test('encryption: not set, keys that are plain, a key file that is open to all, a change that is not finished, a wrong key', async () => {
  const database = await createDatabase()
  const opened = await database.open()
  await seedUsers(opened.db, [{ email: 'user@example.com' }])
  const [key, other] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)]
  const file = join(folder, 'secret.key')
  writeFileSync(file, key.toString('base64'))
  chmodSync(file, 0o604)
  const env = { DATABASE_URL: database.url, LEADPUSH_SECRET_KEY_FILE: file }
  isWell(await diagnose({ DATABASE_URL: database.url }), 'encryption')
  const plain = await diagnose(env)
  says(
    plain,
    'encryption',
    /^note: Receiver keys and signing secrets that are not encrypted: 1 of 1\. Run `leadpush migrate`/,
  )
  says(plain, 'secrets', /^note: Every user of this machine may read .*secret\.key \(LEADPUSH_SECRET_KEY_FILE\)/)
  await sealStored(opened, await openVault(opened.db, { secretKey: key }, { begins: true }))
  isWell(await diagnose(env), 'encryption')
  await changeSecretKey(opened.db, key, other)
  says(await diagnose(env), 'encryption', /^problem: LEADPUSH_SECRET_KEY holds another key than the one/)
  says(await diagnose({ DATABASE_URL: database.url }), 'encryption', /^problem: LEADPUSH_SECRET_KEY is not set/)
  writeFileSync(file, other.toString('base64'))
  says(await diagnose(env), 'encryption', /^note: A change of the secret key is not finished\. Run `leadpush migrate`/)
  await opened.close()
})

test('settings that are wrong are all told, no secret of them is shown, and the rest is checked all the same', async () => {
  const cwd = join(folder, 'settings')
  mkdirSync(cwd)
  writeFileSync(join(cwd, '.env'), `LEADPUSH_PING_URL=http://127.0.0.1:${closed}/secret-1\n`)
  writeFileSync(join(cwd, 'url'), 'mysql://a:secret-2@db/x')
  writeFileSync(join(cwd, 'empty'), '')
  chmodSync(join(cwd, '.env'), 0o644)
  chmodSync(join(cwd, 'url'), 0o604)
  chmodSync(join(cwd, 'empty'), 0o600)
  const env = {
    DATABASE_URL_FILE: 'url', LEADPUSH_RECEIVER_URL: '', LEADPUSH_RECEIVER_URL_FILE: 'empty', LEADPUSH_RATE: 'fast',
    LEADPUSH_TIME_ZNOE: 'UTC', LEADPUSH_CONCURRENCY_FILE: 'nowhere', LEADPUSH_ALLOW_INSECURE_HOOKS: '1',
  }
  const lines = await diagnose(env, cwd)
  says(lines, 'settings', /^problem: .*DATABASE_URL holds a value that is not allowed/)
  for (const words of [/LEADPUSH_TIME_ZNOE .*did you mean LEADPUSH_TIME_ZONE/, /LEADPUSH_RATE holds "fast"/, /LEADPUSH_CONCURRENCY_FILE .*ENOENT/, /LEADPUSH_ALLOW_INSECURE_HOOKS is set/]) {
    says(lines, 'settings', words)
  }
  assert.deepEqual(of(lines, 'secrets').map(({ what }) => what.replace(/\S*\//, '')), [
    'Every user of this machine may read .env (settings)',
    'Every user of this machine may read url (DATABASE_URL_FILE)',
    'empty (LEADPUSH_RECEIVER_URL_FILE) is empty: it counts as not set',
  ])
  assert.match(tell(lines, 'secrets'), /Run `chmod o-r \S+\/\.env`\./)
  assert.deepEqual(new Set(lines.leftOut), new Set(['DATABASE_URL is wrong']))
  isWell(lines, 'database', 'receiver')
  assert.doesNotMatch(JSON.stringify(lines), /secret-/)

  chmodSync(join(cwd, '.env'), 0o640)
  chmodSync(join(cwd, 'url'), 0o600)
  writeFileSync(join(cwd, 'url'), server.url)
  const good = await diagnose({ DATABASE_URL_FILE: 'url', HTTPS_PROXY: 'socks5://a:secret-4@proxy' }, cwd)
  isWell(good, 'secrets')
  isWell(good, 'database')
  says(good, 'settings', /^problem: HTTPS_PROXY holds a value that is not allowed \(and not shown\)/)
  isWell(good, 'receiver')
}) // biome-ignore format: lists

test('the receiver is asked with a HEAD and no key, and is there, in trouble, or at another path', async () => {
  asked.length = 0
  const url = (path: string) => ({ LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${receiver.port}${path}` })
  isWell(await diagnose(url('/leads?token=secret-1')), 'receiver')
  assert.deepEqual(asked, ['HEAD /leads?token=secret-1 without a key'])
  isWell(await diagnose(url('/501')), 'receiver')
  says(await diagnose(url('/503')), 'receiver', /^problem: .* is in trouble: HTTP 503 to a HEAD, and until that/)
  says(await diagnose(url('/404')), 'receiver', /^note: .*HTTP 404 to a HEAD\. Check the path.*probe --user/)
  // a receiver may want a key first; so may a proxy before it, and a login page answered 200 to everything
  for (const status of [401, 403])
    says(await diagnose(url(`/${status}`)), 'receiver', new RegExp(`^note: .*HTTP ${status} to a HEAD without a key\\. .*probe --user`))
  says(await diagnose(url('/page')), 'receiver', /^note: .* answers a HEAD with a page \(text\/html\)\. Check that LEADPUSH_RECEIVER_URL/)
  says(await diagnose(url('/301')), 'receiver', /^note: .*redirects \(HTTP 301\)/)
  const slow = { LEADPUSH_TIMEOUT: '200ms' }
  for (const [settings, words] of [
    [{ LEADPUSH_RECEIVER_URL: 'https://nowhere.invalid/' }, /^problem: The receiver nowhere\.invalid is not reached: its host name is unknown.*can look it up/],
    [{ LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${closed}/` }, /^problem: .*refused.*Check that the receiver runs/],
    [{ LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${silent.port}/`, ...slow }, /^problem: .*was reached, but gave no HTTP answer: an answer did not come in time/],
    [{ LEADPUSH_RECEIVER_URL: `https://127.0.0.1:${silent.port}/`, ...slow }, /^problem: .*the TLS handshake did not end in time.*begin with http: or https:/],
    [{ LEADPUSH_RECEIVER_URL: `https://127.0.0.1:${receiver.port}/` }, /^problem: .*the TLS handshake failed.*begin with http: or https:/],
    [{ LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${raw.port}/` }, /^problem: .*gave no HTTP answer: .*Check LEADPUSH_RECEIVER_URL/],
    [{ LEADPUSH_RECEIVER_URL: 'http://receiver.example/', HTTP_PROXY: `http://u:secret-2@127.0.0.1:${receiver.port}/` }, /^$/],
    [{ LEADPUSH_RECEIVER_URL: 'http://receiver.example/407', HTTP_PROXY: `http://u:secret-2@127.0.0.1:${receiver.port}/` }, /^problem: .*receiver\.example is not reached through the proxy 127\.0\.0\.1:\d+: the proxy asks for a user name and password.*HTTPS_PROXY/],
    [{ LEADPUSH_RECEIVER_URL: 'https://receiver.example/', HTTPS_PROXY: `http://u:secret-2@127.0.0.1:${closed}/` }, /^problem: The proxy 127\.0\.0\.1:\d+ is not reached: the connection was refused.*HTTPS_PROXY/],
    [{ HTTP_PROXY: `http://127.0.0.1:${closed}/`, NO_PROXY: '127.0.0.1' }, /^$/],
  ] as const) {
    const lines = await diagnose({ ...settings })
    says(lines, 'receiver', words)
    assert.doesNotMatch(JSON.stringify(lines), /secret-/)
  }
}) // biome-ignore format: a table

test('a client certificate: none, one with another key, one that nobody sees, one that is over', async () => {
  const pem = (file: string) => readFileSync(certificate(file), 'utf8')
  const key = pem('client.key')
  for (const [env, ofSettings, ofCertificate] of [
    [{}, /^$/, /^$/],
    [{ LEADPUSH_CLIENT_CERT: pem('client.pem'), LEADPUSH_CLIENT_KEY: pem('localhost.key') }, /^problem: LEADPUSH_CLIENT_KEY does not belong/, /^$/],
    [{ LEADPUSH_CLIENT_CERT: pem('client.pem'), LEADPUSH_CLIENT_KEY: key }, /^$/, /^note: .*begins with `http:`/],
    [{ LEADPUSH_CLIENT_CERT: pem('client-expired.pem'), LEADPUSH_CLIENT_KEY: key, LEADPUSH_RECEIVER_URL: `https://127.0.0.1:${closed}/` }, /^$/, /^problem: .*expired on 2020-04-01/],
  ] as const) {
    const lines = await diagnose({ ...env })
    says(lines, 'settings', ofSettings)
    says(lines, 'client-certificate', ofCertificate)
  }
}) // biome-ignore format: a table

/** A receiver and a way to a database that both begin with TLS under a certificate. */
async function startSecure(file: string, databaseUrl: string) {
  const identity = { key: readFileSync(certificate('localhost.key')), cert: readFileSync(certificate(file)) }
  const secure = await listen(
    tls.createServer(identity, (socket) =>
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n'),
    ),
  )
  after(() => secure.close())
  return {
    LEADPUSH_RECEIVER_URL: `https://localhost:${secure.port}/`,
    DATABASE_URL: `${await startSecureWay(databaseUrl, file)}?sslmode=verify-full`,
  }
}

test('certificates: a good one, one that is over, one for another name, one of an unknown authority; and a clock that is wrong', async () => {
  const { url } = await createDatabase()
  const trust = { NODE_EXTRA_CA_CERTS: certificate('ca.pem') }
  const clock = { NODE_OPTIONS: `--import=${join(packageRoot, 'test/support/shifted-clock.js')}`, CLOCK_SHIFT_DAYS: '0.01' }
  await Promise.all(
    ([
      ['localhost.pem', { ...trust, ...clock }, 0, /never/, /never/],
      ['expired.pem', trust, 1, /certificate has expired.*needs a new certificate/, /TLS: the server's certificate has expired.*Renew/],
      ['elsewhere.pem', trust, 1, /another host name.*Check the host in/, /TLS: .*for another host name/],
      ['localhost.pem', {}, 1, /not trusted.*NODE_EXTRA_CA_CERTS/, /TLS: .*not trusted.*NODE_EXTRA_CA_CERTS/],
    ] as const).map(async ([file, env, failed, ofReceiver, ofDatabase]) => {
      const { json, code, stderr } = await runProgram(['validate', '--json'], { env: { ...(await startSecure(file, url)), ...env } })
      const told = (code: string) => json.filter((line) => line.code === code).map(({ type, message, hint }) => `${type}: ${message}. ${hint}`).join()
      for (const [name, words] of [['receiver', ofReceiver], ['database', ofDatabase]] as const)
        if (failed) assert.match(told(name), words)
        else assert.equal(told(name), '')
      if (!failed) assert.match(told('clock'), /^problem: This machine's clock is 864 s ahead of the database's/)
      assert.equal(code, 1, stderr)
    }),
  )
}) // biome-ignore format: a table

test('without a database none is made: that is a problem, and the checks that need it are one line', async () => {
  const env = { LEADPUSH_HOME: noHome, LEADPUSH_RECEIVER_URL: receiverUrl }
  const { code, stdout, stderr } = await callProgram(['validate'], { env })
  assert.deepEqual([code, stderr], [1, ''])
  assert.match(
    stdout,
    /^database {2}problem {2}There is none yet: .*no-home holds no embedded one\. Set DATABASE_URL; or import/m,
  )
  assert.equal(stdout.match(/skipped/g)?.length, 1)
  assert.match(stdout, /^database {2}skipped {2}9 checks of the database: there is none yet\.$/m)
  assert.match(stdout, /\nproblems +1\n$/)
  assert.equal(existsSync(noHome), false)
})

test('a working directory that was removed is told in a sentence', async () => {
  const program = `cd "$(mktemp -d)" && rmdir "$PWD" && '${process.execPath}' '${findProgram()}' validate`
  const ended = await promisify(execFile)('/bin/sh', ['-c', program], { env: cleanEnvironment() }).catch(
    (error) => error,
  )
  assert.deepEqual([ended.code, ended.stdout], [2, ''])
  assert.match(ended.stderr, /^error: The working directory was removed\.\n {7}Change to one/)
})

test('an embedded database is asked, left as it is, and stopped again; then it is down, and at last a standby', async () => {
  const program = `'${process.execPath}' '${findProgram()}' validate --json || true`
  const { stdout } = await promisify(execFile)('/bin/sh', ['-c', program], {
    env: cleanEnvironment({ LEADPUSH_HOME: server.home, LEADPUSH_RECEIVER_URL: receiverUrl }), cwd: folder,
  })
  const all = stdout.trim().split('\n').map((line) => JSON.parse(line))
  const told = all.map(({ type, code, message, hint }) => `${type} ${code}: ${message}. ${hint}`).join('\n')
  assert.match(told, /^problem schema: The schema of the database is behind.*Every other command does so by itself/m)
  assert.match(told, /^skipped left-out: \d checks? of the database: the schema is not the one of this program/m)
  assert.deepEqual([all.at(-1).type, all.at(-1).problems], ['summary', 1])
  const data = join(server.home, 'data')
  assert.equal(existsSync(join(data, 'postmaster.pid')), false)
  says(await diagnose({ DATABASE_URL: server.url }), 'database', /^problem: The connection was refused/)

  // without the WAL that a standby reads it does not start as one
  appendFileSync(join(data, 'postgresql.conf'), '\nwal_level = replica\n')
  await (await enterEmbedded(server.home, {})).leave()
  writeFileSync(join(data, 'standby.signal'), '')
  const entered = await enterEmbedded(server.home, {})
  const standby = await diagnose({ DATABASE_URL: server.url })
  isWell(standby, 'database')
  says(standby, 'writing', /^problem: The server is a standby.*primary/)
  await entered.leave()
}) // biome-ignore format: short

// Nothing told an operator that what runs as `nobody` beside leadpush could read the receiver keys in its files.
test('embedded data that belong to nobody are noted, with the way to a user of their own', {
  skip: process.getuid?.() !== 0 || process.platform !== 'linux',
}, async () => {
  const daemon = 1
  for (const [uid, words] of [
    [65_534, /^note: .*belong to the user nobody.*useradd --system leadpush.*db backup.*LEADPUSH_HOME.*db restore/],
    [daemon, /^$/],
  ] as const) {
    for (const name of ['data', 'socket'])
      await promisify(execFile)('chown', ['-Rhf', `${uid}:${uid}`, join(server.home, name)])
    says(await diagnose({ LEADPUSH_HOME: server.home }), 'database', words)
  }
})

test('with everything hanging it finishes, says what hangs, and shows no secret', async () => {
  const { json, code, stdout, stderr } = await everythingHangs
  assert.equal(code, 1, stderr)
  const told = json.map(({ type, code, message }) => `${type} ${code}: ${message}`).join('\n')
  assert.match(told, /^problem database: There was no answer in time/m)
  assert.match(told, /^problem receiver: .*the TLS handshake did not end in time/m)
  assert.match(told, /^note schedule: `crontab -l` gave no answer within 5 s/m)
  assert.equal(json.at(-1).type, 'summary')
  assert.doesNotMatch(stdout + stderr, /secret-/)
})
