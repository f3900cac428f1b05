/** `users import` of CSV (contract 4.18): lines with one e-mail are one user, wherever they stand. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import type { Rejected } from '../../src/records/import-each.ts'
import { importUsers } from '../../src/users/import.ts'
import { listUsers } from '../../src/users/users.ts'
import { createDatabase } from '../support/database.ts'
import { writeInput } from '../support/import-files.ts'

const head = 'email,receiverApiKey,subscribed,type,value,radius'

const database = await createDatabase()
const opened = await database.open()
let files = 0

async function importLines(lines: readonly string[], header = head) {
  const rejected: Rejected[] = []
  const file = writeInput(`users-${++files}.csv`, `${[header, ...lines].join('\n')}\n`)
  const outcome = await importUsers(opened, [file], { onRejected: (one) => void rejected.push(one) })
  const { read, inserted, updated, unchanged, rejected: bad, folded } = outcome.summary
  assert.equal(read, inserted + updated + unchanged + bad)
  return { ...outcome, counts: { read, inserted, updated, unchanged, rejected: bad, folded }, rejected }
}
const none = { read: 0, inserted: 0, updated: 0, unchanged: 0, rejected: 0, folded: 0 }

async function findUser(name: string) {
  for await (const page of listUsers(opened.db))
    for (const user of page) if (user.email === `${name}@example.com`) return user
  return undefined
}
const valuesOf = async (name: string) => (await findUser(name))?.queries.map(({ value }) => value)

test('lines with one e-mail are one user, in the order of the file, however far apart', async () => {
  const lines = [
    'far@example.com,key-far,yes,text,first,',
    // more than a page of lines between them
    ...Array.from({ length: 1_500 }, (_, at) => `other-${at}@example.com,key-${at},,text,pool,`),
    'FAR@example.com,,,text,second,3',
    'far@example.com,key-far,1,text,first,0',
  ]
  const { counts } = await importLines(lines)
  assert.deepEqual(counts, { ...none, read: 1_501, inserted: 1_501, folded: 1 })
  assert.deepEqual(await findUser('far'), {
    email: 'far@example.com',
    subscribed: true,
    queries: [
      { type: 'text', value: 'first', radius: 0 },
      { type: 'text', value: 'second', radius: 3 },
    ],
  })
  assert.deepEqual((await importLines(lines)).counts, { ...none, read: 1_501, unchanged: 1_501, folded: 1 })
})

test('a line that cannot be read is told as it came, with the line ends in it', async () => {
  const line = 'cells@example.com,key,,text,"two\nlines",,5'
  const { rejected } = await importLines([line, 'read@example.com,key,,text,pool,'])
  assert.deepEqual(
    rejected.map(({ path, raw }) => [path, raw.toString()]),
    [['', line]],
  )
})

test('a file of another encoding is read by its name', async () => {
  const text = `${head}\nabroad@example.com,key,,text,Köln,\n`
  const file = writeInput('latin.csv', Buffer.from(text, 'latin1'))
  const outcome = await importUsers(opened, [file], { encoding: 'windows-1252' })
  assert.deepEqual([outcome.summary.inserted, await valuesOf('abroad')], [1, ['Köln']])
})

for (const lines of [999, 1_000, 1_001]) {
  test(`a user of ${lines} lines is complete: a page of lines ends among them, or not`, async () => {
    const own = Array.from({ length: lines }, (_, at) => `page${lines}@example.com,key,,text,word${at % 900},`)
    const { counts } = await importLines(own)
    assert.deepEqual(counts, { ...none, read: 1, inserted: 1, folded: lines - 900 })
    assert.equal((await valuesOf(`page${lines}`))?.length, 900)
  })
}

for (const [queries, expected] of [
  [999, 0],
  [1_000, 0],
  [1_001, 1],
] as const) {
  test(`a user of ${queries} queries is ${expected === 0 ? 'taken' : 'rejected'}`, async () => {
    const own = Array.from({ length: queries }, (_, at) => `many${queries}@example.com,key,,text,word${at},`)
    const { rejected } = await importLines(own)
    assert.deepEqual(
      rejected.map(({ line, path }) => [line, path]),
      expected === 0 ? [] : [[1_002, 'queries']],
    )
  })
}

test('a line that cannot be read rejects its user with all their lines, and no other', async () => {
  const lines = [
    'bad@example.com,secret-1,yes,zipcode,78704,5',
    'good@example.com,secret-2,yes,zipcode,78704,5',
    'bad@example.com,,,zipcode,78705,far',
    'bad@example.com,,,text,"a pool, large",',
    'worse@example.com,secret-3,perhaps,,,',
    'the@example.com,secret-4,,text,the,',
  ]
  const { counts, rejected } = await importLines(lines)
  assert.deepEqual(counts, { ...none, read: 4, inserted: 1, rejected: 3 })
  assert.deepEqual(
    rejected.map(({ line, path, message }) => [line, path, message]),
    [
      [4, 'radius', 'must be a number from 0 to 100: "far" (so all 3 lines of bad@example.com are rejected)'],
      [6, 'subscribed', 'must be true or false: "perhaps"'],
      [7, 'value', 'has no word to search for: only signs, or words like "the"'],
    ],
  )
  assert.equal(rejected[0]?.raw.toString(), [lines[0], lines[2], lines[3]].join('\n'))
  assert.equal(rejected[0]?.header?.toString(), head)
  assert.deepEqual([await findUser('bad'), await findUser('worse')], [undefined, undefined])
})

for (const [what, line, message] of [
  ['a cell too many', 'lost@example.com,,,text,Austin, TX,10', 'has 7 cells where the header has 6'],
  [
    'wrong quotes',
    'lost@example.com,,,text,"sauna" big,10',
    'has something between a closing quote and the next separator',
  ],
  ['bytes that are no UTF-8', Buffer.from('lost@example.com,,,text,\xe9,10', 'latin1'), 'is no valid UTF-8'],
] as const) {
  test(`a line with ${what} rejects its user with all their lines`, async () => {
    // the other lines replaced the user's queries, and the one of the line was lost
    await importLines(['lost@example.com,key,,text,garage,', 'lost@example.com,key,,text,sauna,'])
    const good = 'lost@example.com,,,text,pool,'
    const text = [`${head}\nköln@example.com,key,,text,köln,\n`, good, '\n', line, '\n', good, '\n']
    const file = writeInput('lost.csv', Buffer.concat(text.map((piece) => Buffer.from(piece as string))))
    const rejected: Rejected[] = []
    const { summary } = await importUsers(opened, [file], { onRejected: (one) => void rejected.push(one) })
    assert.deepEqual([summary.read, summary.updated, summary.rejected], [2, 0, 1])
    assert.deepEqual(
      rejected.map((one) => [one.line, one.path, one.message]),
      [[4, '', `${message} (so all 3 lines of lost@example.com are rejected)`]],
    )
    assert.deepEqual(
      rejected[0]?.raw,
      Buffer.concat([`${good}\n`, line, `\n${good}`].map((each) => Buffer.from(each as string))),
    )
    assert.deepEqual(await valuesOf('lost'), ['garage', 'sauna'])
  })
}

test('the e-mail of a line with a cell too many is found before it and behind it', async () => {
  await importLines(['end@example.com,key,text,garage'], 'email,receiverApiKey,type,value')
  const lines = ['text,pool,end@example.com', 'text,Austin, TX,end@example.com']
  const { rejected, counts } = await importLines(lines, 'type,value,email')
  assert.deepEqual([counts.read, counts.rejected, rejected[0]?.line], [1, 1, 3])
  assert.deepEqual(await valuesOf('end'), ['garage'])
})

for (const [what, lines, path, names] of [
  ['a receiver key', ['x,secret-1,,,,', 'x,,yes,,,', 'x,secret-2,,,,'], 'receiverApiKey', /line 2 and line 4/],
  ['subscribed', ['x,secret-1,yes,,,', 'x,,off,,,'], 'subscribed', /line 2 and line 3/],
  [
    'queries that the receiver takes for one',
    ['x,secret-1,,text,Highway 1,10', 'x,,,text,Highway 11,0'],
    'value',
    /the query on line 2 \(text "Highway 1", radius 10\) and the query on line 3 \(text "Highway 11", radius 0\)/,
  ],
] as const) {
  test(`lines of one user that differ in ${what} are refused, and both are named`, async () => {
    const { rejected } = await importLines(lines.map((line) => line.replace(/^x/, 'differ@example.com')))
    assert.deepEqual([rejected.length, rejected[0]?.path, rejected[0]?.line], [1, path, lines.length + 1])
    assert.match(rejected[0]?.message ?? '', names)
    assert.doesNotMatch(rejected[0]?.message ?? '', /secret/)
    assert.equal(await findUser('differ'), undefined)
  })
}

test('what no line of a user says stays as it was; a new user needs a key', async () => {
  await importLines(['stay@example.com,key,no,text,pool,'])
  const { counts, rejected } = await importLines(['stay@example.com', 'stay@example.com', 'new@example.com'], 'email')
  assert.deepEqual(counts, { ...none, read: 2, unchanged: 1, rejected: 1 })
  assert.deepEqual(
    [rejected[0]?.line, rejected[0]?.path, rejected[0]?.raw.toString()],
    [4, 'receiverApiKey', 'new@example.com'],
  )
  assert.deepEqual([(await findUser('stay'))?.subscribed, await valuesOf('stay')], [false, ['pool']])
  // queries that are given replace those that were there
  await importLines(['stay@example.com,text,sauna'], 'email,type,value')
  assert.deepEqual(await valuesOf('stay'), ['sauna'])
})

test('lines whose e-mail cannot be read are rejected one by one', async () => {
  const { counts, rejected } = await importLines([',k,,,,', 'nobody,k,,,,', 'a,b,c,d,e,f,g', 'nobody,k,,,,'])
  assert.deepEqual(counts, { ...none, read: 4, rejected: 4 })
  assert.deepEqual(
    rejected.map(({ line, message }) => [line, message]),
    [
      [2, 'is missing'],
      [3, 'must be an e-mail address'],
      [4, 'has 7 cells where the header has 6'],
      [5, 'must be an e-mail address'],
    ],
  )
})

test('a file without the column email, or with a column twice, is one message, and none of it goes in', async () => {
  const without = await importLines(['x@example.com,k'], 'mail,receiverApiKey')
  assert.match(without.broken?.message ?? '', /no column email: it has mail, receiverApiKey/)
  const twice = await importLines(['x@example.com,k,k'], 'email,receiverApiKey,RECEIVERAPIKEY')
  assert.match(twice.broken?.message ?? '', /has the column RECEIVERAPIKEY twice/)
  assert.equal(await findUser('x'), undefined)
})

test('standard input is CSV by its first bytes', async () => {
  const text = `${head}\r\nstdin@example.com,key,on,text,"pool, ""large""",\r\n`
  const outcome = await importUsers(opened, ['-'], { stdin: Readable.from([Buffer.from(text)]) })
  assert.equal(outcome.summary.inserted, 1)
  assert.deepEqual(await valuesOf('stdin'), ['pool, "large"'])
})

// They went in without a word, and matched next to nothing.
test('a value that holds several codes or places rejects its user; a place that nobody knows is told with an example', async () => {
  const notes: string[] = []
  const lines = [
    'several-1@example.com,k1,,,"78704, 78705",5',
    'several-2@example.com,k2,,,"Austin, TX; Dallas, TX",5',
    'unknown-1@example.com,k3,,,"Sandy Sprigs, GA",5',
    'unknown-2@example.com,k4,,,"Austn, TX",5',
    'known@example.com,k5,,,"Austin, TX",5',
  ]
  const file = writeInput('several.csv', `${[head, ...lines].join('\n')}\n`)
  const rejected: Rejected[] = []
  const onNote = (note: string) => void notes.push(note)
  const { summary } = await importUsers(opened, [file], { onNote, onRejected: (one) => void rejected.push(one) })
  assert.deepEqual([summary.inserted, summary.rejected], [3, 2])
  assert.deepEqual(
    rejected.map(({ path, message }) => [path, message.replace(/:.*/, '')]),
    [
      ['value', 'holds several postal codes'],
      ['value', 'holds several places'],
    ],
  )
  const [note = ''] = notes.filter((each) => each.includes('place'))
  assert.match(note, /2 text queries like "Sandy Sprigs, GA" look like a place/)
})

test('users are listed in the order of the bytes of their e-mails', async () => {
  await importLines(['b-a@example.com,k,,,,', 'ba@example.com,k,,,,', 'b_a@example.com,k,,,,'])
  const listed: string[] = []
  for await (const page of listUsers(opened.db)) listed.push(...page.map((user) => user.email))
  assert.deepEqual(
    listed,
    listed.toSorted((one, other) => Buffer.compare(Buffer.from(one), Buffer.from(other))),
  )
})
