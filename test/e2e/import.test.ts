/** Listings and users in, through the program (contract 3, 4.10, 4.11): formats, names, what is rejected, what breaks off. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  lchownSync,
  openSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { buildHouse, hrefOf, zip } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { startProgram, testHome } from '../support/program.ts'
import { until } from '../support/until.ts'

const house = await buildHouse({ places: 'all' })

/** The last line of standard output. */
const summaryOf = ({ json }: { json: unknown[] }) => json.at(-1) as Record<string, unknown>

const records = [
  { href: hrefOf(1), postalCode: '78704', price: 100.5, contactName: 'Zoë, "Z"' },
  { href: hrefOf(2), postalCode: '78704', description: 'two\nlines' },
]
const texts = {
  ndjson: toLines(records),
  json: JSON.stringify(records, null, 2),
  csv: '\ufeffhref,postalCode,price,contactName,description\r\n'.concat(
    `${hrefOf(1)},78704,"$100.50","Zoë, ""Z""",\r\n${hrefOf(2)},78704,,,"two\nlines"`,
  ),
}

const counts = (changed: Record<string, number>) => ({
  type: 'summary', read: 2, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0,
  filtered: 0, gone: 0, unplaced: 0, unreadable: {}, ignored: {}, ...changed,
}) // biome-ignore format: in the order in which it is printed

test('the same listings from every format, gzipped or not, by file and by standard input, are the same', async () => {
  const ways = Object.entries(texts).flatMap(([format, text]) => [
    { name: `same.${format}`, bytes: Buffer.from(text) },
    { name: `same.${format}.gz`, bytes: gzipSync(text) },
  ])
  const files = ways.map(({ name, bytes }) => writeInput(name, bytes))
  const ended = await house.call(['leads', 'import', ...files, '--json'])
  assert.equal(ended.code, 0, ended.stderr)
  const all = { ...counts({ inserted: 2, unchanged: 2 * files.length - 2 }), read: 2 * files.length }
  assert.equal(ended.stdout, `${JSON.stringify(all)}\n`)
  for (const { name, bytes } of ways) {
    const read = await house.call(['leads', 'import', '-', '--json'], { input: bytes })
    assert.equal(read.code, 0, `${name}: ${read.stderr}`)
    assert.equal(read.stdout, `${JSON.stringify(counts({ unchanged: 2 }))}\n`, name)
  }
})

test('files go in in their order; --map reads fields from elsewhere; unknown fields are told', async () => {
  const csv = writeInput(
    'mapped.csv',
    'url,zip,list price,href,extra\nhttps://mapped.example/1,78704,"$1,000",ignored,x\n',
  )
  const json = writeInput('mapped.json', '[{"url":"https://mapped.example/1","zip":"00901","list price":5,"other":1}]')
  const maps = ['--map', 'href=url', '--map', 'postalCode=zip', '--map', 'price=list price']
  const { code, json: lines } = await house.call(['leads', 'import', csv, json, ...maps, '--json'])
  assert.equal(code, 0)
  assert.deepEqual(lines, [counts({ inserted: 1, updated: 1, ignored: { href: 1, extra: 1, other: 1 } as never })])
  for (const wrong of ['price', 'nope=x', '=x', 'price=']) {
    const ended = await house.call(['leads', 'import', csv, '--map', wrong])
    assert.deepEqual([ended.code, ended.stdout], [2, ''], wrong)
  }
  const lacking = await house.call(['leads', 'import', csv, '--map', 'href=url='])
  assert.equal(lacking.code, 1)
  assert.match(lacking.stderr, /no column url=, which --map reads href from; did you mean url/)
})

