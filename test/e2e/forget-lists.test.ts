/** `leads forget --list`, `--drop`, `--redact` and `--dry-run` (contract 4.19). */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { hash } from 'node:crypto'
import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { standardiseEmail, standardisePhone } from '../../src/leads/drop-format.ts'
import { makeGate } from '../support/gate.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, deliveriesOf, type House, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { startProgram } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const listing = (name: string | number, more: object = {}) => ({ href: hrefOf(name), postalCode: '78704', ...more })
const emailHash = (text: string) => hash('sha256', standardiseEmail(text), 'base64')
const phoneHash = (text: string) => hash('sha256', standardisePhone(text), 'base64')

/** A folder of its own for one download: its files have fixed names. */
function download(files: Record<string, string>): { paths: string[]; folder: string; responses: string } {
  const folder = mkdtempSync(join(dirname(writeInput('x', '')), 'download-'))
  const put = (name: string, text: string) => writeInput(join(folder.split('/').at(-1) ?? '', name), text)
  const responses = mkdtempSync(join(folder, 'responses-'))
  return { paths: Object.entries(files).map(([name, text]) => put(name, text)), folder, responses }
}

const csv = (header: string, rows: readonly (readonly string[])[]) =>
  [header, ...rows.map((row) => row.join(','))].map((line) => `${line}\n`).join('')

async function forget(house: House, args: readonly string[], input?: string) {
  const { code, json, stdout, stderr } = await house.call(
    ['leads', 'forget', ...args, '--json'],
    input === undefined ? {} : { input },
  )
  assert.ok(!/owner|0143/.test(stdout + stderr), stdout + stderr)
  return { code, stderr, counts: json[0] ?? {}, responses: json.slice(1) }
}

async function importAgain(house: House, records: readonly object[], more: string[] = []) {
  const file = writeInput('again.ndjson', toLines(records))
  const { code, json } = await house.call(['leads', 'import', file, '--json', ...more])
  const { inserted, updated, unchanged, rejected, repeated, erased } = json.at(-1)
  return { code, counts: [inserted, updated, unchanged, rejected, repeated, erased] }
}

async function storedLeads(house: House): Promise<Record<string, Record<string, unknown>>> {
  const opened = await house.database.open()
  const { rows } = await opened.pool.query(
    'select v.json from leads l join lead_versions v on v.id = l.version_id order by l.id',
  )
  await opened.close()
  return Object.fromEntries(
    rows.map(({ json }) => {
      const lead = JSON.parse(json)
      return [lead.href.split('/').at(-1), lead]
    }),
  )
}

/** What a process has open. */
function readLinks(pid: number): string[] {
  const folder = `/proc/${pid}/fd`
  return readdirSync(folder).flatMap((fd) => {
    try {
      return [readlinkSync(join(folder, fd))]
    } catch {
      return []
    }
  })
}

/** Every row of every table, to see that nothing was written. */
async function everything(house: House): Promise<string> {
  const opened = await house.database.open()
  const { rows } = await opened.pool.query(
    `select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace and relname not in ('postal_codes', 'workers')`,
  )
  const tables: string[] = []
  for (const { relname } of rows) {
    const { rows: all } = await opened.pool.query(`select t::text as row from ${relname} t order by 1`)
    tables.push(`${relname}: ${all.map(({ row }) => row).join('\n')}`)
  }
  await opened.close()
  return tables.join('\n')
}

const gone = {
  newlyRefused: true,
  redacted: 0,
  triggers: 0,
  ended: 0,
  anew: 0,
  underWay: 0,
  sent: 0,
  sentComplete: true,
}
const real = { type: 'forget', dryRun: false, ...gone }

