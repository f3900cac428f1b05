/** Mistakes of an operator: each gets a sentence with what to do and the right exit code, never a stack. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openDatabase } from '../../src/db/open.ts'
import { createDatabase } from '../support/database.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { callProgram, runProgram, testHome } from '../support/program.ts'

const { url } = await createDatabase()
// without one an import would make the embedded database
const own = { DATABASE_URL: url }

async function meets(
  args: string[],
  env: Record<string, string>,
  code: number,
  ...patterns: RegExp[]
): Promise<string> {
  const run = env.TMPDIR ? runProgram : callProgram
  const ended = await run(args, { env })
  const said = `${args.join(' ')}\n${ended.stderr}`
  assert.equal(ended.code, code, said)
  for (const pattern of patterns) assert.match(ended.stderr, pattern)
  assert.doesNotMatch(ended.stderr, /^ +at |fault of leadpush/m, said)
  return ended.stderr
}

test('a word that is no command, option or argument is told with what was meant and where the help is', async () => {
  await meets(['psuh'], {}, 2, /^error: unknown command 'psuh'; did you mean push\?\n {7}Run `leadpush --help` /)
  await meets(
    ['push', '--al'],
    {},
    2,
    /^error: unknown option '--al'; did you mean --all\?\n {7}Run `leadpush push --help` /,
  )
  // it was told that 1 or more is allowed
  await meets(
    ['leads', 'list', '--limit', '1000000000'],
    {},
    2,
    /--limit: holds "1000000000"; allowed: .* from 1 to 999999999\n/,
  )
  // a page of help came, and nothing told why
  await meets(['help', 'improt'], {}, 2, /^error: unknown command 'improt'\n {7}Run `leadpush --help` /)
  await meets(['leads', 'help', 'improt'], {}, 2, /^error: unknown command 'improt'\n {7}Run `leadpush leads --help` /)
  // the help of `leads` was named, which has none of the options of `leads forget`
  await meets(['leads', 'forget', '--hrefs', 'x'], {}, 2, /mean --href\?\n {7}Run `leadpush leads forget --help` /)
  await meets(['users', '--foo', 'list'], {}, 2, /'--foo'\n {7}Run `leadpush users --help` /)
  await meets(
    ['users', 'import', writeInput('users.xls', 'x')],
    own,
    2,
    /users\.xls: its name does not tell its format\n.*\.ndjson/,
  )
  // under a name of its own a workbook was a file of an unknown format
  const book = 'PK\u0003\u0004\u0014\u0000[Content_Types].xml xl/workbook.xml'
  const isBook =
    /: it is a workbook of Excel \(\.xlsx\), not the text of one\n {7}Nothing of this file went in\. Save it as CSV UTF-8 and import that\.\n$/
  for (const [kind, name] of ['leads', 'users'].flatMap((kind) =>
    ['book.xlsx', 'book.csv', 'book', 'book.dat'].map((name) => [kind, name] as const),
  ))
    await meets([kind, 'import', writeInput(name, book)], own, 1, isBook)
  // a file of the other kind was to be mapped, with the owner of a house as a user
  const listings =
    /: it has listings, not users: it has an href and no email\n {7}Nothing of this file went in\. Import it with `leadpush leads import`\.\n$/
  for (const [name, text] of [
    ['leads.csv', 'url,zip,price,contactEmail\nhttps://example.com/1,78704,5,owner@example.com\n'],
    ['leads.ndjson', '{"href":"https://example.com/1","postalCode":"78704"}\n'],
  ] as const)
    await meets(['users', 'import', writeInput(name, text)], own, 1, listings)
  for (const head of ['email,receiverApiKey', 'email;api key', 'Email,Service-Key'])
    await meets(
      ['leads', 'import', writeInput('users.csv', `${head}\nme@example.com${head[5]}one\n`)],
      own,
      1,
      /: it has users, not listings: .*Import it with `leadpush users import`/s,
    )
  // commander took the second user and forgot the first
  const two = ['push', '--user', 'a@example.com', '--user', 'b@example.com']
  await meets(
    two,
    {},
    2,
    /^error: option '--user <email>' was given twice: it takes one value\n {7}Run `leadpush push --help` /,
  )
  // of a number the last one was kept in silence
  await meets(['push', '--all', '--limit', '2', '--limit', '3'], {}, 2, /^error: option '--limit <n>' was given twice/)
})

test('what a command cannot do with is wrong usage, before its database is looked for', async () => {
  const file = writeInput('one.csv', 'href,postalCode\nhttps://example.com/1,78704\n')
  const env = { DATABASE_URL: 'postgresql://127.0.0.1:1/none', LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1' }
  const wrong: [args: string, said: RegExp][] = [
    ['migrate now', /too many arguments/],
    ['demo now', /too many arguments/],
    ['openapi now', /too many arguments/],
    ['settings now', /too many arguments/],
    [`leads import ${file} --map-file /nowhere.map`, /--map-file \/nowhere\.map: there is no such file/],
    [`leads import ${file} --encoding klingon`, /--encoding klingon: there is no such encoding/],
    [`leads import ${file} --trigger --dry-run`, /--trigger and --dry-run exclude each other/],
    ['leads list --where nope=x', /--where nope=x: a lead has no field nope/],
    ['leads count --where city', /--where city: must be FIELD=VALUE/],
    ['leads show', /missing required argument 'href'/],
    [`users import ${file} --map nope=x`, /--map nope=x: a user has no field nope/],
    [`users import ${file} --map-file /nowhere.map`, /--map-file \/nowhere\.map: there is no such file/],
    ['users list --user a@example.com', /unknown option '--user'/],
    ['users show', /missing required argument 'email'/],
    ['integrations list now', /too many arguments/],
    ['integrations rotate', /missing required argument 'id'/],
    ['push --all --concurrency 0', /--concurrency: holds "0"/],
    ['push --all --rate fast', /--rate: holds "fast"/],
    ['push --accept', /What shall be pushed\?/],
    ['preview --unknown', /--unknown goes with --failed only/],
    ['deliveries show', /missing required argument 'key'/],
    ['status --check --user a@example.com', /--check and --user exclude each other/],
    ['report', /required option '--out <file>' not specified/],
    ['prune', /required option '--older-than <duration>' not specified/],
    ['serve --port 65536', /--port: holds \\?"65536/],
    ['serve --host', /option '--host <address>' argument missing/],
    ['receiver --port x', /--port: holds "x"/],
    ['probe --user', /option '--user <email>' argument missing/],
    ['db path now', /too many arguments/],
    ['db url now', /too many arguments/],
    ['db stop now', /too many arguments/],
    ['db backup', /missing required argument 'file'/],
    ['db restore', /missing required argument 'file'/],
  ]
  for (const [args, said] of wrong) await meets(args.split(' '), env, 2, said)
})

test('the value of an option that is unknown, or takes none, is not shown', async () => {
  // `--apikey=KEY` was shown whole, and nothing was found that might be meant
  for (const [args, pattern] of [
    [
      ['create', '--user', 'a@example.com', '--apikey=hidden'],
      /^error: unknown option '--apikey'; did you mean --api-key\?\n/,
    ],
    [['create', '--user', 'a@example.com', '--zzzz=hidden=='], /^error: unknown option '--zzzz'\n/],
    [['revoke', '1', '--json=hidden'], /^error: option '--json' takes no value\n/],
  ] as const) {
    assert.doesNotMatch(await meets(['integrations', ...args], {}, 2, pattern), /hidden/)
  }
})

test('with JSON lines a command that is not given is one line, not a page of help', async () => {
  const said = await meets(['leads'], { LEADPUSH_LOG_FORMAT: 'json' }, 2)
  const lines = said.trimEnd().split('\n')
  assert.equal(lines.length, 1)
  const { level, msg, hint } = JSON.parse(lines[0] ?? '')
  assert.deepEqual([level, msg], ['error', 'no command was given'])
  assert.match(hint, /leadpush leads --help/)
})

test('a DATABASE_URL that is no URL, often for a character of its password, is a wrong setting, and is not shown', async () => {
  for (const url of ['postgresql://app:s3cr#et@localhost/app', 'postgresql://app:s3cr/et@localhost/app', 'postgresql://app:s3cret@localhost:99999/app']) {
    const said = await meets(['status'], { DATABASE_URL: url }, 2, /^error: DATABASE_URL: holds a value .* not shown.*%23/)
    assert.doesNotMatch(said, /s3cr/)
  }
}) // biome-ignore format: a list

test('a DATABASE_URL without a host is one', async () => {
  await meets(['status'], { DATABASE_URL: 'postgresql://app@/app?host=/nonexistent' }, 3, /ENOENT/)
})

test('a database of another program is left alone, also where its table of migrations has the name of ours', async (t) => {
  const database = await createDatabase(t, { empty: true })
  const env = { DATABASE_URL: database.url }
  const opened = await openDatabase({ databaseUrl: database.url, home: '' }, { schema: 'any' })
  t.after(() => opened.close())
  await opened.pool.query('create table schema_migrations (version text primary key)')
  for (const command of ['status', 'migrate']) {
    await meets([command], env, 2, /tables of another program/, /a database of its own; nothing was changed/)
  }
  await opened.pool.query('drop table schema_migrations')
  await opened.pool.query('create table users (id integer)')
  await meets(['migrate'], env, 2, /tables of another program .*"users" already exists/)
})

test('rights that are missing, a time limit, and a server that only reads, are trouble with the database', async (t) => {
  const database = await createDatabase(t)
  const { pool } = await database.open()
  const role = `stranger_${process.pid}`
  const withOptions = (options: string) => ({ DATABASE_URL: `${database.url}?options=${encodeURIComponent(options)}` })
  await pool.query(`create role ${role}`)
  try {
    await meets(['status'], withOptions(`-c role=${role}`), 3, /permission denied/, /must own the tables/)
  } finally {
    await pool.query(`drop role ${role}`)
  }
  const other = await pool.connect()
  await other.query('begin')
  await other.query('lock table users')
  // limits of a role come as trouble of the database, not as a fault of the program
  await meets(
    ['users', 'list'],
    withOptions('-c statement_timeout=100'),
    3,
    /statement timeout/,
    /statement_timeout = 0/,
  )
  await other.query('rollback')
  other.release()
  const readOnly = { ...withOptions('-c default_transaction_read_only=on'), LEADPUSH_DATABASE_AWAY: '0s' }
  await meets(['leads', 'import', '-'], readOnly, 3, /read-only/, /primary server/)
})

test('a file whose columns have other names is met with the command that would fit', async (t) => {
  const database = await createDatabase(t)
  const env = { DATABASE_URL: database.url }
  const leads = writeInput('named.csv', 'property_url,zip\nhttps://example.com/1,78704\n')
  const fits = `leadpush leads import ${leads} --map href=property_url --map postalCode=zip`
  await meets(['leads', 'import', leads], env, 1, /no column of its header is href or postalCode/, new RegExp(fits))
  await meets(
    ['leads', 'import', leads, '--map=href=property_url'],
    env,
    1,
    /is postalCode$/m,
    /--map postalCode=zip$/m,
  )
  // the same was said where the columns were right, and what they held was wrong
  for (const [name, href] of [
    ['control.csv', '\u0001'],
    ['relative.csv', '/1'],
  ] as const) {
    const wrong = await callProgram(['leads', 'import', writeInput(name, `href,postalCode\n${href},78704\n`)], { env })
    assert.equal(wrong.code, 1)
    assert.doesNotMatch(wrong.stdout, /--map/)
  }
})

test('a lone % in DATABASE_URL is itself; a name that no file can have, and a pipe, are wrong usage', async (t) => {
  await meets(['status'], { DATABASE_URL: 'postgresql://app@127.0.0.1:1/a%zz' }, 3, /ECONNREFUSED/)
  const { url } = await createDatabase(t)
  const args = ['leads', 'import', writeInput('none.ndjson', ''), '--rejects', 'x'.repeat(300)]
  await meets(args, { DATABASE_URL: url }, 2, /--rejects x+ cannot be written: its name is too long\./)
  const pipe = join(testHome(), 'rejects')
  assert.equal(spawnSync('mkfifo', [pipe]).status, 0)
  await meets(
    [...args.slice(0, -1), pipe],
    { DATABASE_URL: url },
    2,
    /--rejects \S+ cannot be written: it is not a file/,
  )
})

test('a file for rejected records that is to be imported is not overwritten', async (t) => {
  const database = await createDatabase(t)
  const leads = writeInput('twice.ndjson', '{"href":"https://example.com/1"}\n')
  const args = ['leads', 'import', leads, '--rejects', join(leads, '..', '.', 'twice.ndjson')]
  await meets(args, { DATABASE_URL: database.url }, 2, /is the file to be imported/)
  assert.equal(readFileSync(leads, 'utf8'), '{"href":"https://example.com/1"}\n')
  // a file of the name - held what was meant to be seen, contacts and keys
  await meets(
    [...args.slice(0, -1), '-'],
    { DATABASE_URL: database.url },
    2,
    /^error: --rejects - cannot be written: it is no file/,
  )
})

test('rejected records, which hold receiver keys, are kept for their owner alone', async (t) => {
  const database = await createDatabase(t)
  const users = writeInput('users.ndjson', '{"email":"wrong","receiverApiKey":"key-1"}\n')
  const rejects = join(testHome(), 'rejects.ndjson')
  const ended = await callProgram(['users', 'import', users, '--rejects', rejects], {
    env: { DATABASE_URL: database.url },
  })
  assert.equal(ended.code, 1)
  assert.equal(readFileSync(rejects, 'utf8'), readFileSync(users, 'utf8'))
  assert.equal(statSync(rejects).mode & 0o777, 0o600)
})

test('rejected records of an array stand on a line each, so that they can be mended and imported', async (t) => {
  const { url } = await createDatabase(t)
  const rejects = join(testHome(), 'array-rejects.ndjson')
  for (const [what, records, good] of [
    [
      'users',
      [{ email: 'wrong' }, { email: 'new@example.com', queries: [] }],
      { email: 'a@example.com', receiverApiKey: 'k' },
    ],
    [
      'leads',
      [{ price: 1 }, { href: 'https://example.com/1' }],
      { href: 'https://example.com/2', postalCode: '78704' },
    ],
  ] as const) {
    const file = writeInput(`array-${what}.json`, JSON.stringify([...records, good], null, 2))
    const { code } = await callProgram([what, 'import', file, '--rejects', rejects], { env: { DATABASE_URL: url } })
    assert.equal(code, 1)
    const kept = readFileSync(rejects, 'utf8').trimEnd().split('\n')
    assert.deepEqual(
      kept.map((line) => JSON.parse(line)),
      records,
    )
  }
})

test('a demo without a folder for temporary files says so', async () => {
  await meets(['demo'], { TMPDIR: join(testHome(), 'nowhere') }, 2, /temporary folder/, /TMPDIR/)
})

test('a full disk under the file for rejected records ends the import, in a sentence', async (t) => {
  const database = await createDatabase(t)
  const env = { DATABASE_URL: database.url }
  const few = writeInput('few.ndjson', toLines([{ price: 1 }, { href: 'https://example.com/1', postalCode: '78704' }]))
  await meets(
    ['leads', 'import', few, '--rejects', '/dev/full'],
    env,
    1,
    /--rejects \/dev\/full cannot be written: there is no room left\./,
    /Nothing of this file went in/,
  )
})
