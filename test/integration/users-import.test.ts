import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { Rejected } from '../../src/records/import-each.ts'
import { importUsers, type UserImportOptions } from '../../src/users/import.ts'
import { afterStatement, answerLost } from '../support/after-statement.ts'
import { createDatabase } from '../support/database.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { owe, owed } from '../support/owed.ts'

const none = {
  ...{
    read: 0,
    inserted: 0,
    updated: 0,
    unchanged: 0,
    rejected: 0,
    repeated: 0,
    erased: 0,
    folded: 0,
    unsubscribed: 0,
  },
  ignored: {},
}
const emailOf = (name: string | number) => `${name}@example.com`
const user = (name: string | number, fields: object = {}) => ({
  email: emailOf(name),
  receiverApiKey: 'key-1',
  ...fields,
})
const austin = { type: 'text', value: 'Austin, TX', radius: 5 }
const zip = { type: 'zipcode', value: '78704', radius: 2.5 }
const pool = { type: 'text', value: 'pool' }

const database = await createDatabase()
const opened = await database.open()
let files = 0

async function importing(names: string[], options: UserImportOptions = {}) {
  const rejected: Rejected[] = []
  const outcome = await importUsers(opened, names, { onRejected: (one) => void rejected.push(one), ...options })
  const { read, inserted, updated, unchanged, rejected: bad, repeated } = outcome.summary
  assert.equal(read, inserted + updated + unchanged + bad + repeated)
  return { ...outcome, rejected }
}
const importRecords = (...records: unknown[]) => importing([writeInput(`users-${++files}.ndjson`, toLines(records))])

async function findUser(name: string | number) {
  const { rows } = await opened.pool.query(
    `select u.id, u.receiver_key as key, u.subscribed, u.home_key as place, exists (select ${owed} and id = u.id) as owed, u.xmin::text as written,
       (select coalesce(json_agg(json_build_array(q.json, q.hash, s.kind) order by q.position), '[]') from queries q
        join searches s on s.id = q.search_id where q.user_id = u.id) as queries
     from users u where u.email = $1`,
    [emailOf(name)],
  )
  return rows[0]
}

// After a file of one user all users were grouped by their keys, and those whom an earlier file had were told again.
test('who share a receiver key are named after the file that gave it to one of them, and no others', async () => {
  const notesOf = async (...records: object[]) => {
    const file = writeInput('keys.ndjson', toLines(records))
    const importing = async (isDryRun: boolean) => {
      const notes: string[] = []
      await importUsers(opened, [file], { isDryRun, onNote: (note) => void notes.push(note.replace(file, 'FILE')) })
      return notes
    }
    const foreseen = await importing(true)
    const notes = await importing(false)
    // a dry run said nothing
    assert.deepEqual(foreseen, notes)
    return notes
  }
  const told = (text: string) =>
    `FILE: ${text} share a receiver key with another user, so the receiver puts their leads into one account: `
  const own = (name: string, key: string) => user(name, { receiverApiKey: key })
  assert.deepEqual(await notesOf(own('twin-1', 'twins'), own('twin-2', 'twins'), own('single', 'only')), [
    `${told('2 users')}twin-1@example.com and twin-2@example.com.`,
  ])
  assert.deepEqual(await notesOf(own('stranger', 'another')), [])
  assert.deepEqual(await notesOf(own('single-2', 'only'), own('twin-1', 'twins')), [
    `${told('2 users')}single-2@example.com and single@example.com.`,
  ])
  // with a key of their own again they share none
  assert.deepEqual(await notesOf(own('twin-2', 'own again')), [])
  await opened.pool.query("delete from users where email ~ '^(twin|single|stranger)'")
})

// A connection that broke while the postal codes were read ended the import with 3.
test('a database that goes away as an import begins is waited for', async () => {
  const lost = afterStatement(opened, 'from postal_codes', () => Promise.reject(answerLost()))
  const file = writeInput('early.ndjson', toLines([user('early', { queries: [austin] })]))
  const { summary } = await importUsers(lost, [file], {})
  assert.equal(summary.inserted, 1)
  await opened.pool.query("delete from users where email = 'early@example.com'")
})