test('a list of URLs, e-mail addresses and phone numbers erases what it names and keeps it out', async () => {
  const house = await buildHouse()
  const many = Array.from({ length: 3_000 }, (_, at) =>
    listing(`many-${at}`, { contactEmail: `owner${at}@example.com` }),
  )
  const records = [
    listing('href', { contactEmail: 'other@example.com' }),
    listing('email', { contactName: 'The Owner <Owner-1@Example.com>' }),
    listing('phone', { contactPhone: '+1 (512) 555-0143 ext 2' }),
    listing('kept', { contactPhone: '512-555-0199', description: 'owner-1@example.com' }),
    listing('large', { contactName: `${'x '.repeat(10_000)}owner-1@example.com` }),
    listing('q"uote,"postalCode":'),
    ...many,
  ]
  await house.put('leads', records)
  await house.put('leads', [listing('email', { price: 5 })])
  const emails = many.slice(0, 2_000).map((_, at) => `owner${at}@example.com`)
  const list = writeInput(
    'list.txt',
    `${hrefOf('href')}\r\n${hrefOf('q"uote,"postalCode":')}\n\nowner-1@example.com\n512 555 0143\n${emails.join('\n')}`,
  )
  const expected = { read: 2_004, added: 2_004, rejected: 0, removed: 0, listings: 2_005, versions: 2_006 }
  const before = await everything(house)
  assert.deepEqual(await forget(house, ['--list', list, '--dry-run']), {
    code: 0,
    stderr: '',
    counts: { ...real, ...expected, dryRun: true },
    responses: [],
  })
  assert.equal(await everything(house), before)
  assert.deepEqual((await forget(house, ['--list', list])).counts, { ...real, ...expected })
  assert.deepEqual(await importAgain(house, records), { code: 0, counts: [0, 0, 1_001, 0, 0, 2_005] })
  // again: nothing is found, which is no error here
  const again = await forget(house, ['--list', '-'], readFileSync(list, 'utf8'))
  assert.deepEqual([again.code, again.counts.listings, again.counts.added, again.counts.newlyRefused], [0, 0, 0, false])
})

test('a list is read from a named pipe until its writer has gone, and a stop ends the wait for one', {
  skip: process.platform !== 'linux',
}, async () => {
  const house = await buildHouse({ leads: ['one', 'two', 'three'].map((name) => listing(name)) })
  const pipe = join(dirname(writeInput('x', '')), 'list.pipe')
  assert.equal(spawnSync('mkfifo', [pipe]).status, 0)
  const writer = openSync(pipe, constants.O_RDWR)
  writeSync(writer, `${hrefOf('one')}\n${hrefOf('tw')}`)
  const { pool, close } = await house.database.open()
  const start = async () => {
    const program = startProgram(['leads', 'forget', '--list', pipe, '--json'], { env: house.env })
    await until('it has opened the pipe', () => readLinks(program.pid).includes(pipe))
    return program
  }
  const stopped = await start()
  stopped.kill('SIGTERM')
  const ended = await stopped.done
  assert.equal(ended.code, 143, ended.stderr)
  const { rows } = await pool.query('select count(*)::integer as n from leads')
  await close()
  assert.equal(rows[0].n, 3)

  const forgetting = await start()
  writeSync(writer, `${hrefOf('one')}\n${hrefOf('two')}\n`)
  closeSync(writer)
  const { code, json, stderr } = await forgetting.done
  assert.deepEqual([code, json[0]?.listings], [0, 2], stderr)
  assert.deepEqual(Object.keys(await storedLeads(house)), ['three'])
})

test('a line that is none of these is told by its number, and the others are done', async () => {
  const house = await buildHouse({ leads: [listing('email', { contactEmail: 'owner-1@example.com' })] })
  const bad = Array.from({ length: 11 }, () => 'owner')
  const list = writeInput('list.txt', `name,email\nowner-1@example.com\nhttps://\n${bad.join('\n')}\n`)
  const { code, stderr, counts } = await forget(house, ['--list', list])
  assert.deepEqual([code, counts.listings, counts.read, counts.rejected], [1, 1, 14, 13])
  assert.match(stderr, /13 lines held neither .*: 1, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 3 more\./)
  const empty = await forget(house, ['--list', writeInput('empty.txt', '')])
  assert.deepEqual([empty.code, empty.counts.read, empty.counts.listings], [0, 0, 0])
})

