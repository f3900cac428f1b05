/** `users import --complete` (contract 4.18): who is in no file is unsubscribed, unless the files have too few. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { RefusedImport } from '../../src/records/import-each.ts'
import { importUsers, type UserImportOptions } from '../../src/users/import.ts'
import { createDatabase } from '../support/database.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { owe, owed } from '../support/owed.ts'
import { watchLocks } from '../support/watch-locks.ts'

const emailOf = (name: string | number) => `${name}@example.com`
const user = (name: string | number, fields: object = {}) => ({
  email: emailOf(name),
  receiverApiKey: `key-${name}`,
  ...fields,
})

const isRefused = (has: string) => (error: RefusedImport) => {
  assert.ok(error instanceof RefusedImport, error)
  assert.match(error.message, new RegExp(`^Of [36] subscribed users ${has}, fewer than half: nothing was changed\\.$`))
  assert.match(error.hint ?? '', /--accept/)
  const { rejected, ...others } = error.summary
  assert.equal(others.read, rejected)
  assert.deepEqual([others.inserted, others.updated, others.unchanged], [0, 0, 0])
  return true
}

const template = await createDatabase()

/** A database with the users 0 to `count` - 1, all subscribed. */
async function build(count: number) {
  const opened = await (await template.copy()).open()
  let files = 0
  const write = (...records: unknown[]) => writeInput(`complete-${++files}.ndjson`, toLines(records))
  const importing = (names: string[], options: UserImportOptions = {}) =>
    importUsers(opened, names, { complete: true, ...options })
  await importing([write(...Array.from({ length: count }, (_, at) => user(at)))], { complete: false })
  const findSubscribed = async () => {
    const { rows } = await opened.pool.query(
      `select replace(email, '@example.com', '') as name from users where subscribed order by id`,
    )
    return rows.map(({ name }) => name).join()
  }
  return { opened, write, importing, findSubscribed }
}

test('who is in none of the files is unsubscribed, and owed nothing', async () => {
  const { opened, write, importing, findSubscribed } = await build(5)
  await opened.pool.query(owe())
  const files = [
    write(user(0), user('new')),
    write({ email: 'THREE'.replace('THREE', '3@EXAMPLE.com') }),
    write(user(4)),
  ]
  const { summary } = await importing(files)
  assert.deepEqual([summary.read, summary.inserted, summary.unsubscribed], [4, 1, 2])
  assert.equal(await findSubscribed(), '0,3,4,new')
  const { rows } = await opened.pool.query(`select email ${owed} order by 1`)
  assert.deepEqual(
    rows.map(({ email }) => email),
    [emailOf(0), emailOf(3), emailOf(4)],
  )
  assert.equal((await importing(files)).summary.unsubscribed, 0)
  assert.equal((await importing([write(user(1, { subscribed: true }))], { complete: false })).summary.unsubscribed, 0)
  assert.equal(await findSubscribed(), '0,1,3,4,new')
})

for (const [listed, isHeld] of [
  [2, true],
  [3, false],
  [4, false],
] as const) {
  test(`files with ${listed} of 6 subscribed users ${isHeld ? 'change nothing, unless it is accepted' : 'are taken'}`, async () => {
    const { write, importing, findSubscribed } = await build(6)
    const some = Array.from({ length: listed }, (_, at) => user(at, { receiverApiKey: 'changed' }))
    // new users make up for nobody
    const file = write(...some, user('new-1'), user('new-2'), user('new-3'))
    if (!isHeld) {
      assert.equal((await importing([file])).summary.unsubscribed, 6 - listed)
      return
    }
    await assert.rejects(importing([file]), isRefused('the file has 2'))
    assert.equal(await findSubscribed(), '0,1,2,3,4,5')
    const accepted = await importing([file], { accept: true })
    assert.deepEqual([accepted.broken, accepted.summary.unsubscribed], [undefined, 4])
    assert.equal(await findSubscribed(), '0,1,new-1,new-2,new-3')
  })
}