test('a new user is subscribed, with their queries as they were given, and owed nothing', async () => {
  const { summary } = await importRecords(user('New', { queries: [pool, zip, austin] }))
  assert.deepEqual(summary, { ...none, read: 1, inserted: 1 })
  const stored = await findUser('new')
  assert.deepEqual([stored.key, stored.subscribed, stored.owed, stored.place], ['key-1', true, false, '78704'])
  assert.deepEqual(stored.queries, [
    ['{"type":"text","value":"pool","radius":0}', 'pool0', 'words'],
    ['{"type":"zipcode","value":"78704","radius":2.5}', '787042.5', 'place'],
    ['{"type":"text","value":"Austin, TX","radius":5}', 'Austin, TX5', 'place'],
  ])
})

test('a user whose record has no key, removed after it was checked, stays removed; the others are imported', async () => {
  await importRecords(user('leaving', { queries: [pool] }))
  const records = [{ email: emailOf('unknown') }, { email: emailOf('leaving'), queries: [zip] }, user('coming')]
  const { summary } = await importing([writeInput(`users-${++files}.ndjson`, toLines(records))], {
    onRejected: async () => void (await opened.pool.query('delete from users where email = $1', [emailOf('leaving')])),
  })
  assert.deepEqual(summary, { ...none, read: 3, inserted: 1, unchanged: 1, rejected: 1 })
  assert.equal(await findUser('leaving'), undefined)
  assert.equal((await findUser('coming')).key, 'key-1')
})

test('the same record again, or one that knows less, writes nothing', async () => {
  await importRecords(user('same', { queries: [pool, zip] }))
  const before = await findUser('same')
  const again = [
    user('SAME', { queries: [pool, zip] }),
    { email: emailOf('same') },
    user('same', { subscribed: null, queries: null }),
  ]
  for (const record of again) {
    assert.deepEqual((await importRecords(record)).summary, { ...none, read: 1, unchanged: 1 })
  }
  assert.deepEqual(await findUser('same'), before)
})

test('a given field changes, the others stay', async () => {
  await importRecords(user('change', { queries: [pool, zip] }))
  assert.equal((await importRecords({ email: emailOf('change'), receiverApiKey: 'key-2' })).summary.updated, 1)
  assert.equal((await importRecords({ email: emailOf('change'), subscribed: false })).summary.updated, 1)
  const stored = await findUser('change')
  assert.deepEqual([stored.key, stored.subscribed, stored.queries.length, stored.place], ['key-2', false, 2, '78704'])
})

test("given queries replace the user's, in their order; an empty list leaves none", async () => {
  await importRecords(user('replace', { queries: [pool, zip] }))
  await importRecords(user('replace', { queries: [zip, pool] }))
  assert.deepEqual(
    (await findUser('replace')).queries.map(([, hash]: [string, string]) => hash),
    ['787042.5', 'pool0'],
  )
  assert.equal((await importRecords(user('replace', { queries: [] }))).summary.updated, 1)
  const stored = await findUser('replace')
  assert.deepEqual([stored.queries, stored.place], [[], ''])
})

test('a user who is unsubscribed by an import is owed nothing any more, also when another one subscribes them', async () => {
  await importRecords(user('owed'))
  await opened.pool.query(owe('email = $1'), [emailOf('owed')])
  await importRecords(user('owed', { receiverApiKey: 'key-3' }))
  assert.equal((await findUser('owed')).owed, true)
  await importRecords(user('owed', { subscribed: false }))
  assert.equal((await findUser('owed')).owed, false)
  await importRecords(user('owed', { subscribed: true }))
  assert.equal((await findUser('owed')).owed, false)
})

test('of two records with one e-mail the earlier one counts as absent', async () => {
  const records = [
    user('twice', { subscribed: false, queries: [pool] }),
    user('x1'),
    user('Twice', { receiverApiKey: 'key-9' }),
  ]
  const { summary } = await importRecords(...records)
  assert.deepEqual(summary, { ...none, read: 3, inserted: 2, repeated: 1 })
  const stored = await findUser('twice')
  assert.deepEqual([stored.key, stored.subscribed, stored.queries], ['key-9', true, []])
})