test('a rejected record is reported with its line and path, and kept as it came; the rest goes in', async () => {
  const lines = [
    { line: '{"href":"https://r.example/1","postalCode":"78704"}' },
    { line: '{"href":"https://r.example/2"}', path: 'postalCode' },
    { line: '' },
    { line: '{"postalCode":"78704"}', path: 'href' },
    { line: '{"href":"ftp://r.example/3","postalCode":"78704"}', path: 'href' },
    { line: '{"href":"/r/3","postalCode":"78704"}', path: 'href' },
    { line: `{"href":"https://r.example/${'x'.repeat(2048 - 18)}","postalCode":"78704"}` },
    { line: `{"href":"https://r.example/${'x'.repeat(2048 - 17)}","postalCode":"78704"}`, path: 'href' },
    { line: '{"href":"https://r.example/4","postalCode":"78704","price":"call"}', path: 'price' },
    { line: '{"href":"https://r.example/5","postalCode":"78704","price":-1}', path: 'price' },
    { line: '{"href":"https://r.example/6","postalCode":"78704","price":1000000000000,"sqft":0}' },
    { line: '{"href":"https://r.example/7","postalCode":"78704","price":1000000000001}', path: 'price' },
    { line: '{"href":"https://r.example/8","postalCode":"78704","city":"a\\u0000"}', path: 'city' },
    { line: '{"href":"https://r.example/9","postalCode":"78704","city":"\\ud800"}', path: 'city' },
    { line: '{"href":"https://r.example/10","postalCode":["78704"]}', path: 'postalCode' },
    { line: '["https://r.example/11"]', path: '' },
    { line: '{"href":"https://r.example/12",}', path: '' },
    { line: '{"href":"https://r.example/13","postalCode":"78704","nope":{"a":1}}' },
  ]
  const file = writeInput('rejected.ndjson', lines.map(({ line }) => `${line}\n`).join(''))
  const rejects = join(testHome(), 'rejects.ndjson')
  const ended = await house.call(['leads', 'import', file, '--strict', '--rejects', rejects, '--json'])
  assert.equal(ended.code, 1, ended.stderr)
  const rejected = ended.json.filter(({ type }) => type === 'rejected')
  for (const line of rejected) assert.deepEqual(Object.keys(line), ['type', 'file', 'line', 'path', 'message'])
  const expected = lines.flatMap(({ path }, at) => (path === undefined ? [] : [[at + 1, path]]))
  assert.deepEqual(
    rejected.map(({ line, path }) => [line, path]).sort((a, b) => a[0] - b[0]),
    expected,
  )
  const kept = readFileSync(rejects, 'utf8').split('\n').sort().slice(1)
  assert.deepEqual(kept, lines.flatMap(({ path, line }) => (path === undefined ? [] : [line])).sort())
  const { read, inserted, rejected: bad, ignored } = summaryOf(ended)
  assert.deepEqual([read, inserted, bad, ignored], [17, 4, 13, { nope: 1 }])
})

test('a value that cannot be read, or a code in no table, costs no listing: it is told, counted, shown by example', async () => {
  const csv = 'href,postalCode,price,sqft,contactName\n'.concat(
    `${hrefOf('v1')},MA 02138,"$350,000","1,850 sqft",Zoë\n`,
    `${hrefOf('v2')},00000,call,n/a,Zoë\n`,
    `${hrefOf('v3')},84321.0,"\u009b300-350K",TBD,Zoë\n`,
  )
  const file = writeInput('values.csv', csv)
  const ended = await house.call(['leads', 'import', file, '--null', 'N/A', '--null', 'tbd'])
  assert.equal(ended.code, 0, ended.stderr)
  assert.deepEqual(
    ended.stdout
      .split('\n')
      .map((line) => line.replace(/ +/g, ' '))
      .slice(0, -1),
    [
      `${file}:3 unreadable price cannot be read as a number without a guess: "call"`,
      `${file}:3 unplaced postalCode is in no table, so only a query for this very code finds the listing: "00000"`,
      'read 3 records',
      'inserted 3',
      'updated 0',
      'unchanged 0',
      'unplaced 1 listing with a postal code in no table, such as "00000"',
      'unreadable values, taken as unknown: price 2, such as "call"',
    ],
  )
  const json = await house.call(['leads', 'import', file, '--json'])
  const { unreadable, unplaced, unchanged } = summaryOf(json)
  assert.deepEqual([json.code, json.json.length, unchanged, unplaced, unreadable], [0, 1, 3, 1, { price: 2, sqft: 2 }])
  assert.deepEqual(json.json.at(-1).examples.sqft, {
    file, line: 3, message: 'cannot be read as a number without a guess: "n/a"', value: '"n/a"',
  }) // biome-ignore format: as it is printed
  const strict = await house.call(['leads', 'import', file, '--strict', '--json'])
  assert.deepEqual([strict.code, strict.json.map(({ type, line, path }) => [type, line, path])], [
    1,
    [['rejected', 3, 'price'], ['rejected', 4, 'price'], ['summary', undefined, undefined]],
  ]) // biome-ignore format: as it is printed
  assert.match(strict.json[1].message, /: "\\u009b300-350K"$/)
  const helped = await house.call(['leads', 'import', '--help'])
  for (const option of ['--null', '--strict']) assert.ok(helped.stdout.includes(option))
})