test('several files with too few users together change nothing, the first of them neither', async () => {
  // only the last file was left out: those before it had gone in
  const { opened, write, importing, findSubscribed } = await build(6)
  const files = [write(user(0, { receiverApiKey: 'changed' }), user('new')), write(user(1))]
  await assert.rejects(importing(files), isRefused('the files have 2'))
  assert.equal(await findSubscribed(), '0,1,2,3,4,5')
  const { rows } = await opened.pool.query('select receiver_key from users where email = $1', [emailOf(0)])
  assert.equal(rows[0].receiver_key, 'key-0')
  const half = await importing([...files, write(user(2))])
  assert.deepEqual([half.broken, half.summary.read, half.summary.unsubscribed], [undefined, 4, 3])
  assert.equal(await findSubscribed(), '0,1,2,new')
  const accepted = await importing(files, { accept: true })
  assert.deepEqual([accepted.broken, await findSubscribed()], [undefined, '0,1,new'])
})

test('several files with a pipe among them change nothing either where they have too few users', async () => {
  // a pipe cannot be read twice, so the files before it were in when the guard refused
  const { opened, write, importing, findSubscribed } = await build(6)
  const pipe = (...records: object[]) => ({ stdin: Readable.from([Buffer.from(toLines(records))]) })
  const files = [write(user(0, { receiverApiKey: 'changed' }), user('new')), '-']
  for (const isDryRun of [true, false]) {
    await assert.rejects(importing(files, { ...pipe(user(1)), isDryRun }), isRefused('the files have 2'))
    assert.equal(await findSubscribed(), '0,1,2,3,4,5')
  }
  const { rows } = await opened.pool.query('select receiver_key from users where email = $1', [emailOf(0)])
  assert.equal(rows[0].receiver_key, 'key-0')
  const cut = await importing(files, { stdin: Readable.from([Buffer.from(`${toLines([user(1)])}{"em`)]) })
  assert.deepEqual([cut.broken?.file, cut.summary.inserted, cut.summary.unsubscribed], ['-', 1, 0])
  assert.equal(await findSubscribed(), '0,1,2,3,4,5,new')
  const csv = `email,type,value\n${[1, 2, 3].map((at) => `${emailOf(at)},text,pool`).join('\n')}\n`
  const stdin = () => Readable.from([Buffer.from(csv)])
  const dry = await importing(files, { stdin: stdin(), isDryRun: true })
  assert.equal(await findSubscribed(), '0,1,2,3,4,5,new')
  const right = await importing(files, { stdin: stdin() })
  assert.deepEqual(right.summary, dry.summary)
  const { read, unchanged, updated, unsubscribed } = right.summary
  assert.deepEqual([right.broken, read, unchanged, updated, unsubscribed], [undefined, 5, 2, 3, 2])
  assert.equal(await findSubscribed(), '0,1,2,3,new')
})

test('a dry run counts what the import then does, and leaves every row as it is', async () => {
  // there was none: how many an export would unsubscribe was known when they were
  const { opened, write, importing } = await build(6)
  const read = async () =>
    (
      await opened.pool.query(
        `select t, count(*), max(xmin::text::bigint) as written from (
           select 'users' as t, xmin from users union all select 'queries', xmin from queries
           union all select 'searches', xmin from searches) r
         group by t order by t`,
      )
    ).rows
  const before = await read()
  const pool = [{ type: 'text', value: 'pool' }]
  const files = [
    write(user('new', { queries: [...pool, ...pool] }), user(0, { queries: pool }), user(1, { subscribed: false })),
    write(user(2), user(2), user('odd', { subscribed: 'maybe' }), { email: emailOf('keyless') }),
  ]
  const dry = await importing(files, { isDryRun: true })
  assert.deepEqual(await read(), before)
  const { summary } = await importing(files)
  assert.deepEqual(dry.summary, summary)
  const { inserted, updated, rejected, folded, unsubscribed } = summary
  assert.deepEqual([inserted, updated, rejected, folded, unsubscribed], [1, 2, 2, 1, 3])
  await assert.rejects(importing([write(user(3))], { isDryRun: true }), isRefused('the file has 0'))
})

test('a user whose line of CSV has a wrong number of cells counts as there', async () => {
  // such a user was unsubscribed
  const { importing, findSubscribed } = await build(3)
  const head = 'email,receiverApiKey,subscribed,type,value,radius'
  const lines = [`${emailOf(0)},key-0,,,,`, `${emailOf(1)},,,text,Austin, TX,10`]
  const { summary } = await importing([writeInput('cells.csv', `${[head, ...lines].join('\n')}\n`)])
  assert.deepEqual([summary.rejected, summary.unsubscribed], [1, 1])
  assert.equal(await findSubscribed(), '0,1')
})