test('consumer deletion lists erase what matches and get a response for each, byte for byte', async () => {
  const house = await buildHouse({
    leads: [
      listing('email', { contactEmail: 'Owner-1@Example.com' }),
      listing('name', { contactName: 'Owner, owner-1@example.com' }),
      listing('blank', { contactEmail: 'owner-2 @ example.com' }),
      listing('phone', { contactPhone: '+1 (512) 555-0143 ext 2' }),
      listing('kept', { contactEmail: 'owner-9@example.com', contactPhone: '512-555-0199' }),
    ],
  })
  const { paths, responses } = download({
    '20260801_1234_Email.csv': csv('ID,Hash', [
      ['Aaaaaaaaaaa1', emailHash('OWNER-1@example.com')],
      ['Aaaaaaaaaaa2', emailHash('nobody@example.com')],
      ['Aaaaaaaaaaa3', emailHash('owner-2@example.com')],
    ]),
    '20260801_1234_Phone.csv': csv('ID,Hash', [['Bbbbbbbbbbb1', phoneHash('512-555-0143')]]),
    '20260801_1234_Removed.csv': csv('ID,Hash,ListType', []),
  })
  const before = await everything(house)
  const dry = await forget(house, ['--drop', ...paths, '--dry-run'])
  assert.equal(await everything(house), before)
  const expected = { read: 4, added: 4, rejected: 0, removed: 0, listings: 4, versions: 4 }
  assert.deepEqual([dry.code, dry.counts], [0, { ...real, ...expected, dryRun: true }])
  const { code, counts, responses: told } = await forget(house, ['--drop', ...paths, '--response', responses])
  assert.deepEqual([code, counts], [0, { ...real, ...expected }])
  const [email, phone] = ['20260801_1234_Email.csv', '20260801_1234_Phone.csv'].map((name) => join(responses, name))
  assert.deepEqual(told, [
    { type: 'response', file: email, deleted: 2, notFound: 1 },
    { type: 'response', file: phone, deleted: 1, notFound: 0 },
  ])
  const answers = () => readdirSync(responses).sort().map((name) => readFileSync(join(responses, name), 'utf8')) // biome-ignore format: a line
  const first = ['Id,Status\nAaaaaaaaaaa1,3\nAaaaaaaaaaa2,5\nAaaaaaaaaaa3,3\n', 'Id,Status\nBbbbbbbbbbb1,3\n']
  assert.deepEqual(answers(), first)
  assert.deepEqual(Object.keys(await storedLeads(house)), ['kept'])
  // everybody on a list is kept out, found or not; also from rejected records
  const rejects = writeInput('rejects.ndjson', '')
  const later = [
    listing('x', { contactEmail: 'nobody@example.com' }),
    listing('y', { price: -1, contactPhone: '(512) 555 0143' }),
  ]
  assert.deepEqual(await importAgain(house, later, ['--rejects', rejects]), { code: 0, counts: [0, 0, 0, 0, 0, 2] })
  assert.equal(readFileSync(rejects, 'utf8'), '')
  // a second run finds nothing more, and responds as the first
  const second = await forget(house, ['--drop', ...paths, '--response', responses])
  assert.deepEqual([second.code, second.counts.listings, second.counts.added], [0, 0, 0])
  assert.deepEqual(answers(), first)
  const pretty = await house.call(['leads', 'forget', '--drop', ...paths, '--response', responses])
  assert.deepEqual(pretty.stdout.match(/^\/.*$/gm), [`${email}: 2 deleted, 1 not found`, `${phone}: 1 deleted, 0 not found`]) // biome-ignore format: a line
})

test('a person who was erased by a contact before being on a list is reported as deleted', async () => {
  const house = await buildHouse({ leads: [listing('email', { contactEmail: 'owner-1@example.com' })] })
  await forget(house, ['--contact', '-'], 'owner-1@example.com')
  await forget(house, ['--contact', '-'], 'owner-2@example.com')
  const { paths, responses } = download({
    '20260801_1234_Email.csv': csv('ID,Hash', [
      ['A1', emailHash('owner-1@example.com')],
      ['A2', emailHash('owner-2@example.com')],
    ]),
  })
  await forget(house, ['--drop', ...paths, '--response', responses])
  assert.equal(readFileSync(join(responses, '20260801_1234_Email.csv'), 'utf8'), 'Id,Status\nA1,3\nA2,5\n')
})

