/** Settings as an operator meets them (contract 2): what is allowed on both sides of every limit, and where values come from. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  lchownSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { callProgram, cleanEnvironment, testHome } from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'
import { certificate } from '../support/sockets.ts'

/** What `push --all` says of settings when there is no database: nothing is done in either case. */
async function checkSettings(env: Record<string, string>, options: { cwd?: string; flags?: string[] } = {}) {
  const args = ['push', '--all', '--json', ...(options.flags ?? [])]
  const { code, stdout, stderr } = await callProgram(args, { env, ...(options.cwd && { cwd: options.cwd }) })
  assert.equal(code, 2, stderr)
  assert.equal(stdout, '')
  return stderr
}

const isAccepted = (said: string) => /^error: There is no database yet/.test(said)

let folders = 0
function makeFolder(files: Record<string, string>): string {
  const folder = join(testHome(), `settings-${++folders}`)
  mkdirSync(folder)
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  return folder
}

const url = 'https://receiver.example/leads?token=1'

test('every setting takes the least that it may hold', async () => {
  const said = await checkSettings({
    LEADPUSH_RECEIVER_URL: url, LEADPUSH_DATA_SOURCE: '!', LEADPUSH_CONCURRENCY: '1', LEADPUSH_RATE: '0.001',
    LEADPUSH_TIMEOUT: '100ms', LEADPUSH_RETRY_DELAY: '0s', LEADPUSH_OUTAGE: '0s', LEADPUSH_LEASE: '1s', LEADPUSH_GUARD: 'off',
    LEADPUSH_MAX_LEAD_AGE: '1s', LEADPUSH_TIME_ZONE: 'America/Chicago', LEADPUSH_LOG_FORMAT: 'pretty', LEADPUSH_COMPRESS: 'off',
    LEADPUSH_SECRET_KEY: `${'A'.repeat(43)}=`,
  }) // biome-ignore format: a list
  assert.ok(isAccepted(said), said)
})

test('every setting takes the most that it may hold', async () => {
  const said = await checkSettings({
    LEADPUSH_RECEIVER_URL: 'http://[::1]:9000', LEADPUSH_DATA_SOURCE: '~'.repeat(100), LEADPUSH_CONCURRENCY: '256',
    LEADPUSH_RATE: '100000', LEADPUSH_TIMEOUT: '10m', LEADPUSH_RETRY_DELAY: '5m', LEADPUSH_OUTAGE: '1d', LEADPUSH_LEASE: '1h',
    LEADPUSH_GUARD: 'on', LEADPUSH_MAX_LEAD_AGE: '3650d', LEADPUSH_TIME_ZONE: 'UTC', LEADPUSH_COMPRESS: 'gzip',
    LEADPUSH_SECRET_KEY: '_'.repeat(43),
  }) // biome-ignore format: a list
  assert.ok(isAccepted(said), said)
})

for (const [what, values] of [
  ['less than', {
    LEADPUSH_DATA_SOURCE: 'two words', LEADPUSH_CONCURRENCY: '0', LEADPUSH_RATE: '0.0009', LEADPUSH_TIMEOUT: '99ms',
    LEADPUSH_RETRY_DELAY: '-1s', LEADPUSH_OUTAGE: '0', LEADPUSH_LEASE: '999ms', LEADPUSH_GUARD: 'OFF',
    LEADPUSH_MAX_LEAD_AGE: '0.9s', LEADPUSH_TIME_ZONE: 'Mars/Olympus', LEADPUSH_LOG_FORMAT: 'xml', LEADPUSH_HOME: '~/leadpush', LEADPUSH_COMPRESS: 'br',
  }],
  ['more than', {
    LEADPUSH_DATA_SOURCE: 'x'.repeat(101), LEADPUSH_CONCURRENCY: '257', LEADPUSH_RATE: '100001', LEADPUSH_TIMEOUT: '601s',
    LEADPUSH_RETRY_DELAY: '301s', LEADPUSH_OUTAGE: '25h', LEADPUSH_LEASE: '61m', LEADPUSH_GUARD: 'on!',
    LEADPUSH_MAX_LEAD_AGE: '3651d', LEADPUSH_TIME_ZONE: '+05:00', LEADPUSH_LOG_FORMAT: 'JSON',
  }],
] as const) {
  test(`what is ${what} a setting may hold is refused, all of them at once, with the value and what is allowed`, async () => {
    const said = await checkSettings({ LEADPUSH_RECEIVER_URL: url, ...values })
    for (const [name, value] of Object.entries(values)) {
      const line = said.split('\n').find((each) => each.includes(`${name}: `)) ?? ''
      assert.ok(line.includes(`holds ${JSON.stringify(value)}; allowed: `), `${name}:\n${said}`)
    }
  })
} // biome-ignore format: a table