test('a file that breaks off, or an import that is stopped, unsubscribes nobody; files before it stay in', async () => {
  const { write, importing, findSubscribed } = await build(4)
  const cut = await importing([write(user(0), user('new')), writeInput('cut.ndjson', `${toLines([user(1)])}{"em`)])
  assert.match(cut.broken?.file ?? '', /cut\.ndjson$/)
  assert.deepEqual([cut.summary.inserted, await findSubscribed()], [1, '0,1,2,3,new'])
  const controller = new AbortController()
  async function* endless() {
    yield Buffer.from(toLines([user(0), user(1), user(2)]))
    controller.abort()
    yield Buffer.from(toLines([user(3)]))
  }
  const stopped = await importing(['-'], { stdin: Readable.from(endless()), signal: controller.signal })
  assert.deepEqual([stopped.stopped, stopped.summary.unsubscribed], [true, 0])
  assert.equal(await findSubscribed(), '0,1,2,3,new')
})

test('a rejected record whose e-mail can be read, and a repeated one, count as there', async () => {
  const { write, importing, findSubscribed } = await build(5)
  const records = [
    user(0, { subscribed: 'maybe' }),
    user(1, { queries: [{ type: 'text', value: 'the' }] }),
    user(2),
    user(2),
  ]
  const { summary } = await importing([write(...records)])
  assert.deepEqual([summary.rejected, summary.repeated, summary.unsubscribed], [2, 1, 2])
  assert.equal(await findSubscribed(), '0,1,2')
  const csv = 'email,subscribed,type,value\n0@example.com,maybe,,\n1@example.com,,zipcode,\n'
  assert.equal((await importing([writeInput('bad.csv', csv)])).summary.unsubscribed, 1)
  assert.equal(await findSubscribed(), '0,1')
})

test('a rejected record without an e-mail that can be read unsubscribes nobody, unless accepted', async () => {
  // one bad byte in an address unsubscribed its user for good
  const { importing, findSubscribed } = await build(4)
  const spoilt = Buffer.from('email\n0@example.com\n1@example.com\n2@exam\xffple.com\n', 'latin1')
  const file = writeInput('spoilt-address.csv', spoilt)
  const { summary } = await importing([file], { encoding: 'utf-8' })
  assert.deepEqual([summary.rejected, summary.unsubscribed, summary.unnamed], [1, 0, 1])
  assert.equal(await findSubscribed(), '0,1,2,3')
  const accepted = await importing([file], { encoding: 'utf-8', accept: true })
  assert.deepEqual([accepted.summary.unsubscribed, accepted.summary.unnamed], [2, undefined])
  assert.equal(await findSubscribed(), '0,1')
})

test('a file without a record unsubscribes nobody, with --accept either', async () => {
  const { write, importing, findSubscribed } = await build(2)
  const before = await findSubscribed()
  for (const accept of [false, true]) {
    const { broken, summary } = await importing([write()], { accept })
    assert.deepEqual([broken?.message, summary.unsubscribed], ['it is empty: it has no record', 0])
  }
  assert.equal(await findSubscribed(), before)
})

test('a complete import of many files holds no more locks than one of a few', async () => {
  const { opened, importing, findSubscribed } = await build(2)
  const files = Array.from({ length: 40 }, (_, at) => {
    const rows = [
      `${emailOf(at % 2)},key-${at % 2},78704`,
      `${emailOf(at)},key-${at},10001`,
      `${emailOf(0)},key,78704,surplus`,
    ]
    return writeInput(`${at}-of-40.csv`, ['email,receiverApiKey,value', ...rows, ''].join('\n'))
  })
  const { counts, onRejected } = watchLocks(opened)
  const { summary } = await importing(files, { onRejected })
  assert.deepEqual([summary.inserted, summary.rejected, summary.unsubscribed], [38, 40, 0])
  assert.equal((await findSubscribed()).split(',').length, 40)
  assert.deepEqual([counts.length, counts.at(-1)], [40, counts[10]])
})