test('removed identifiers come in again, but for those that another work item or --contact keeps out', async () => {
  const house = await buildHouse()
  const people = ['one', 'two', 'three'].map((name) => listing(name, { contactEmail: `owner-${name}@example.com` }))
  const hashes = ['one', 'two', 'three'].map((name) => emailHash(`owner-${name}@example.com`))
  const item = (id: string, at: number) => [id, hashes[at] as string]
  const list = {
    '20260801_1234_Email.csv': csv('ID,Hash', [item('A1', 0), item('A2', 1), item('A3', 2), item('B2', 1)]),
  }
  const { paths } = download(list)
  assert.equal((await forget(house, ['--drop', ...paths])).counts.read, 4)
  await forget(house, ['--contact', '-'], 'owner-three@example.com')
  assert.deepEqual((await importAgain(house, people)).counts, [0, 0, 0, 0, 0, 3])
  const removed = download({
    '20260901_1234_Removed.csv': csv('ID,Hash,ListType', [
      [...item('A1', 0), 'Email'],
      [...item('A2', 1), 'Email'],
      [...item('A3', 2), 'Email'],
      ['N1', hashes[0] as string, 'NDZ'],
    ]),
  })
  const dry = await forget(house, ['--drop', ...removed.paths, '--dry-run'])
  assert.deepEqual([dry.code, dry.counts.removed], [0, 3])
  // it said that imports take them again, and then that they are refused from now on
  const { stdout } = await house.call(['leads', 'forget', '--drop', ...removed.paths, '--dry-run'])
  assert.match(stdout, /^removed +3 identifiers: imports take them again$/m)
  assert.doesNotMatch(stdout, /^refused/m)
  assert.deepEqual((await importAgain(house, people)).counts, [0, 0, 0, 0, 0, 3])
  const { code, counts, responses } = await forget(house, ['--drop', ...removed.paths, '--response', removed.responses])
  assert.deepEqual([code, counts.removed, counts.read, responses], [0, 3, 0, []])
  assert.deepEqual(readdirSync(removed.responses), [])
  assert.deepEqual((await importAgain(house, people)).counts, [1, 0, 0, 0, 0, 2])
  // the older list again brings back nobody who was removed
  const again = await forget(house, ['--drop', ...paths])
  assert.deepEqual([again.counts.listings, again.counts.added], [0, 0])
  assert.deepEqual((await importAgain(house, people)).counts, [0, 0, 1, 0, 0, 2])
  const both = download({
    '20261001_1234_Removed.csv': csv('ID,Hash,ListType', [[...item('B2', 1), 'Email']]),
    ...list,
  })
  await forget(house, ['--drop', ...both.paths])
  assert.deepEqual((await importAgain(house, people)).counts, [1, 0, 1, 0, 0, 1])
})