test('a secret key that is a byte short or a byte long is refused, and not shown', async () => {
  for (const bytes of [31, 33]) {
    const value = Buffer.alloc(bytes, 7).toString('base64')
    const said = await checkSettings({ LEADPUSH_RECEIVER_URL: url, LEADPUSH_SECRET_KEY: value })
    assert.match(
      said,
      /LEADPUSH_SECRET_KEY: holds a value that is not allowed \(and not shown\); allowed: 32 bytes in base64/,
    )
    assert.ok(!said.includes(value))
  }
})

test('the age of the feed is 1 hour to a year, or off, for the commands that ask for it', async () => {
  const said = async (value: string) =>
    (await callProgram(['status', '--json'], { env: { LEADPUSH_FEED_MAX_AGE: value } })).stderr
  for (const value of ['1h', '365d', 'off']) assert.ok(isAccepted(await said(value)), value)
  for (const value of ['59m', '366d', '0', 'Off'])
    assert.match(await said(value), /LEADPUSH_FEED_MAX_AGE: holds ".*"; allowed: .* from 1h to 365d.*, or `off`/)
})

test('a setting that is missing is told with those that are wrong, and no secret is shown', async () => {
  const said = await checkSettings({
    DATABASE_URL: 'mysql://app:hidden-1@db/app',
    LEADPUSH_RATE: 'fast',
    LEADPUSH_PING_URL: 'https:///hidden-2/ping',
    HTTPS_PROXY: 'socks5://app:hidden-3@proxy',
  })
  for (const name of ['DATABASE_URL', 'LEADPUSH_RATE', 'LEADPUSH_PING_URL', 'HTTPS_PROXY', 'LEADPUSH_RECEIVER_URL']) {
    assert.match(said, new RegExp(`^(error:| {6}) ${name}: `, 'm'))
  }
  assert.doesNotMatch(said, /hidden/)
})

test('every command refuses an unknown name, with the one that may be meant', async () => {
  const commands = [
    'demo', 'migrate', 'leads import -', 'users import -', 'users list', 'users subscribe a@example.com',
    'users unsubscribe a@example.com', 'users remove a@example.com', 'push --all', 'push --resume', 'push --user a@example.com',
    'preview', 'status', 'receiver', 'probe', 'trigger', 'integrations list', 'db path', 'db url', 'db stop',
    'openapi', 'completion bash', 'settings',
  ] // biome-ignore format: a list
  for (const command of commands) {
    const { code, stdout, stderr } = await callProgram(command.split(' '), {
      env: { LEADPUSH_RECIEVER_URL: '', LEADPUSH_RECEIVER_URL: url },
    })
    assert.equal(code, 2, `${command}: ${stderr}`)
    assert.equal(stdout, '')
    assert.match(stderr, /^error: LEADPUSH_RECIEVER_URL: .*did you mean LEADPUSH_RECEIVER_URL\?/)
  }
})