test('an unknown value wipes nothing out, a 0 is a value, and of two records of a listing the later counts alone', async () => {
  const href = hrefOf('known')
  const put = async (...some: object[]) => {
    const ended = await house.call(['leads', 'import', '-', '--json'], { input: toLines(some) })
    assert.equal(ended.code, 0, ended.stdout)
    return summaryOf(ended)
  }
  await put({ href, postalCode: '01234', price: 5, yearBuilt: 1950, city: 'Austin', fullAddress: 'x' })
  assert.equal((await put({ href, price: null, city: '', yearBuilt: 0, fullAddress: null })).unchanged, 1)
  assert.equal((await put({ href, price: 0 })).updated, 1)
  const twice = await put({ href, price: 7, city: 'Dallas' }, { href, bedrooms: 3 })
  assert.deepEqual([twice.read, twice.updated, twice.repeated], [2, 1, 1])
  await house.put('users', [{ email: 'known@example.com', receiverApiKey: 'k', queries: [zip('1234')] }])
  const { stdout } = await house.call('preview --user known@example.com --body')
  const [lead] = JSON.parse(stdout).fsbos
  assert.deepEqual(
    [lead.price, lead.yearBuilt, lead.city, lead.fullAddress, lead.bedrooms, lead.postalCode],
    [0, 1950, 'Austin', 'x', 3, '01234'],
  )
})

test('nothing of a file that breaks off goes in, and the files before it stay in', async () => {
  const good = (name: string) => ({ href: `https://broken.example/${name}`, postalCode: '78704' })
  const zipped = gzipSync(toLines(Array.from({ length: 2_000 }, (_, at) => good(`${at}-${Math.random()}`))))
  const cases: [string, string | Buffer][] = [
    ['broken.ndjson', `${toLines([good('b')])}{"href":"https://broken.example/c`],
    ['broken.json', `[${JSON.stringify(good('b'))},`],
    ['broken.csv', `href,postalCode\nhttps://broken.example/b,78704\n"https://broken.example/c,78704\n`],
    ['broken.ndjson.gz', zipped.subarray(0, zipped.length - 9)],
    ['none.ndjson.gz', Buffer.from(toLines([good('b')]))],
  ]
  const check = async ([name, content]: (typeof cases)[number]) => {
    const before = writeInput(`before-${name}.ndjson`, toLines([good(`before ${name}`.replaceAll(' ', '-'))]))
    const after = writeInput(`after-${name}.ndjson`, toLines([good('never')]))
    const broken = writeInput(name, content)
    const ended = await house.call(['leads', 'import', before, broken, after, '--json'])
    assert.equal(ended.code, 1, name)
    assert.deepEqual(summaryOf(ended), { ...counts({ inserted: 1 }), read: 1 }, name)
    assert.ok(ended.stderr.includes(broken), ended.stderr)
  }
  for (const one of cases) await check(one)
  const whole = writeInput('no-line-end.ndjson', toLines([good('b')]).trimEnd())
  const ended = await house.call(['leads', 'import', whole, '--json'])
  assert.deepEqual([ended.code, summaryOf(ended).inserted], [0, 1])
})