test('a broken, a foreign or a wrongly named file, and a folder for responses that is none, change nothing', async () => {
  const house = await buildHouse({ leads: [listing('email', { contactEmail: 'owner-1@example.com' })] })
  const good = csv('ID,Hash', [['A1', emailHash('owner-1@example.com')]])
  const { paths, folder, responses } = download({
    '20260801_1234_Email.csv': good,
    '20260802_1234_Email.csv': `${good}A2,owner`,
    '20260801_1234_Phone.csv': '',
    '20260801_1234_NDZ.csv': good,
    'list.csv': good,
  })
  const [email, broken, empty, foreign, misnamed] = paths as [string, string, string, string, string]
  // the response took the place of the list that the link led to
  const linked = join(dirname(email), 'linked')
  mkdirSync(linked)
  symlinkSync(email, join(linked, '20260801_1234_Email.csv'))
  const before = await everything(house)
  for (const [args, code, message] of [
    [['--drop', email, broken], 1, /20260802_1234_Email\.csv: line 3: Hash must be/],
    [['--drop', email, empty], 1, /20260801_1234_Phone\.csv: is empty/],
    [['--drop', email, foreign], 2, /list of the type NDZ/],
    [['--drop', email, misnamed], 2, /is not named as the platform/],
    [['--drop', join(folder, '20260809_1234_Email.csv')], 2, /there is no such file/],
    [['--drop', email, '--response', join(folder, 'none')], 2, /there is no such folder/],
    [['--drop', email, '--response', email], 2, /is no folder/],
    [['--drop', email, '--response', folder], 2, /a response has its name/],
    [['--drop', join(linked, '20260801_1234_Email.csv'), '--response', folder], 2, /a response has its name/],
    [['--drop', join(linked, '20260801_1234_Email.csv'), '--response', linked], 2, /a response has its name/],
    [['--drop', email, email, '--response', responses], 2, /two lists have the name/],
    [['--list', join(folder, 'none.txt')], 2, /there is no such file/],
    [['--list', email, '--response', responses], 2, /--response goes with --drop/],
    [['--drop', email, '--response', responses, '--dry-run'], 2, /exclude each other/],
    [['--list', email, '--drop', email], 2, /--list and --drop exclude each other/],
  ] as const) {
    const done = await forget(house, args)
    assert.equal(done.code, code, done.stderr)
    assert.match(done.stderr, message)
  }
  assert.equal(await everything(house), before)
  assert.deepEqual(readdirSync(responses), [])
  assert.ok(existsSync(email))
})

test('redacted listings stay without their contacts, in everything that was kept and in later records', async () => {
  const house = await buildHouse()
  const contact = { contactName: 'Owner', contactPhone: '512-555-0143', contactEmail: 'owner-1@example.com' }
  // fewer digits may stand in a time or a hash by chance
  const phone = /555.?0143/
  const records = [
    listing('phone', { ...contact, fullAddress: '1 Main St', address: '1 Main St', price: 7 }),
    listing('kept', { contactName: 'Other', contactPhone: '512-555-0199' }),
    listing('was', contact),
  ]
  await house.put('leads', records)
  await house.put('leads', [listing('was', { contactName: 'New', contactPhone: '5', contactEmail: 'new@example.com' })])
  await house.put('leads', [listing('phone', { price: 8 })])
  const dry = await forget(house, ['--contact', '-', '--redact', '--dry-run'], '512 555 0143')
  const counts = { listings: 0, redacted: 1, versions: 3 }
  assert.deepEqual([dry.code, dry.counts], [0, { ...real, ...counts, dryRun: true }])
  const done = await forget(house, ['--contact', '-', '--redact'], '512 555 0143')
  assert.deepEqual([done.code, done.counts], [0, { ...real, ...counts }])
  const none = { contactName: null, contactPhone: null, contactEmail: null }
  const pick = ({ contactName, contactPhone, contactEmail }: Record<string, unknown> = {}) => ({ contactName, contactPhone, contactEmail }) // biome-ignore format: a line
  const stored = await storedLeads(house)
  assert.deepEqual(pick(stored.phone), none)
  assert.deepEqual(
    [stored.phone?.price, stored.phone?.fullAddress, stored.phone?.address],
    [8, '1 Main St', '1 Main St'],
  )
  assert.deepEqual([stored.kept?.contactName, stored.was?.contactName], ['Other', 'New'])
  assert.doesNotMatch(await everything(house), phone)
  // later records with it: the known one is unchanged, a new one comes in without, a bad one is told and not kept
  const rejects = writeInput('rejects.ndjson', '')
  const later = [
    listing('phone', { ...contact, price: 8 }),
    listing('new', contact),
    listing('bad', { ...contact, price: -1 }),
    { href: hrefOf('nowhere'), ...contact },
    { href: hrefOf('kept'), contactPhone: '(512) 555-0143' },
  ]
  assert.deepEqual(await importAgain(house, later, ['--strict', '--rejects', rejects]), {
    code: 1,
    counts: [1, 1, 1, 2, 0, 0],
  })
  assert.equal(readFileSync(rejects, 'utf8'), '')
  const after = await storedLeads(house)
  for (const name of ['phone', 'new', 'kept']) assert.deepEqual(pick(after[name]), none, name)
  assert.doesNotMatch(await everything(house), phone)
  assert.deepEqual(await importAgain(house, [listing('new', contact)]), { code: 0, counts: [0, 0, 1, 0, 0, 0] })
  // by its href: later records lose any contact
  assert.equal((await forget(house, ['--href', hrefOf('was'), '--redact'])).counts.redacted, 1)
  assert.deepEqual((await importAgain(house, [listing('was', { contactName: 'Newer' })])).counts, [0, 0, 1, 0, 0, 0])
  // an erasure is more than that, and nothing takes it back
  assert.equal((await forget(house, ['--contact', '-'], '5125550143')).code, 1)
  assert.equal((await forget(house, ['--contact', '-', '--redact'], '5125550143')).counts.newlyRefused, false)
  assert.deepEqual(
    (await importAgain(house, [listing('newer', contact), listing('was', contact)])).counts,
    [0, 0, 0, 0, 0, 2],
  )
})