// a record without a key was rejected, although a later one of the file brought the key
test('a new user needs a key; of two records with one e-mail only the later one counts, even where one is bad', async () => {
  const { summary, rejected } = await importRecords(
    { email: emailOf('keyless') },
    { email: emailOf('keyed') },
    user('keyed', { queries: [austin, { type: 'text' }] }),
    user('keyed'),
    user('spoilt'),
    { email: emailOf('spoilt') },
    user('spoilt-2'),
    user('Spoilt-2', { subscribed: 'yes' }),
  )
  assert.deepEqual(summary, { ...none, read: 8, inserted: 1, rejected: 4, repeated: 3 })
  assert.deepEqual(
    rejected.map(({ line, path }) => [line, path]).sort(([a], [b]) => Number(a) - Number(b)),
    [
      [1, 'receiverApiKey'],
      [3, 'queries[1].value'],
      [6, 'receiverApiKey'],
      [8, 'subscribed'],
    ],
  )
  const keyless = rejected.find(({ line }) => line === 1)
  assert.equal(keyless?.raw.toString(), JSON.stringify({ email: emailOf('keyless') }))
  assert.deepEqual([await findUser('spoilt'), await findUser('spoilt-2')], [undefined, undefined])
})

test('bad records are told with their line and field; the rest is imported', async () => {
  const { summary, rejected } = await importRecords(
    user('good', { name: 'x' }),
    user('r1', { queries: [pool, { ...pool, type: 'zipcode', radius: 0 }] }),
    user('r2', { queries: [pool, { type: 'text', value: 'the' }] }),
    user('r3', { queries: [{ type: 'zipcode', value: ' - ' }] }),
    user('r4', { receiverApiKey: 'secret key' }),
  )
  assert.deepEqual(summary, { ...none, read: 5, inserted: 1, rejected: 4, ignored: { name: 1 } })
  assert.deepEqual(
    rejected.map(({ line, path }) => [line, path]),
    [
      [2, 'queries[1]'],
      [3, 'queries[1].value'],
      [4, 'queries[0].value'],
      [5, 'receiverApiKey'],
    ],
  )
  assert.ok(!rejected.some(({ message }) => message.includes('secret')))
})

test('queries that mean the same share one search', async () => {
  const value = 'Shared Words 42'
  await importRecords(
    user('s1', { queries: [{ type: 'text', value }] }),
    user('s2', { queries: [{ type: 'text', value: ' words  SHARED 42 ', radius: 3 }] }),
  )
  const { rows } = await opened.pool.query(
    `select count(distinct search_id) from queries where user_id in (select id from users where email = any($1))`,
    [[emailOf('s1'), emailOf('s2')]],
  )
  assert.equal(rows[0].count, 1)
})

test('a JSON array, gzip and standard input hold the same users', async () => {
  const records = [user('f1', { queries: [zip] }), user('f2')]
  const array = JSON.stringify(records, null, 1)
  assert.equal((await importing([writeInput('u.json', array)])).summary.inserted, 2)
  assert.equal((await importing([writeInput('u.json.gz', gzipSync(array))])).summary.unchanged, 2)
  assert.equal((await importing(['-'], { stdin: Readable.from([Buffer.from(array)]) })).summary.unchanged, 2)
  const lines = gzipSync(toLines(records))
  assert.equal((await importing(['-'], { stdin: Readable.from([lines]) })).summary.unchanged, 2)
})

test('a file that breaks off leaves nothing behind', async () => {
  const cut = await importing([writeInput('cut.ndjson', `${toLines([user('cut')])}{"email":"c`)])
  assert.match(cut.broken?.message ?? '', /line 2/)
  assert.equal(await findUser('cut'), undefined)
})

// the second one once rejected the record
test('the same query twice is one, the first, and is counted, where its record goes in', async () => {
  const notes: string[] = []
  const records = [
    user('fold', { queries: [zip, pool, { ...pool, radius: 0 }, { ...zip, radius: 3 }, zip] }),
    user('fold-2', { receiverApiKey: 'key-fold', queries: [pool, pool] }),
    user('fold-2', { receiverApiKey: 'key-fold', queries: [pool] }),
    { email: emailOf('fold-3'), queries: [pool, pool] },
  ]
  const { summary } = await importing([writeInput('fold.ndjson', toLines(records))], {
    onNote: (text) => void notes.push(text),
  })
  assert.deepEqual(summary, { ...none, read: 4, inserted: 2, rejected: 1, repeated: 1, folded: 2 })
  assert.deepEqual(
    (await findUser('fold')).queries.map(([, hash]: [string, string]) => hash),
    ['787042.5', 'pool0', '787043'],
  )
  assert.match(notes.join('\n'), /fold\.ndjson:1: fold@example\.com has the same query twice/)
  assert.ok(!notes.some((note) => note.includes('key-')))
})