test('a .env file fills in what the environment lacks, and the environment wins', async () => {
  const cwd = makeFolder({
    '.env': `LEADPUSH_RECEIVER_URL=${url}\nLEADPUSH_RATE=nothing # a number\nLEADPUSH_CONCURRENCY="0"\nOTHER=1\n`,
  })
  const said = await checkSettings({ LEADPUSH_RATE: '5' }, { cwd })
  assert.match(said, /LEADPUSH_CONCURRENCY: holds "0"/)
  assert.doesNotMatch(said, /LEADPUSH_RATE|RECEIVER_URL|OTHER/)
  assert.match(await checkSettings({ LEADPUSH_RATE: '' }, { cwd }), /LEADPUSH_RATE: holds "nothing"/)
})

test('an unknown name in .env is an error, and its log format holds for that', async () => {
  const cwd = makeFolder({ '.env': 'LEADPUSH_LOG_FORMAT=json\nLEADPUSH_TYPO=1\n' })
  const [line = '', ...rest] = (await checkSettings({ LEADPUSH_RECEIVER_URL: url }, { cwd })).split('\n')
  assert.match(JSON.parse(line).msg, /^LEADPUSH_TYPO: /)
  assert.deepEqual(rest, [''])
})

test('a .env file may begin with a byte order mark', async () => {
  // the mark became part of the first name, which was then unknown and ignored: of a DATABASE_URL, so the embedded database was used
  const cwd = makeFolder({ '.env': '\ufeffLEADPUSH_RATE=nothing\r\nLEADPUSH_LEASE=never\r\n' })
  const said = await checkSettings({ LEADPUSH_RECEIVER_URL: url }, { cwd })
  assert.match(said, /LEADPUSH_RATE: holds "nothing".*\n.*LEADPUSH_LEASE: holds "never"/)
})