test('a bad record with a redacted contact is rejected, told without the contact, and not kept', async () => {
  // it counted as erased: the exit code was 0, and nothing said that a listing which stays could not be read
  const house = await buildHouse()
  await forget(house, ['--contact', '-', '--redact'], '512 555 0143')
  assert.equal((await forget(house, ['--href', hrefOf('was'), '--redact'])).code, 1)
  const records = [
    listing('price', { price: 'call 512-555-0143' }),
    { href: hrefOf('nowhere'), contactPhone: '(512) 555-0143' },
    listing('was', { contactEmail: 'owner-1@example.com', sqft: 'owner-1' }),
    listing('other', { price: 'call' }),
  ]
  const file = writeInput('redacted-bad.ndjson', toLines(records))
  const rejects = writeInput('redacted-rejects.ndjson', '')
  const args = ['leads', 'import', file, '--strict', '--rejects', rejects]
  const { code, json, stdout } = await house.call([...args, '--json'])
  assert.ok(!/0143|owner-1/.test(stdout), stdout)
  const unread = 'cannot be read as a number without a guess'
  const told = [
    [1, 'price', unread],
    [3, 'sqft', unread],
    [4, 'price', `${unread}: "call"`],
    [2, 'postalCode', 'is missing'],
  ]
  assert.deepEqual(
    json.slice(0, -1).map(({ type, line, path, message }) => [type, line, path, message]),
    told.map((one) => ['rejected', ...one]),
  )
  const { read, rejected, erased } = json.at(-1)
  assert.deepEqual([code, read, rejected, erased], [1, 4, 4, 0])
  assert.equal(readFileSync(rejects, 'utf8'), toLines(records.slice(3)))
  const people = await house.call(args)
  assert.equal(people.code, 1)
  assert.ok(people.stdout.includes(`${file}:2  rejected  postalCode is missing\n`), people.stdout)
})