test('wrong usage of the imports ends with 2 before anything is done', async () => {
  const file = writeInput('usage.ndjson', toLines(records))
  for (const args of [
    ['leads', 'import'],
    ['leads', 'import', file, '/nowhere/at-all.ndjson'],
    ['leads', 'import', testHome()],
    ['leads', 'import', '-', '-'],
    ['leads', 'import', writeInput('what.xls', 'x')],
    ['leads', 'import', file, '--rejects', '/nowhere/rejects'],
    ['users', 'import', writeInput('users.xls', 'x')],
    ['users', 'import', '/nowhere/users.json'],
  ]) {
    const ended = await house.call(args)
    assert.deepEqual([ended.code, ended.stdout], [2, ''], `${args}: ${ended.stderr}`)
  }
})

test('--rejects writes nothing into what another user has put there', { skip: process.getuid?.() !== 0 }, async () => {
  // contacts and receiver keys went into a stranger's file, through a stranger's link, into a stranger's pipe
  const file = writeInput('strange.ndjson', toLines([...records, { href: 'x', contactEmail: 'owner@example.com' }]))
  const [stranger, reader] = [12_345, constants.O_RDONLY | constants.O_NONBLOCK]
  const own = writeInput('own.ndjson', 'as it was\n')
  const [theirs, link, pipe] = ['theirs.ndjson', 'link.ndjson', 'rejects.pipe'].map((name) => join(testHome(), name))
  writeFileSync(theirs as string, 'as it was\n')
  symlinkSync(own, link as string)
  assert.equal(spawnSync('mkfifo', [pipe as string]).status, 0)
  const fd = openSync(pipe as string, reader)
  for (const path of [theirs, link, pipe] as string[]) {
    lchownSync(path, stranger, stranger)
    const ended = await house.call(['leads', 'import', file, '--rejects', path])
    assert.equal(ended.code, 2, path)
    assert.match(ended.stderr, /belongs to another user/)
  }
  closeSync(fd)
  for (const path of [theirs, own] as string[]) assert.equal(readFileSync(path, 'utf8'), 'as it was\n')
  const ownLink = join(testHome(), 'own-link.ndjson')
  symlinkSync(own, ownLink)
  assert.equal((await house.call(['leads', 'import', file, '--rejects', ownLink])).code, 1)
  assert.match(readFileSync(own, 'utf8'), /owner@example.com/)
})

test('--rejects into a pipe is wrong usage', { skip: !fstatSync(1).isFIFO() && !fstatSync(1).isSocket() }, async () => {
  // it was told that the folder of the pipe did not exist
  const file = writeInput('piped.ndjson', toLines([{ href: 'x' }]))
  const { code, stderr } = await house.call(['leads', 'import', file, '--rejects', '/dev/stdout'])
  assert.equal(code, 2)
  assert.match(stderr, /^error: --rejects \/dev\/stdout cannot be written: it is not a file\.$/m)
})

test('--rejects takes no file that the import reads, and wrong usage leaves its file as it was', async () => {
  // the map file was emptied, and so was the last file of rejects by a command that did nothing
  const file = writeInput('read.csv', `url,postalCode\n${hrefOf('read')},78704\nx,78704\n`)
  const mapFile = writeInput('read.map', 'href=url\n')
  const args = ['leads', 'import', file, '--map-file', mapFile, '--rejects']
  const refused = await house.call([...args, mapFile])
  assert.deepEqual([refused.code, readFileSync(mapFile, 'utf8')], [2, 'href=url\n'])
  assert.match(refused.stderr, /read\.map is the map file, and would be overwritten/)
  const rejects = writeInput('last.csv', 'of the last import\n'.repeat(9))
  chmodSync(rejects, 0o644)
  const wrong = await house.call([...args, rejects, '--where', 'nope=x'])
  assert.deepEqual([wrong.code, readFileSync(rejects, 'utf8')], [2, 'of the last import\n'.repeat(9)], wrong.stderr)
  // its contacts and receiver keys stayed open to everybody, and to processes that had opened it before
  const opened = openSync(rejects, 'r')
  const ended = await house.call([...args, rejects])
  assert.deepEqual([ended.code, readFileSync(rejects, 'utf8')], [1, 'url,postalCode\nx,78704\n'], ended.stderr)
  assert.equal(statSync(rejects).mode & 0o777, 0o600)
  assert.equal(readFileSync(opened, 'utf8'), 'of the last import\n'.repeat(9))
  closeSync(opened)
  const whole = await house.call([
    'leads',
    'import',
    writeInput('whole.ndjson', toLines(records)),
    '--rejects',
    rejects,
  ])
  assert.deepEqual([whole.code, readFileSync(rejects, 'utf8')], [0, ''])
})

