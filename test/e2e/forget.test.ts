/** `leads forget` (contract 3): what it erases, that it holds, and that from its end on nothing goes out with what it erased. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { test } from 'node:test'
import { createGunzip, createGzip } from 'node:zlib'
import { writeBackup } from '../../src/db/backup.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import { importLeads } from '../../src/leads/import.ts'
import { makeGate } from '../support/gate.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, deliveriesOf, type House, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { startProgram } from '../support/program.ts'
import { requestsAtLeast } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const email = 'owner-1@example.com'
const listing = (name: string | number, more: object = {}) => ({ href: hrefOf(name), postalCode: '78704', ...more })

async function forget(house: House, args: string, input?: string) {
  const { code, json, stderr, stdout } = await house.call(
    `leads forget ${args} --json`,
    input === undefined ? {} : { input },
  )
  const text = stdout + stderr
  assert.ok(!text.includes('owner') && !text.includes('0143'), text)
  const { listings, versions, ended, sent, newlyRefused } = json[0] ?? {}
  return { code, stderr, listings, versions, ended, sent, newlyRefused }
}

async function importAgain(house: House, records: readonly object[], more = '') {
  const file = writeInput('again.ndjson', toLines(records))
  const { code, json } = await house.call(`leads import ${file} --json${more}`)
  const { inserted, updated, unchanged, rejected, repeated, erased } = json.at(-1)
  return { code, counts: [inserted, updated, unchanged, rejected, repeated, erased] }
}

/** The number of rows with the text, in all tables and in the statistics of PostgreSQL. */
async function rowsWith(opened: OpenDatabase, text: string): Promise<number> {
  const { rows: tables } = await opened.pool.query(
    `select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
  )
  let count = 0
  for (const { relname } of [...tables, { relname: 'pg_statistic' }]) {
    const { rows } = await opened.pool.query(
      `select count(*)::integer as n from ${relname} t where t::text ilike '%' || $1 || '%'`,
      [text],
    )
    count += rows[0].n
  }
  return count
}

const hrefsIn = (request: { json: { fsbos: Record<string, unknown>[] } } | undefined) =>
  request?.json.fsbos.map(({ href }) => String(href).split('/').at(-1)).sort()

test('a listing, or all with a contact, are gone with all that was kept of them, and no import brings them back', async () => {
  const house = await buildHouse()
  const opened = await house.database.open()
  const records = [
    listing('email', { contactEmail: 'Owner-1@Example.com', description: 'quaint' }),
    listing('phone', { contactPhone: '+1 (512) 555-0143 ext 2', contactEmail: 'owner-2@example.com' }),
    listing('name', { contactName: 'The Owner, owner-1@example.com' }),
    listing('both', { contactEmail: `owner-3@example.com; ${email}`, contactPhone: '512.555.0143' }),
    listing('was', { contactEmail: email }),
    listing('other', { contactEmail: 'owner-4@example.com', contactPhone: '512-555-0199', description: email }),
  ]
  await house.put('leads', [
    ...records,
    ...Array.from({ length: 500 }, (_, at) => listing(at, { contactEmail: email })),
  ])
  // an earlier version of one had no contact, one has another contact by now
  await house.put('leads', [listing('email', { price: 5 }), listing('was', { contactEmail: 'owner-5@example.com' })])
  await house.put('leads', [listing('email', { price: 6 })])
  // the statistics kept contacts and words of what was erased
  await opened.pool.query('analyze')
  assert.ok((await rowsWith(opened, 'quaint')) > 1)
  const gone = { code: 0, stderr: '', newlyRefused: true, ended: 0, sent: 0 }
  assert.deepEqual(await forget(house, '--contact -', `${email}\n`), { ...gone, listings: 503, versions: 506 })
  // what only the description says is no contact
  assert.equal(await rowsWith(opened, email), 1)
  assert.deepEqual(await importAgain(house, records), { code: 0, counts: [0, 0, 2, 0, 0, 4] })
  assert.deepEqual(await forget(house, '--contact 1-512-555-0143'), { ...gone, listings: 1, versions: 1 })
  assert.deepEqual(await forget(house, `--href ${hrefOf('other')}`), { ...gone, listings: 1, versions: 1 })
  assert.equal(await rowsWith(opened, hrefOf('other')), 0)
  assert.equal(await rowsWith(opened, 'quaint'), 0)
  // a record that is both erased and bad counts as erased, and is neither told nor kept; a later record replaces an earlier one
  const rejects = writeInput('rejects.ndjson', '')
  const after = [
    ...records,
    { href: hrefOf('other') },
    { href: hrefOf('x') },
    listing('y'),
    listing('y', { contactName: email }),
    listing('z', { price: 'much', contactEmail: `${email}; owner-9@example.com` }),
    listing('other', { postalCode: 78_704 }),
    listing('phone-2', { price: -1, contactPhone: 'call (512) 555-0143' }),
  ]
  assert.deepEqual(await importAgain(house, after, ` --rejects ${rejects}`), { code: 1, counts: [0, 0, 0, 1, 3, 9] })
  assert.equal(readFileSync(rejects, 'utf8'), `${JSON.stringify({ href: hrefOf('x') })}\n`)
  const { rows } = await opened.pool.query('select count(*)::integer as n from leads')
  assert.equal(rows[0].n, 1)
  const { rows: left } = await opened.pool.query('select count(*)::integer as n from lead_seen')
  assert.equal(left[0].n, 1)
  const imports = await opened.pool.query('select records, erased from imports order by id desc limit 1')
  assert.deepEqual(imports.rows, [{ records: 13, erased: 9 }])
})

test('the statistics of PostgreSQL keep no e-mail of a user who was removed', async () => {
  const house = await buildHouse({ users: makeUsers(3) })
  const opened = await house.database.open()
  assert.ok((await rowsWith(opened, 'user-1@example.com')) > 0)
  await opened.pool.query('analyze')
  assert.equal((await house.call('users remove user-1@example.com')).code, 0)
  assert.equal(await rowsWith(opened, 'user-1@example.com'), 0)
})

test('an erased contact is in nothing that is kept or shown: tables, statistics, backup, pages, lines, the log of PostgreSQL', async () => {
  const contact = { contactName: 'Quiet', contactPhone: '(512) 555-0187', contactEmail: 'Quiet-Owner@example.com' }
  const forms = [contact.contactEmail, contact.contactPhone, '512-555-0187', '5125550187']
  const formsIn = (text: string | Buffer) => {
    const lower = text.toString('latin1').toLowerCase()
    return forms.filter((form) => lower.includes(form.toLowerCase()))
  }
  const quiet = listing('quiet', contact)
  const house = await buildHouse({
    users: makeUsers(2),
    leads: [listing('kept'), quiet],
    // a receiver that refuses a delivery and says why
    answer: ({ plain }) => ({ status: 400, body: plain.toString() }),
  })
  const opened = await house.database.open()
  const backUp = async () => {
    const gzip = createGzip()
    const [pieces] = await Promise.all([gzip.pipe(createGunzip()).toArray(), writeBackup(opened, gzip)])
    return Buffer.concat(pieces)
  }
  const file = writeInput('quiet.ndjson', toLines([quiet, listing('bad', { ...contact, price: -1 })]))
  const rejects = writeInput('quiet-rejects.ndjson', '')
  const call = async (...args: string[]) => {
    const { stdout, stderr } = await house.call(args, { env: { LEADPUSH_LOG_FORMAT: 'json' } })
    return `${stdout}\n${stderr}`
  }
  const showAll = async () => {
    const told = [
      await call('push', '--all', '--force', '--json'),
      await call('leads', 'import', file, '--strict', '--rejects', rejects),
    ]
    const [{ idempotency_key: key }] = (
      await opened.pool.query('select idempotency_key from deliveries order by created_at desc limit 1')
    ).rows
    const looks = [
      'status',
      'status --json',
      'report --out -',
      'preview --user user-1@example.com --body',
      `deliveries show ${key}`,
    ]
    const more = [
      `deliveries show ${key} --body`,
      `leads show ${hrefOf('quiet')}`,
      `explain user-1@example.com ${hrefOf('quiet')}`,
    ]
    for (const look of [...looks, ...more]) told.push(await call(...look.split(' ')))
    return told
  }
  const told = await showAll()
  await opened.pool.query('analyze')
  // or this test could not fail
  assert.ok(formsIn(await backUp()).length > 1)
  assert.ok(formsIn(told.join()).length > 0)
  for (const given of ['quiet-owner@example.com', '512 555 0187'])
    await house.call(['leads', 'forget', '--contact', '-'], { input: given })
  for (const text of [...(await showAll()), readFileSync(rejects), await backUp()])
    assert.deepEqual(formsIn(text), [], text.toString())
  for (const form of forms) assert.equal(await rowsWith(opened, form), 0, form)
  const [{ folder }] = (await opened.pool.query(`select current_setting('data_directory') as folder`)).rows
  assert.deepEqual(formsIn(readFileSync(join(dirname(folder), 'postgres.log'))), [])
})

// the import looked up once, before it read the file, whether anything had ever been erased
test('a listing that is erased for the first time while a file is read is not among its rejected records', async () => {
  const house = await buildHouse()
  const opened = await house.database.open()
  const told: string[] = []
  async function* read() {
    yield Buffer.from(toLines([listing('early', { price: -1 }), listing('kept', { price: -1 })]))
    assert.equal((await house.call(`leads forget --href ${hrefOf('late')} --json`)).code, 1)
    yield Buffer.from(toLines([listing('late', { price: -1 })]))
  }
  const { summary } = await importLeads(opened, ['-'], {
    strict: true,
    stdin: Readable.from(read(), { objectMode: false }),
    onRejected: ({ raw }) => void told.push(JSON.parse(raw.toString()).href),
  })
  await opened.close()
  assert.deepEqual([summary.rejected, summary.erased], [2, 1])
  assert.deepEqual(told, [hrefOf('early'), hrefOf('kept')])
})

test('an href that is not there is refused from then on; a text that is neither href nor contact is refused at once', async () => {
  const house = await buildHouse()
  const opened = await house.database.open()
  const nothing = { code: 1, stderr: '', listings: 0, versions: 0, ended: 0, sent: 0 }
  assert.deepEqual(await forget(house, '--href -', `  ${hrefOf('later')}\n`), { ...nothing, newlyRefused: true })
  assert.deepEqual(await forget(house, `--contact ${email}`), { ...nothing, newlyRefused: true })
  assert.deepEqual(await forget(house, `--contact Mailto:${email}`), { ...nothing, newlyRefused: false })
  const large = listing('large', { contactName: `${'x '.repeat(10_000)}${email}` })
  const other = [
    listing('later'),
    large,
    listing('a', { contactPhone: email }),
    listing('b', { contactEmail: `x${email}` }),
  ]
  assert.deepEqual(await importAgain(house, other), { code: 0, counts: [1, 0, 0, 0, 0, 3] })
  for (const [args, message] of [
    ['', /one of --href, --contact, --list or --drop/],
    [`--href ${hrefOf(1)} --contact ${email}`, /--href and --contact exclude each other/],
    ['--contact owner', /--contact: must be one e-mail address, or one phone number of 7 to 15 digits/],
    ['--contact 123456', /7 to 15/],
    ['--contact owner@example.com,owner-2@example.com', /one e-mail/],
    ['--href listings.example/owner', /--href: must be an absolute http: or https: URL/],
  ] as const) {
    const { code, stderr, stdout } = await house.call(`leads forget ${args}`.trim())
    assert.deepEqual([code, stdout], [2, ''], args)
    assert.match(stderr, message)
    if (!args.startsWith('--href http')) assert.ok(!stderr.includes('owner'), stderr)
  }
  const pretty = await house.call(['leads', 'forget', '--contact', 'x owner-1@example.com'])
  assert.equal(pretty.code, 2)
  assert.deepEqual(
    (await house.call(`leads forget --href ${hrefOf('b')}`)).stdout.match(/^(erased|sent|refused) .*$/gm),
    [
      'erased   1 listing, with all that was kept of it (1 version)',
      'refused  from now on, in every import',
      'sent     0 deliveries had been sent with it; only the receiver can erase its copies',
    ],
  )
  assert.equal(await rowsWith(opened, email), 0)
})

test('an import that has read its file before the erasure, and merges after it, brings nothing back', async () => {
  const house = await buildHouse({
    leads: [listing('a', { contactEmail: email }), listing('b', { contactEmail: email })],
  })
  const opened = await house.database.open()
  const stdin = new PassThrough()
  const read = { records: 0 }
  const importing = importLeads(opened, ['-'], { stdin, onProgress: (progress) => void Object.assign(read, progress) })
  stdin.write(
    toLines([listing('a', { price: 7 }), listing('b', { contactEmail: email }), ...Array(2_000).fill(listing('c'))]),
  )
  await until('the import reads', () => read.records > 0)
  assert.deepEqual(
    [(await forget(house, `--contact ${email}`)).listings, (await forget(house, `--href ${hrefOf('a')}`)).code],
    [2, 1],
  )
  stdin.end()
  const { inserted, repeated, erased } = (await importing).summary
  assert.deepEqual([inserted, repeated, erased], [1, 1_999, 2])
  assert.equal(await rowsWith(opened, email), 0)
})

test('after it no push sends the listing: waiting deliveries end, requests under way are waited for, planned pushes are planned anew', async () => {
  const users = makeUsers(30)
  const gate = makeGate()
  const house = await buildHouse({
    users,
    leads: [listing('kept'), listing('gone', { contactPhone: '512 555 0143' })],
    answer: async ({ headers }, nth) => {
      if (nth <= 2) return 503
      if (nth <= 4) await gate.opened
      return headers['x-service-api-key'] === 'key-2' ? 503 : 200
    },
  })
  const { receiver, env } = house
  const settings = { ...env, LEADPUSH_RETRY_DELAY: '5m', LEADPUSH_CONCURRENCY: '2' }
  const pushing = startProgram(['push', '--all', '--json'], { env: settings })
  await requestsAtLeast(receiver, 4)
  // two wait for their second attempt, two are under way; a few are recorded, the others planned
  const forgetting = startProgram(['leads', 'forget', '--contact', '5125550143', '--json'], { env })
  await forgetting.waitFor(/Requests with it are under way/)
  assert.equal(receiver.requests.length, 4)
  gate.open()
  const { code, json } = await forgetting.done
  const before = receiver.requests.length
  assert.deepEqual([code, json[0].listings, json[0].underWay, json[0].ended], [0, 1, 0, 3])
  const push = await pushing.done
  assert.equal(push.code, 1, push.stderr)
  assert.equal(receiver.keys().size, 30)
  // besides the four no more than were recorded ahead
  const withIt = receiver.requests.filter((request) => hrefsIn(request)?.includes('gone'))
  assert.ok(withIt.length <= 6 && withIt.length <= before, `${withIt.length} requests`)
  for (const request of receiver.requests.slice(withIt.length)) assert.deepEqual(hrefsIn(request), ['kept'])
  const ends = deliveriesOf(push.json).filter(({ status }) => status !== 'delivered')
  assert.deepEqual(
    ends.map(({ status, attempts, error }) => [status, attempts, error]),
    Array(3).fill(['failed', 1, 'a listing was erased']),
  )
  assert.deepEqual([push.json.at(-1).failed, push.json.at(-1).delivered, json[0].sent], [3, 27, withIt.length - 3])
  const again = await house.call('push --failed --json')
  assert.deepEqual([deliveriesOf(again.json).length, hrefsIn(receiver.requests.at(-1))], [3, ['kept']])
})

// the erasure ended such a delivery, and its user got nothing that week
test('a delivery that has no attempt yet goes without it, with its own key, in its week', async () => {
  const gate = makeGate()
  const house = await buildHouse({
    users: makeUsers(8),
    leads: [listing('kept'), listing('gone', { contactEmail: email })],
    answer: async () => gate.opened.then(() => 200),
  })
  const { receiver } = house
  const pushing = startProgram(['push', '--all', '--json', '--concurrency', '2'], { env: house.env })
  await requestsAtLeast(receiver, 2)
  const opened = await house.database.open()
  const pending = async () =>
    (await opened.pool.query("select idempotency_key as key from deliveries where status = 'pending'")).rows
  // recorded ahead of those that are under way
  await until('some are recorded ahead', async () => (await pending()).length >= 4)
  pushing.kill()
  await pushing.waitFor(/SIGTERM: finishing/)
  gate.open()
  assert.equal((await pushing.done).code, 143)
  assert.equal(receiver.requests.length, 2)
  const unbegun = await pending()
  assert.ok(unbegun.length > 0)
  const { json } = await house.call(['leads', 'forget', '--contact', email, '--json'])
  assert.deepEqual([json[0].ended, json[0].anew], [0, unbegun.length])
  const previewed = await house.call('preview --json')
  assert.deepEqual(
    deliveriesOf(previewed.json).map(({ leads }) => leads),
    Array(6).fill(1),
  )
  const resumed = await house.call('push --resume --json')
  assert.equal(resumed.code, 0, resumed.stderr)
  assert.deepEqual([resumed.json.at(-1).delivered, receiver.keys().size, receiver.requests.length], [6, 8, 8])
  for (const { key } of unbegun) assert.ok(receiver.keys().has(key), key)
  for (const request of receiver.requests.slice(2)) assert.deepEqual(hrefsIn(request), ['kept'])
})

test('deliveries that a dead process had begun end too; a delivery with only other listings goes on', async () => {
  const house = await buildHouse({
    users: [...makeUsers(1), { ...makeUsers(2)[1], queries: [{ type: 'zipcode', value: '10001', radius: 0 }] }],
    leads: [listing('gone', { contactEmail: email }), { ...listing('kept'), postalCode: '10001' }],
    answer: () => 'hang',
  })
  const { receiver, env } = house
  const pushing = startProgram(['push', '--all'], { env })
  await requestsAtLeast(receiver, 2)
  pushing.kill('SIGKILL')
  await pushing.done
  const opened = await house.database.open()
  await opened.pool.query('update workers set lease_until = now()')
  const { code, ended, sent } = await forget(house, `--contact ${email}`)
  assert.deepEqual([code, ended, sent], [0, 1, 1])
  const status = async (at: number) => (await house.call(`status --user user-${at}@example.com --json`)).json[0]
  assert.deepEqual([(await status(0)).status, (await status(0)).error], ['unknown', 'a listing was erased'])
  receiver.answer = () => 200
  const { json } = await house.call('push --resume --json')
  assert.deepEqual(deliveriesOf(json).map(({ user, attempts }) => [user, attempts]), [['user-1@example.com', 2]]) // biome-ignore format: short
})

test('its triggers end: those that are due, and those that failed and are to be tried again', async (t) => {
  const platform = await startHookReceiver()
  t.after(() => platform.close())
  const house = await buildHouse({ users: makeUsers(1) })
  const opened = await house.database.open()
  await addHook(opened, 'user-0@example.com', platform.url('/hook'))
  await house.put('leads', [listing('gone', { contactEmail: email }), listing('kept')])
  platform.answer = () => 500
  const env = { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
  const { failed, waiting } = (await house.call('trigger --json', { env })).json.at(-1)
  assert.deepEqual([failed, waiting], [2, 0])
  const { code, listings } = await forget(house, `--contact ${email}`)
  assert.deepEqual([code, listings], [0, 1])
  const { rows } = await opened.pool.query('select count(*)::integer as n from triggers')
  assert.equal(rows[0].n, 1)
})

test('an erasure whose tidying a locked table stopped names the table and what to do, exit 1', async () => {
  // it ended with 0, and what was erased could still be read in the files of PostgreSQL
  const house = await buildHouse({ leads: [], users: [] })
  const opened = await house.database.open()
  assert.deepEqual((await importAgain(house, [listing('locked')])).code, 0)
  const other = await opened.pool.connect()
  try {
    await other.query('begin; lock table lead_versions in share update exclusive mode')
    const { code, stderr, listings } = await forget(house, `--href ${hrefOf('locked')}`)
    assert.deepEqual([code, listings], [1, 1])
    assert.match(
      stderr.replace(/\s+/g, ' '),
      /lead_versions \(another session locks it\).* run in psql: vacuum .*lead_versions/,
    )
  } finally {
    await other.query('rollback')
    other.release()
    await opened.close()
  }
})
