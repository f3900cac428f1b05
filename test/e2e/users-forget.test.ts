/** `users forget` (contract 3): users are gone with every row that names them, and no import brings them back. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { sql } from 'kysely'
import { importUsers } from '../../src/users/import.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, deliveriesOf, type House, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'

const leads = [{ href: hrefOf('a'), postalCode: '78704' }]
const unsafe = { LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }

async function importAgain(house: House, records: readonly object[], more = '') {
  const { code, json, stderr } = await house.call(`users import - --json${more}`, { input: toLines(records) })
  const { read, inserted, updated, unchanged, rejected, repeated, erased, unsubscribed } = json.at(-1)
  assert.equal(read, inserted + updated + unchanged + rejected + repeated + erased, stderr)
  return { code, counts: [inserted, updated, unchanged, rejected, repeated, erased, unsubscribed], stderr }
}

/** The tables that have the text anywhere, and `pg_statistic`, if it has. */
async function tablesWith(house: House, text: string): Promise<string[]> {
  const opened = await house.database.open()
  const { rows } = await opened.pool.query(
    `select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace`,
  )
  const found: string[] = []
  for (const { relname } of [...rows, { relname: 'pg_statistic' }]) {
    const has = await sql`select from ${sql.table(relname)} t where t::text ilike ${`%${text}%`} limit 1`.execute(
      opened.db,
    )
    if (has.rows.length > 0) found.push(relname)
  }
  return found
}

test('a forgotten user is gone from every table, and no record of theirs comes in again, in any form', async () => {
  const house = await buildHouse({ leads, users: makeUsers(3) })
  assert.equal((await house.call('push --all')).code, 0)
  assert.notDeepEqual(await tablesWith(house, 'user-1@'), [])
  const { code, stdout } = await house.call('users forget USER-1@example.com')
  assert.deepEqual(
    [code, stdout],
    [0, 'user-1@example.com is forgotten.\nNo later import brings them back: their records count as erased.\n'],
  )
  assert.deepEqual(await tablesWith(house, 'user-1@'), [])
  // good, bad, repeated, without a key
  const records = [
    { email: 'User-1@Example.com', receiverApiKey: 'k' },
    { email: 'user-1@example.com', receiverApiKey: 'k', queries: 7 },
    { email: 'user-1@example.com' },
    makeUsers(1)[0] as object,
  ]
  const again = await importAgain(house, records)
  assert.deepEqual([again.code, again.counts], [0, [0, 0, 1, 0, 0, 3, 0]])
  assert.deepEqual((await importAgain(house, records, ' --dry-run')).counts, [0, 0, 1, 0, 0, 3, 0])
  const csv =
    'email,receiverApiKey,value\nuser-1@example.com,k,78704\nuser-9@example.com,k9,78704\nuser-1@example.com,k,78705\n'
  const lines = await house.call(['users', 'import', writeInput('forgotten.csv', csv), '--json'])
  const { read, inserted, erased } = lines.json.at(-1)
  assert.deepEqual([lines.code, read, inserted, erased], [0, 2, 1, 1])
  assert.deepEqual(await tablesWith(house, 'user-1@'), [])
  // two of three are in the file, and one of them was forgotten: the others are there
  const complete = await importAgain(house, [...records, ...makeUsers(1, 2)], ' --complete')
  assert.deepEqual([complete.code, complete.counts], [0, [0, 0, 2, 0, 0, 3, 1]])
  // deliveries of the others go on
  const forced = await house.call('push --all --force --yes --json')
  assert.deepEqual(
    deliveriesOf(forced.json)
      .map(({ user }) => user)
      .sort(),
    ['user-0@example.com', 'user-2@example.com'],
  )
})