test('users are inserted and brought up to date: what is left out keeps its value, queries are replaced, the last wins', async () => {
  const own = await buildHouse()
  const put = async (some: object[]) => {
    const ended = await own.call(['users', 'import', '-', '--json'], { input: toLines(some) })
    return { code: ended.code, lines: ended.json }
  }
  const summary = (changed: Record<string, unknown>) => ({
    type: 'summary', read: 1, inserted: 0, updated: 0, unchanged: 0, rejected: 0, repeated: 0, erased: 0, folded: 0,
    unsubscribed: 0, ignored: {}, ...changed,
  }) // biome-ignore format: in the order in which it is printed
  const first = await put([
    { email: 'B@example.com', receiverApiKey: 'old', queries: [zip('1')] },
    {
      email: 'b@EXAMPLE.com',
      receiverApiKey: '~'.repeat(50),
      queries: [zip('78704', 2.5), { type: 'text', value: 'pool' }],
    },
    { email: 'a@example.com', receiverApiKey: 'k', subscribed: false, note: 1 },
    { email: 'c@example.com', queries: [] },
  ])
  assert.equal(first.code, 1)
  assert.deepEqual(first.lines, [
    { type: 'rejected', file: '-', line: 4, path: 'receiverApiKey', message: 'is missing: a new user needs one' },
    summary({ read: 4, inserted: 2, rejected: 1, repeated: 1, ignored: { note: 1 } }),
  ])
  assert.deepEqual((await put([{ email: 'b@example.com', queries: null, subscribed: null }])).lines, [
    summary({ unchanged: 1 }),
  ])
  const listed = await own.call('users list --json')
  assert.deepEqual(listed.json, [
    { type: 'user', email: 'a@example.com', subscribed: false, queries: [] },
    {
      type: 'user',
      email: 'b@example.com',
      subscribed: true,
      queries: [zip('78704', 2.5), { type: 'text', value: 'pool', radius: 0 }],
    },
  ])
  assert.doesNotMatch(listed.stdout, /~~/)
  assert.deepEqual((await put([{ email: 'b@example.com', queries: [] }])).lines, [summary({ updated: 1 })])
  assert.equal(own.receiver.requests.length, 0)
  const pushed = await own.call('push --resume --json')
  assert.deepEqual([pushed.code, pushed.json.at(-1).deliveries], [0, 0])
})