test('a pipe is as good as a file; a file without end is an error', {
  skip: process.platform === 'win32',
}, async () => {
  const cwd = makeFolder({})
  for (const name of ['written', '.env']) assert.equal(spawnSync('mkfifo', [join(cwd, name)]).status, 0)
  const write = (name: string, text: string) => spawn('sh', ['-c', 'printf %s "$1" > "$0"', join(cwd, name), text])
  const writers = [write('written', 'nothing'), write('.env', 'LEADPUSH_LEASE=never\n')]
  const said = await checkSettings(
    { LEADPUSH_LOG_FORMAT: '', LEADPUSH_RATE_FILE: 'written', LEADPUSH_DATA_SOURCE_FILE: '/dev/zero' },
    { cwd },
  )
  for (const writer of writers) writer.kill('SIGKILL')
  assert.match(said, /LEADPUSH_RATE: holds "nothing"/)
  // the first of several reads drained it, and the second failed
  assert.match(said, /LEADPUSH_LEASE: holds "never"/)
  assert.match(said, /LEADPUSH_DATA_SOURCE_FILE: holds "\/dev\/zero", which cannot be read \(it holds more than/)
})

test('a .env that another user put there, or may write to, is not obeyed', async () => {
  // run by root in a shared folder, it sent keys and leads to a stranger's URL
  const stranger = 12_345
  const text = 'LEADPUSH_RATE=nothing\n'
  const cases: [RegExp, (cwd: string) => void][] = [
    [/\.env: .*chmod go-w/, (cwd) => chmodSync(join(cwd, '.env'), 0o664)],
  ]
  if (process.getuid?.() === 0) {
    cases.push([/\.env: .*another user \(12345\)/, (cwd) => chownSync(join(cwd, '.env'), stranger, stranger)])
    const link = (cwd: string) => {
      renameSync(join(cwd, '.env'), join(cwd, 'own'))
      symlinkSync('own', join(cwd, '.env'))
      lchownSync(join(cwd, '.env'), stranger, stranger)
    }
    cases.push([/\.env: .*another user \(12345\)/, link])
  }
  for (const [pattern, change] of cases) {
    const cwd = makeFolder({ '.env': text })
    const env = { LEADPUSH_RECEIVER_URL: url }
    assert.match(await checkSettings(env, { cwd }), /LEADPUSH_RATE: holds "nothing"/)
    change(cwd)
    const said = await checkSettings(env, { cwd })
    assert.match(said, pattern)
    assert.doesNotMatch(said, /nothing/)
  }
})

test('a working directory that was removed is told in the format of the log', async () => {
  // looking for the log's format threw, with a stack and exit 1
  const script = 'rmdir "$PWD" && exec "$0" "$1" status'
  const { status, stderr } = spawnSync('sh', ['-c', script, process.execPath, findProgram()], {
    cwd: makeFolder({}),
    env: cleanEnvironment({ LEADPUSH_LOG_FORMAT: 'json' }),
    encoding: 'utf8',
  })
  assert.deepEqual([status, JSON.parse(stderr).msg], [2, 'The working directory was removed.'])
})

test('the settings that an import needs to send triggers are reported with its other faults', async () => {
  const env = { LEADPUSH_LOG_FORMAT: 'xml', LEADPUSH_LEASE: 'never' }
  const { code, stderr } = await callProgram(['leads', 'import', '-', '--trigger'], { env })
  assert.equal(code, 2)
  assert.match(stderr, /LEADPUSH_LOG_FORMAT: .*\n.*LEADPUSH_LEASE: /)
})

test('NAME_FILE names a file that holds the value, for any setting, from the environment and from .env', async () => {
  const cwd = makeFolder({
    '.env': 'LEADPUSH_CONCURRENCY_FILE=concurrency\nLEADPUSH_RATE=1\n',
    receiver: `${url}\n`,
    concurrency: '300\n',
    rate: '0',
    empty: '\n',
  })
  const env = {
    LEADPUSH_RECEIVER_URL_FILE: join(cwd, 'receiver'),
    LEADPUSH_RATE_FILE: 'rate',
    DATABASE_URL_FILE: 'empty',
  }
  const said = await checkSettings(env, { cwd })
  assert.match(said, /LEADPUSH_CONCURRENCY: holds "300"/)
  assert.match(said, /LEADPUSH_RATE: holds "0"/)
  assert.doesNotMatch(said, /RECEIVER_URL|DATABASE_URL/)
})

test('a NAME_FILE that cannot be read, or stands beside its NAME, is an error', async () => {
  const said = await checkSettings({
    LEADPUSH_RECEIVER_URL_FILE: 'nowhere',
    LEADPUSH_RATE: '1',
    LEADPUSH_RATE_FILE: 'rate',
    LEADPUSH_NOPE_FILE: 'x',
  })
  assert.match(said, /LEADPUSH_RECEIVER_URL_FILE: holds "nowhere", which cannot be read \(ENOENT\)/)
  assert.match(said, /LEADPUSH_RATE, LEADPUSH_RATE_FILE: both are set/)
  assert.match(said, /LEADPUSH_NOPE_FILE: there is no such setting/)
})

test('a NAME_FILE that holds the secret itself does not show it', async () => {
  // the key, and the password in the URL, were shown as a file that cannot be read
  const pem = `-----BEGIN PRIVATE KEY-----\n${'hidden+4'.repeat(40)}`
  for (const [name, text] of [
    ['LEADPUSH_SECRET_KEY_FILE', `hidden1${'A'.repeat(36)}=`],
    ['LEADPUSH_SECRET_KEY_FILE', `/hidden2${'/A'.repeat(17)}A=`],
    ['LEADPUSH_RECEIVER_URL_FILE', 'https://receiver.example/hidden-3'],
    ['LEADPUSH_CLIENT_KEY_FILE', pem],
    ['DATABASE_URL_FILE', 'postgresql://app:hidden-5@db/app'],
    ['DATABASE_URL_FILE', '//app:hidden-6@db/app'],
  ] as const) {
    const said = await checkSettings({ [name]: text })
    assert.match(said, new RegExp(`${name}: holds no name of a file \\(it is not shown.*cannot be read \\(EN`), name)
    const { stdout, stderr } = await callProgram(['validate', '--quick'], { env: { [name]: text } })
    assert.doesNotMatch(`${said}${stdout}${stderr}`, /hidden/)
  }
  const cwd = makeFolder({})
  mkdirSync(join(cwd, 'keys'))
  for (const path of ['/etc/nowhere/Key1', './Key1', '../Key1', '~/Key1', 'keys/Key1', 'keys', 'key.pem']) {
    const said = await checkSettings({ LEADPUSH_CLIENT_KEY_FILE: path }, { cwd })
    assert.ok(said.includes(`LEADPUSH_CLIENT_KEY_FILE: holds "${path}", which cannot be read`), said)
  }
})

test('a NAME_FILE that is empty sets nothing: a setting that is needed is told to be missing', async () => {
  // the push began with the URL '', and used up an attempt; serve began to listen
  const cwd = makeFolder({ receiver: ' \n' })
  for (const args of [
    ['push', '--all'],
    ['probe', '--yes'],
    ['serve', '--port', '0'],
  ]) {
    const { code, stdout, stderr } = await callProgram(args, { cwd, env: { LEADPUSH_RECEIVER_URL_FILE: 'receiver' } })
    assert.deepEqual([code, stdout], [2, ''], stderr)
    assert.match(stderr, /LEADPUSH_RECEIVER_URL_FILE: holds \\?"receiver\\?", which is empty; /)
  }
})

test('an abbreviation of a time zone is refused unless it is a name of the IANA list', async () => {
  // IST turned the week by Israel's clock, and times were shown by India's
  for (const name of ['IST', 'PST', 'cst', 'JST', 'BST']) {
    const said = await checkSettings({ LEADPUSH_RECEIVER_URL: url, LEADPUSH_TIME_ZONE: name })
    assert.match(said, new RegExp(`LEADPUSH_TIME_ZONE: holds "${name}"; allowed: a time zone name of the IANA list`))
  }
  for (const name of ['EST', 'gmt', 'PST8PDT', 'Asia/Calcutta', 'US/Pacific', 'GB', 'NZ']) {
    const said = await checkSettings({ LEADPUSH_RECEIVER_URL: url, LEADPUSH_TIME_ZONE: name })
    assert.ok(isAccepted(said), said)
  }
})

test('a flag wins over its setting, and is checked like it', async () => {
  const env = { LEADPUSH_RECEIVER_URL: url, LEADPUSH_CONCURRENCY: '0', LEADPUSH_RATE: '0' }
  const good = await checkSettings(env, { flags: ['--concurrency', '256', '--rate', '0.5'] })
  assert.ok(isAccepted(good), good)
  const bad = await checkSettings({ LEADPUSH_RECEIVER_URL: url }, { flags: ['--concurrency', '257', '--rate', ''] })
  assert.match(bad, /--concurrency: holds "257"; allowed: /)
  assert.match(bad, /--rate: holds ""; allowed: /)
})

test('a client certificate is set with its key, both readable and one pair, before anything is begun', async () => {
  const pem = (file: string) => readFileSync(certificate(file), 'utf8')
  const [cert, key, otherKey] = ['client.pem', 'client.key', 'localhost.key'].map(pem) as [string, string, string]
  const said = (env: Record<string, string>) => checkSettings({ LEADPUSH_RECEIVER_URL: url, ...env })
  const good = await said({ LEADPUSH_CLIENT_CERT: `${cert}${pem('client-ca.pem')}`, LEADPUSH_CLIENT_KEY: key })
  assert.ok(isAccepted(good), good)
  const cases: [Record<string, string>, RegExp][] = [
    [{ LEADPUSH_CLIENT_CERT: cert }, /LEADPUSH_CLIENT_KEY: is not set, but LEADPUSH_CLIENT_CERT is; set both or none/],
    [{ LEADPUSH_CLIENT_KEY: key }, /LEADPUSH_CLIENT_CERT: is not set, but LEADPUSH_CLIENT_KEY is; set both or none/],
    [{ LEADPUSH_CLIENT_CERT: key, LEADPUSH_CLIENT_KEY: cert }, /_CERT: holds a value that .* not shown.*a certificate in PEM.*\n.*_KEY: .* without a passphrase/],
    [{ LEADPUSH_CLIENT_CERT: cert, LEADPUSH_CLIENT_KEY: otherKey }, /LEADPUSH_CLIENT_KEY: does not belong to the certificate in LEADPUSH_CLIENT_CERT/],
    [{ LEADPUSH_CLIENT_CERT: cert, LEADPUSH_CLIENT_KEY_FILE: certificate('localhost.key') }, /LEADPUSH_CLIENT_KEY: does not belong/],
    [{ LEADPUSH_CLIENT_CERT: `${cert}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n`, LEADPUSH_CLIENT_KEY: key }, /TLS does not take them \(ERR_\w+\)/],
  ]
  const secrets = [key, otherKey].map((text) => text.split('\n')[1] ?? '')
  for (const [env, words] of cases) {
    const text = await said(env)
    assert.match(text, words)
    for (const secret of secrets) assert.ok(!text.includes(secret))
  }
  for (const command of ['serve', 'probe --yes', 'users subscribe a@example.com']) {
    const { code, stderr } = await callProgram(command.split(' '), { env: { LEADPUSH_RECEIVER_URL: url, LEADPUSH_CLIENT_CERT: cert } })
    assert.equal(code, 2, command)
    assert.match(stderr, /LEADPUSH_CLIENT_KEY: is not set/, command)
  }
}) // biome-ignore format: a table

test('settings shows each setting in force with where it comes from, and no secret', async () => {
  const cwd = makeFolder({
    '.env': 'LEADPUSH_LEASE=90s\nLEADPUSH_GUARD_FILE=guard\nLEADPUSH_RATE=7\nNO_PROXY=.inside\n',
    guard: 'off\n',
    database: 'postgresql://app:hidden-1@db.example/app\n',
  })
  const env = {
    LEADPUSH_RATE: '5', LEADPUSH_TIMEOUT: '10s', DATABASE_URL_FILE: 'database', LEADPUSH_HOME: '/data',
    LEADPUSH_RECEIVER_URL: 'https://receiver.example:8443/hidden-2?token=hidden-3', HTTPS_PROXY: 'proxy:hidden-4@proxy.example:3128',
  } // biome-ignore format: a list
  const { code, json, stdout } = await callProgram(['settings', '--json'], { env, cwd })
  assert.equal(code, 0)
  const by = Object.fromEntries(json.map(({ name, ...rest }) => [name, rest]))
  const common = { type: 'setting', by: null, set: true, secret: false, host: null }
  const expected = {
    LEADPUSH_RATE: { ...common, value: '5', from: 'environment' },
    LEADPUSH_LEASE: { ...common, value: '90s', from: '.env' },
    LEADPUSH_GUARD: { ...common, value: 'off', from: '.env', by: join(cwd, 'guard') },
    LEADPUSH_OUTAGE: { ...common, value: '10m', from: 'default' },
    LEADPUSH_PING_URL: { ...common, value: null, from: 'default', set: false, secret: true },
    DATABASE_URL: { ...common, value: null, from: 'environment', by: join(cwd, 'database'), secret: true },
    LEADPUSH_RECEIVER_URL: { ...common, value: null, from: 'environment', secret: true, host: 'receiver.example:8443' },
    HTTPS_PROXY: { ...common, value: null, from: 'environment', secret: true, host: 'proxy.example:3128' },
    NO_PROXY: { ...common, value: '.inside', from: '.env' },
  }
  for (const [name, setting] of Object.entries(expected)) assert.deepEqual(by[name], setting, name)
  const text = await callProgram(['settings'], { env, cwd })
  assert.equal(text.code, 0)
  assert.match(text.stdout, /^LEADPUSH_GUARD +off +\.env, LEADPUSH_GUARD_FILE: .*guard$/m)
  assert.match(text.stdout, /^LEADPUSH_RECEIVER_URL +receiver\.example:8443, the rest is not shown +environment$/m)
  assert.match(text.stdout, /^LEADPUSH_CLIENT_KEY +not set +default$/m)
  assert.doesNotMatch(stdout + text.stdout, /hidden/)
  const wrong = await callProgram(['settings'], {
    env: { ...env, LEADPUSH_LEASE: 'never', HTTP_PROXY: 'ftp://x' },
    cwd,
  })
  assert.equal(wrong.code, 2)
  assert.match(wrong.stderr, /LEADPUSH_LEASE: holds "never".*\n.*HTTP_PROXY: /)
})

// The folder for an embedded database was looked for even where DATABASE_URL named another: a user whom the system does not
// know, and who has no HOME, got a fault of the program for every command.
test('a user whom the system does not know works with DATABASE_URL, and is told what to set without it', (t) => {
  if (process.getuid?.() !== 0) return t.skip('only root can become another user')
  const run = (env: Record<string, string>, ...args: string[]) =>
    spawnSync(process.execPath, [findProgram(), ...args], {
      uid: 54_321,
      gid: 54_321,
      cwd: '/',
      env: { PATH: process.env.PATH, ...env },
      encoding: 'utf8',
      timeout: 240_000,
    })
  if (run({}, '--version').status !== 0) return t.skip('another user may not read this checkout')
  const away = run({ DATABASE_URL: 'postgresql://127.0.0.1:1/x' }, 'users', 'list')
  assert.equal(away.status, 3, away.stderr)
  const none = run({}, 'users', 'list')
  assert.equal(none.status, 2, none.stderr)
  assert.match(none.stderr, /LEADPUSH_HOME: is not set, and this user has no home folder; set it, or DATABASE_URL/)
  const checked = run({}, 'validate', '--quick', '--json')
  assert.match(checked.stdout, /"path":"LEADPUSH_HOME","message":"is not set, and this user has no home folder/)
  assert.match(checked.stdout, /"message":"9 checks of the database: LEADPUSH_HOME is wrong"/)
})

test('with JSON lines everything on standard error is a JSON object, for every error', async () => {
  const cases: [string[], Record<string, string>, number][] = [
    [['push', '--nosuch'], {}, 2],
    [['nosuch'], {}, 2],
    [[], {}, 2],
    [['users'], {}, 2],
    [['push', '--all', '--limit', '0'], {}, 2],
    [['push', '--all', '--user', 'a@example.com'], {}, 2],
    [['leads', 'import', '/nowhere/leads.csv'], {}, 2],
    [['users', 'list'], { DATABASE_URL: 'postgresql://a:b@127.0.0.1:1/x?sslmode=require' }, 3],
    [['push', '--all'], { LEADPUSH_RATE: 'x', LEADPUSH_LEASE: 'y' }, 2],
  ]
  for (const [args, env, expected] of cases) {
    const { code, stdout, stderr } = await callProgram(args, { env: { LEADPUSH_LOG_FORMAT: 'json', ...env } })
    assert.equal(code, expected, stderr)
    assert.equal(stdout, '')
    const lines = stderr.trimEnd().split('\n')
    for (const line of lines) assert.equal(typeof JSON.parse(line).msg, 'string', line)
  }
})

test('colour and motion need a terminal; help and version go to standard output', async () => {
  for (const args of [['--help'], ['push', '--help'], ['help', 'users'], ['--version']]) {
    const { code, stdout, stderr } = await callProgram(args)
    assert.deepEqual([code, stderr], [0, ''])
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
    assert.doesNotMatch(stdout, /\u001b/)
  }
})