test('a redaction by a list ends deliveries that were tried with the contacts, and a trigger goes without them', async (t) => {
  const platform = await startHookReceiver()
  t.after(() => platform.close())
  let answer: () => number | 'hang' = () => 503
  const house = await buildHouse({ users: makeUsers(1), answer: () => answer() })
  const { receiver } = house
  const opened = await house.database.open()
  await addHook(opened, 'user-0@example.com', platform.url('/hook'))
  await house.put('leads', [listing('kept'), listing('redacted', { contactEmail: 'owner-1@example.com', price: 5 })])
  platform.answer = () => 500
  const env = { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
  await house.call('trigger --json', { env })
  const pushing = startProgram(['push', '--all'], { env: { ...house.env, LEADPUSH_RETRY_DELAY: '1m' } })
  await requestsAtLeast(receiver, 2)
  pushing.kill()
  await pushing.done
  const { paths, responses } = download({
    '20260801_1234_Email.csv': csv('ID,Hash', [['A1', emailHash('owner-1@example.com')]]),
  })
  const { code, counts } = await forget(house, ['--drop', ...paths, '--redact', '--response', responses])
  // the weekly delivery, and that of the subscription
  assert.deepEqual([code, counts.listings, counts.redacted, counts.ended, counts.anew], [0, 0, 1, 2, 0])
  assert.equal(readFileSync(join(responses, '20260801_1234_Email.csv'), 'utf8'), 'Id,Status\nA1,3\n')
  const { json } = await house.call('status --user user-0@example.com --json')
  assert.deepEqual([json[0].status, json[0].attempts, json[0].error], ['failed', 1, 'a listing was erased'])
  answer = () => 200
  const again = await house.call('push --failed --json')
  assert.deepEqual(deliveriesOf(again.json).map(({ status, leads }) => [status, leads]), [['delivered', 2]]) // biome-ignore format: short
  const contacts = (body: { fsbos: Record<string, unknown>[] }) => body.fsbos.map(({ contactEmail }) => contactEmail)
  assert.deepEqual(contacts(receiver.requests.at(-1)?.json as never), [null, null])
  // its trigger is sent again, as the listing is by now
  platform.answer = () => 200
  await opened.pool.query(`update triggers set due_at = now()`)
  await opened.pool.query(`update hooks set paused_until = null`)
  await house.call('trigger --json', { env })
  const bodies = platform.calls.map(({ json: body }) => body)
  const ofRedacted = bodies.filter(({ href }) => href === hrefOf('redacted'))
  assert.equal(ofRedacted.at(-1)?.contactEmail, null)
  await opened.close()
})

test('a delivery that has no attempt yet goes with the redacted listing, under its own key', async () => {
  const gate = makeGate()
  const house = await buildHouse({
    users: makeUsers(8),
    leads: [listing('kept'), listing('redacted', { contactEmail: 'owner-1@example.com' })],
    answer: async () => gate.opened.then(() => 200),
  })
  const { receiver } = house
  const pushing = startProgram(['push', '--all', '--json', '--concurrency', '2'], { env: house.env })
  await requestsAtLeast(receiver, 2)
  const opened = await house.database.open()
  const pending = async () =>
    (await opened.pool.query("select idempotency_key as key from deliveries where status = 'pending'")).rows
  await until('some are recorded ahead', async () => (await pending()).length >= 4)
  pushing.kill()
  await pushing.waitFor(/SIGTERM: finishing/)
  gate.open()
  assert.equal((await pushing.done).code, 143)
  const unbegun = await pending()
  assert.ok(unbegun.length > 0)
  const dry = await forget(house, ['--contact', '-', '--redact', '--dry-run'], 'owner-1@example.com')
  assert.deepEqual([dry.counts.ended, dry.counts.anew, dry.counts.sent], [0, unbegun.length, 2])
  const { counts } = await forget(house, ['--contact', '-', '--redact'], 'owner-1@example.com')
  assert.deepEqual([counts.ended, counts.anew, counts.sent], [0, unbegun.length, 2])
  const resumed = await house.call('push --resume --json')
  assert.deepEqual([resumed.code, resumed.json.at(-1).delivered, receiver.keys().size], [0, 6, 8], resumed.stderr)
  for (const { key } of unbegun) assert.ok(receiver.keys().has(key), key)
  for (const request of receiver.requests.slice(2)) {
    const found = request.json.fsbos.map(({ href, contactEmail }: Record<string, unknown>) => [href, contactEmail])
    assert.deepEqual(found.sort(), [[hrefOf('kept'), null], [hrefOf('redacted'), null]]) // biome-ignore format: short
  }
  const shown = await house.call(`deliveries show ${receiver.requests[0]?.headers['x-idempotency-key']} --body`)
  assert.deepEqual([shown.code, /erased or pruned/.test(shown.stderr)], [1, true])
})