test('the hooks of a forgotten user go, their platforms are told, and every command says that the user was forgotten', async () => {
  const platform = await startHookReceiver()
  after(() => platform.close())
  const house = await buildHouse({ leads, users: makeUsers(2) })
  await addHook(await house.database.open(), 'user-0@example.com', platform.url('/a'))
  const forgotten = await house.call('users forget user-0@example.com --json', { env: unsafe })
  const [{ email, forgotten: is, was, hooks }] = forgotten.json
  assert.deepEqual([forgotten.code, email, is, was, hooks.length], [0, 'user-0@example.com', true, true, 1])
  assert.deepEqual(
    platform.calls.map(({ method }) => method),
    ['DELETE'],
  )
  for (const command of ['subscribe', 'show', 'unsubscribe', 'push --user']) {
    const { code, stderr } = await house.call(
      `${command.startsWith('push') ? '' : 'users '}${command} user-0@example.com`,
    )
    assert.deepEqual([command, code], [command, 2])
    assert.match(stderr, /"user-0@example\.com" was forgotten: no import brings that e-mail back\./)
  }
  const several = await house.call('users subscribe user-0@example.com user-1@example.com')
  assert.match(several.stdout, /user-0@example\.com {2}unknown {2}"user-0@example\.com" was forgotten/)
})

test('an e-mail that is nobody’s is kept out too, which is exit code 1; what is no e-mail does nothing', async () => {
  const house = await buildHouse({ users: makeUsers(2) })
  const wrong = await house.call('users forget user-0@example.com nonsense')
  assert.deepEqual([wrong.code, wrong.stdout], [2, ''])
  assert.match(wrong.stderr, /"nonsense" is no e-mail address\./)
  const input = 'user-0@example.com\n\n later@example.com \nnonsense\nuser-0@example.com\n'
  const dry = await house.call('users forget - --dry-run --json', { input })
  assert.deepEqual([dry.code, dry.json.at(-1)], [1, { type: 'users', removed: 0, known: 2, unknown: 2 }])
  const { code, json } = await house.call('users forget - --json', { input })
  assert.deepEqual([code, json.at(-1)], [1, { type: 'users', forgotten: 1, already: 1, unknown: 2 }])
  const later = [{ email: 'later@example.com', receiverApiKey: 'k' }, ...makeUsers(1)]
  assert.deepEqual((await importAgain(house, later)).counts, [0, 0, 0, 0, 0, 2, 0])
  // a list that was stopped is given again
  const again = await house.call('users forget later@example.com user-0@example.com')
  assert.equal(again.code, 0, again.stdout)
})

test('an import that is under way when a user is forgotten leaves them out, or has them before', async () => {
  const house = await buildHouse({ users: makeUsers(1) })
  const opened = await house.database.open()
  const names = Array.from({ length: 60 }, (_, at) => at)
  const file = writeInput('beside.ndjson', toLines(makeUsers(60)))
  const importing = importUsers(opened, [file])
  const emails = names.map((at) => `user-${at}@example.com\n`).join('')
  const { json } = await house.call('users forget - --json', { input: emails })
  await importing
  assert.equal(json.at(-1).already, 0)
  const { rows } = await opened.pool.query('select email from users')
  assert.deepEqual(rows, [])
})

test('unsubscribe and remove say what a later import makes of it', async () => {
  const house = await buildHouse({ users: makeUsers(2) })
  const told = async (args: string) => (await house.call(args)).stdout.trimEnd().split('\n').at(-1)
  assert.equal(
    await told('users unsubscribe user-0@example.com'),
    'A later import keeps that, unless its file says subscribed.',
  )
  assert.equal(
    await told('users remove user-0@example.com'),
    'A later import that has them inserts them again; `leadpush users forget` keeps them out for good.',
  )
  const several = await house.call('users unsubscribe user-1@example.com nobody@example.com')
  assert.match(several.stdout, /A later import keeps that/)
  const none = await house.call('users remove nobody@example.com another@example.com')
  assert.doesNotMatch(none.stdout, /later import/)
  assert.equal((await house.call('users remove user-1@example.com --json')).json.length, 1)
})
