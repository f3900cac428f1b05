/** `users import --map`, and the one message where a file has other names (contract 3): it prints the whole command that would fit. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Rejected } from '../../src/records/import-each.ts'
import { userMaps } from '../../src/users/field-map.ts'
import { importUsers } from '../../src/users/import.ts'
import { listUsers } from '../../src/users/users.ts'
import { createDatabase } from '../support/database.ts'
import { writeInput } from '../support/import-files.ts'

async function buildImports() {
  const opened = await (await createDatabase()).open()
  let files = 0
  async function importText(text: string, { ending = 'csv', map = [] as string[] } = {}) {
    const rejected: Rejected[] = []
    const notes: string[] = []
    const file = writeInput(`map-${++files}.${ending}`, text)
    const { broken, summary } = await importUsers(opened, [file], {
      map: userMaps.parse(map),
      commandThatFits: (fits) => [...fits].map(([field, column]) => `${field}=${column}`).join(' '),
      onRejected: (one) => void rejected.push(one),
      onNote: (note) => void notes.push(note),
    })
    const told = broken && `${broken.message}|${broken.hint}`
    return { told, inserted: summary.inserted, updated: summary.updated, rejected, notes, ignored: summary.ignored }
  }
  async function queriesOf(email: string) {
    for await (const page of listUsers(opened.db))
      for (const user of page) if (user.email === email) return user.queries
    return undefined
  }
  return { importText, queriesOf, close: () => opened.close() }
}

test('columns and keys of other names are read with --map, and a value without a type is told by what it is', async () => {
  const { importText, queriesOf, close } = await buildImports()
  const map = ['email=Login', 'receiverApiKey=API key', 'value=ZIP']
  const csv = 'Login,api KEY,ZIP,email\na@x.example,key-a,78704,other\na@x.example,,Austin pool,\n'
  assert.deepEqual([(await importText(csv, { map })).inserted, await queriesOf('a@x.example')], [1, [
    { type: 'zipcode', value: '78704', radius: 0 },
    { type: 'text', value: 'Austin pool', radius: 0 },
  ]]) // biome-ignore format: short
  const records = [
    { Login: 'b@x.example', crm: { key: 'key-b' }, zip: 78704, miles: '25 mi' },
    { Login: 'c@x.example', crm: { key: 'key-c' }, email: 'ignored', wanted: [{ value: 'K1A 0B1' }] },
  ]
  const keys = ['email=login', 'receiverApiKey=crm.key', 'value=zip', 'radius=miles', 'queries=wanted', 'type=kind']
  const { inserted, notes } = await importText(JSON.stringify(records), { ending: 'json', map: keys })
  assert.deepEqual([inserted, notes.length], [2, 1])
  assert.match(notes[0] ?? '', /no record has a key kind, which --map reads type from/)
  assert.deepEqual(await queriesOf('b@x.example'), [{ type: 'zipcode', value: '78704', radius: 25 }])
  assert.deepEqual(await queriesOf('c@x.example'), [{ type: 'zipcode', value: 'K1A 0B1', radius: 0 }])
  const lacking = await importText(csv, { map: ['value=ZIPS'] })
  assert.match(lacking.told ?? '', /no column ZIPS, which --map reads value from; did you mean ZIP/)
  // the option was taken, and did nothing
  const list = await importText('email,receiverApiKey,wanted\nd@x.example,key-d,[]\n', { map: ['queries=wanted'] })
  assert.match(list.told ?? '', /--map reads queries from wanted, and CSV has no lists\|A line of CSV has one query/)
  assert.throws(() => userMaps.parse(['zip=ZIP']), /a user has no field zip/)
  await close()
})

// A file with `API key` and `ZIP` was "type is missing" in every row, or said that it had no column email and no more.
test('one message has the whole command that fits a file with other names', async () => {
  const { importText, queriesOf, close } = await buildImports()
  const csv = 'E-mail,API key,ZIP,Distance\na@x.example,key-a,78704,25\nb@x.example,key-b,78705,5 mi\n'
  const fits = 'email=E-mail receiverApiKey=API key value=ZIP radius=Distance'
  for (const [text, ending, expected] of [
    [csv, 'csv', /^its header has no column email: it has E-mail, API key, ZIP, Distance; users have the columns/],
    [csv.replace('E-mail', 'email'), 'csv', /^no column of its header is receiverApiKey, which a new user needs/],
    [
      JSON.stringify([{ 'E-mail': 'a@x.example', 'API key': 'k', ZIP: '1', Distance: 1 }]),
      'json',
      /^no record has email/,
    ],
  ] as const) {
    const { told, rejected, inserted } = await importText(text, { ending })
    assert.match(told ?? '', expected)
    assert.ok(told?.endsWith(`This would fit:\n${expected.source.includes('receiver') ? fits.slice(13) : fits}`), told)
    assert.deepEqual([inserted, rejected], [0, []])
  }
  // who is known needs no key, and a file without any column for it is judged by its records
  assert.equal((await importText(csv, { map: fits.split(/ (?=\w+=)/) })).inserted, 2)
  assert.deepEqual(await queriesOf('b@x.example'), [{ type: 'zipcode', value: '78705', radius: 5 }])
  const known = await importText('email,API key,subscribed\na@x.example,other,no\nnew@x.example,key,yes\n')
  assert.deepEqual([known.updated, known.rejected.map(({ path }) => path)], [1, ['receiverApiKey']])
  assert.deepEqual((await importText('email,value\nnew@x.example,pool\n')).rejected.length, 1)
  await close()
})