test('1,000 queries of one user, and many users, are imported in batches', async () => {
  const queries = Array.from({ length: 1_000 }, (_, at) => ({
    type: 'text',
    value: `word${at} ${'é'.repeat(400)}`,
  }))
  const many = Array.from({ length: 2_500 }, (_, at) =>
    user(`many-${at}`, { queries: at === 1_500 ? queries : [zip, pool] }),
  )
  assert.deepEqual((await importRecords(...many)).summary, { ...none, read: 2_500, inserted: 2_500 })
  assert.equal((await findUser('many-1500')).queries.length, 1_000)
  many[7] = user('many-7', { queries: [pool] })
  assert.deepEqual((await importRecords(...many)).summary, { ...none, read: 2_500, updated: 1, unchanged: 2_499 })
  assert.equal((await findUser('many-7')).place, '')
})

test('many queries that all differ are resolved, whether their users are new or change', async () => {
  const users = (radius: number) =>
    Array.from({ length: 3_000 }, (_, at) =>
      user(`differ-${at}`, { queries: [zip, { type: 'text', value: `differ ${at}`, radius }] }),
    )
  assert.deepEqual((await importRecords(...users(0))).summary, { ...none, read: 3_000, inserted: 3_000 })
  const ids = async () => {
    const { rows } = await opened.pool.query(
      `select max(id) - min(id) + 1 as spread, count(distinct q.search_id) as searches, min(q.radius) as radius
       from users u join queries q on q.user_id = u.id and q.position = 1 where email like 'differ-%'`,
    )
    return rows[0]
  }
  assert.deepEqual(await ids(), { spread: 3_000, searches: 3_000, radius: 0 })
  const changed = await importRecords(user('differ-new', { queries: [pool] }), ...users(1))
  assert.deepEqual(changed.summary, { ...none, read: 3_001, inserted: 1, updated: 3_000 })
  assert.equal((await ids()).radius, 1)
  assert.deepEqual((await importRecords(...users(1))).summary, { ...none, read: 3_000, unchanged: 3_000 })
})

test('a key or a subscription that changes leaves the queries as they are', async () => {
  const queries = [pool, zip]
  await importRecords(user('only-key', { queries }))
  const written = async () => {
    const { rows } = await opened.pool.query(
      'select q.xmin::text as written from queries q join users u on u.id = q.user_id where u.email = $1',
      [emailOf('only-key')],
    )
    return rows
  }
  const before = await written()
  await importRecords(user('only-key', { receiverApiKey: 'other', queries }))
  await importRecords(user('only-key', { receiverApiKey: 'other', subscribed: false, queries }))
  assert.deepEqual(await written(), before)
  assert.equal((await findUser('only-key')).place, '78704')
})

test('two imports of the same users at once both succeed', async () => {
  const users = (key: string) =>
    Array.from({ length: 500 }, (_, at) => user(`at-once-${at}`, { receiverApiKey: key, queries: [zip] }))
  const outcomes = await Promise.all([importRecords(...users('a')), importRecords(...users('b').reverse())])
  assert.deepEqual(
    outcomes.map(({ summary }) => summary.inserted + summary.updated),
    [500, 500],
  )
})

test('an import that is stopped leaves nothing of its file', async () => {
  const controller = new AbortController()
  async function* slow() {
    for (let at = 0; ; at++) {
      yield Buffer.from(toLines([user(`stopped-${at}`)]))
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  setTimeout(() => controller.abort(), 100)
  const outcome = await importing(['-'], { stdin: Readable.from(slow()), signal: controller.signal })
  assert.deepEqual([outcome.stopped, outcome.summary], [true, none])
  assert.equal(await findUser('stopped-0'), undefined)
})