test('users beyond each limit are refused, those at the limit are taken, and the fault is named', async () => {
  const base = { email: 'limit@example.com', receiverApiKey: 'k' }
  const q = (value: string, radius: unknown = 0, type = 'text') => ({ type, value, radius })
  const cases: [object, string | undefined, RegExp?][] = [
    [{ ...base, receiverApiKey: '!'.repeat(50) }, undefined],
    [{ ...base, receiverApiKey: '!'.repeat(51) }, 'receiverApiKey'],
    [{ ...base, receiverApiKey: '' }, 'receiverApiKey'],
    [{ ...base, receiverApiKey: 'two words' }, 'receiverApiKey'],
    [{ ...base, email: `${'x'.repeat(254 - 12)}@example.com` }, undefined],
    [{ ...base, email: `${'x'.repeat(255 - 12)}@example.com` }, 'email'],
    [{ ...base, email: 'nobody' }, 'email'],
    [{ receiverApiKey: 'k' }, 'email'],
    [{ ...base, subscribed: 'yes' }, 'subscribed'],
    [{ ...base, queries: [q('x'.repeat(500))] }, undefined],
    [{ ...base, queries: [q('x'.repeat(501))] }, 'queries[0].value'],
    [{ ...base, queries: [q('')] }, 'queries[0].value'],
    [{ ...base, queries: [q('the')] }, 'queries[0].value'],
    [{ ...base, queries: [q('pool'), q('1', 0, 'city')] }, 'queries[1].type'],
    [{ ...base, queries: [q('1', 100, 'zipcode')] }, undefined],
    [{ ...base, queries: [q('1', 100.001, 'zipcode')] }, 'queries[0].radius'],
    [{ ...base, queries: [q('1', -0.001, 'zipcode')] }, 'queries[0].radius'],
    [{ ...base, queries: [q('1', '5', 'zipcode')] }, 'queries[0].radius'],
    [{ ...base, queries: [q('pool', 5), q('spa'), q('pool', 5)] }, undefined],
    [
      { ...base, queries: [q('7870', 45, 'zipcode'), q('78704', 5)] },
      'queries[1]',
      /"7870", radius 45.*"78704", radius 5/,
    ],
    [{ ...base, queries: Array.from({ length: 1_000 }, (_, at) => q(String(10_000 + at), 0, 'zipcode')) }, undefined],
    [{ ...base, queries: Array.from({ length: 1_001 }, (_, at) => q(String(10_000 + at), 0, 'zipcode')) }, 'queries'],
  ]
  const ended = await house.call(['users', 'import', '-', '--json'], {
    input: toLines(cases.map(([record]) => record)),
  })
  assert.equal(ended.code, 1)
  const rejected = new Map(ended.json.filter(({ type }) => type === 'rejected').map((line) => [line.line, line]))
  for (const [at, [record, path, pattern]] of cases.entries()) {
    const line = rejected.get(at + 1)
    assert.equal(line?.path, path, `${JSON.stringify(record).slice(0, 200)}: ${line?.message}`)
    if (pattern) assert.match(line.message, pattern)
  }
})

test('a stop ends the import of a pipe to which nobody writes, and a database that goes away does not begin one again', {
  skip: process.platform !== 'linux',
}, async () => {
  // a thread waited for the pipe's writer, so that no signal ended the process; and the rest of a pipe was taken for the whole file
  const pipe = join(testHome(), 'pipe.ndjson')
  assert.equal(spawnSync('mkfifo', [pipe]).status, 0)
  const { pool, close } = await house.database.open()
  const ofCopy = `from pg_stat_activity where datname = current_database() and state = 'active' and query like 'copy staged_%'`
  const readers = async () => (await pool.query(`select 1 ${ofCopy}`)).rows.length
  const startReading = async (what = 'leads', ...more: string[]) => {
    await until('the server is done with the one before', async () => (await readers()) === 0)
    const program = startProgram([what, 'import', pipe, '--json', ...more], { env: house.env })
    await until('it reads', async () => (await readers()) > 0)
    return program
  }
  // a stopped import ended with 1, as if a record had been rejected
  for (const [code, signal, ...args] of [
    [129, 'SIGHUP', 'users'],
    [130, 'SIGINT', 'leads', '--trigger'],
    [143, 'SIGTERM', 'leads'],
  ] as const) {
    const stopped = await startReading(...args)
    stopped.kill(signal)
    const { json, stderr, ...ended } = await stopped.done
    assert.deepEqual([ended.code, json.map(({ type, read }) => [type, read])], [code, [['summary', 0]]], stderr)
    assert.match(stderr, /The import was stopped: nothing of the file under way went in\.$/m)
  }

  const writer = openSync(pipe, constants.O_RDWR)
  writeSync(writer, toLines([{ href: 'https://piped.example/1', postalCode: '78704' }]))
  const cutOff = await startReading()
  await pool.query(`select pg_terminate_backend(pid) ${ofCopy}`)
  assert.equal((await cutOff.done).code, 3, cutOff.stderr())
  closeSync(writer)
  await close()
})
