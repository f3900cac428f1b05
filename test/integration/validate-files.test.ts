import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { packageRoot } from '../../src/base/package-root.ts'
import type { Finding } from '../../src/inspect/finding.ts'
import { checkFiles, findFiles } from '../../src/inspect/validate/files.ts'
import { completeLead, type Lead, leadFields } from '../../src/leads/lead.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { callProgram, testHome } from '../support/program.ts'

let written = 0
const write = (text: string | Buffer, ending: string) => writeInput(`validate-${++written}.${ending}`, text)

async function check(...names: string[]) {
  const counts = { files: 0, records: 0 }
  const findings: Finding[] = []
  for await (const finding of checkFiles(findFiles(names), counts)) findings.push(finding)
  const problems = findings.filter(({ level }) => level === 'problem')
  return { findings, problems, counts, paths: problems.map(({ path }) => path) }
}

const leadNumber = (n: number, fields: Partial<Lead> = {}): Lead => ({
  ...completeLead({ href: `https://listings.example/${n}`, postalCode: '78704' }),
  ...fields,
})
const leads = (count: number) => Array.from({ length: count }, (_, n) => leadNumber(n))
const query = (fields: object = {}) => ({ type: 'zipcode', value: '78704', radius: 5, ...fields })
const queries = (count: number) =>
  Array.from({ length: count }, (_, n) => query({ value: `1${String(n).padStart(4, '0')}` }))

const checkBytes = (bytes: string | Buffer) => check(write(bytes, 'json'))
const checkBody = (queryList: unknown, fsbos: unknown, more: object = {}) =>
  checkBytes(JSON.stringify({ queryList, fsbos, ...more }))
const checkLead = (fields: object) => checkBody([query()], [{ ...leadNumber(1), ...fields }])
const checkQuery = (fields: object) => checkBody([query(fields)], [])

test('a body as a push sends it is right, with leads and without', async () => {
  const full = leadNumber(2, { fullAddress: '1 Main St', price: 0.5, description: 'ünïcode 🏡', yearBuilt: 1999 })
  assert.deepEqual((await checkBody([query()], [leadNumber(1), full])).findings, [])
  assert.deepEqual((await checkBody([query()], [])).findings, [])
})

test('a stop ends the reading of a pipe through which no body comes', {
  skip: process.platform !== 'linux',
}, async () => {
  const pipe = join(testHome(), 'body.json')
  assert.equal(spawnSync('mkfifo', [pipe]).status, 0)
  const writer = openSync(pipe, constants.O_RDWR)
  const stop = new AbortController()
  const found = checkFiles(findFiles([pipe]), { files: 0, records: 0 }, stop.signal).next()
  setTimeout(() => stop.abort(), 100)
  const { done } = await Promise.race([found, sleep(60_000, { done: undefined }, { ref: false })])
  // or a thread would wait on
  closeSync(writer)
  assert.equal(done, true)
})

test('every field of a lead must be there, but for fullAddress', async () => {
  for (const { name } of leadFields) {
    const { [name]: _, ...rest } = leadNumber(1, { fullAddress: '1 Main St' })
    const { problems } = await checkBody([query()], [rest])
    if (name === 'fullAddress') assert.deepEqual(problems, [])
    else
      assert.deepEqual(
        problems.map(({ path, what }) => [path, what]),
        [[`fsbos[0].${name}`, 'is missing']],
      )
  }
})

test('a field that is unknown has its default, and null only where that is null', async () => {
  for (const field of leadFields) {
    const { paths } = await checkLead({ [field.name]: null })
    const isNull = 'default' in field && field.default === null
    assert.deepEqual(paths, isNull ? [] : [`fsbos[0].${field.name}`], field.name)
  }
})

test('numbers are numbers from 0 to 1e12, and text is text', async () => {
  for (const { name, kind } of leadFields) {
    const wrong = kind === 'number' ? ['1', true, -1, 1e12 + 1] : [1, true, {}, '\0', '\ud800']
    for (const value of wrong) assert.deepEqual((await checkLead({ [name]: value })).paths, [`fsbos[0].${name}`])
    for (const value of kind === 'number' ? [0, 0.1, 1e12] : []) {
      assert.deepEqual((await checkLead({ [name]: value })).paths, [])
    }
  }
})

test('href is an absolute http: or https: URL of at most 2,048 bytes', async () => {
  const ofBytes = (bytes: number) => `https://listings.example/${'a'.repeat(bytes - 25)}`
  for (const [href, isRight] of [
    ['http://listings.example/1', true],
    ['/1', false],
    ['ftp://listings.example/1', false],
    ['', false],
    [ofBytes(2_048), true],
    [ofBytes(2_049), false],
  ] as const) {
    assert.deepEqual((await checkLead({ href })).paths, isRight ? [] : ['fsbos[0].href'], href)
  }
})

test('no other field is allowed, and each is named', async () => {
  const { paths } = await checkBody([query({ hash: 'x' })], [{ ...leadNumber(1), id: 1, score: 2 }], { sentAt: 'now' })
  assert.deepEqual(paths.sort(), ['fsbos[0].id', 'fsbos[0].score', 'queryList[0].hash', 'sentAt'])
})

test('queryList and fsbos must be there and be lists', async () => {
  assert.deepEqual((await checkBytes('{"fsbos":[]}')).paths, ['queryList'])
  assert.deepEqual((await checkBytes('{"sent":{"a":[1,"}"]},"queryList":[]}')).paths.sort(), ['fsbos', 'sent'])
  assert.deepEqual((await checkBody({}, 'x')).paths, ['queryList', 'fsbos'])
  assert.deepEqual((await checkBody([1], [null])).paths, ['queryList[0]', 'fsbos[0]'])
  // no body: an import would take nothing of them either
  for (const text of ['{}', '[]', 'null', '1', '"x"']) assert.equal((await checkBytes(text)).paths.at(-1), '', text)
})

test('a query gives type, value and radius within their limits', async () => {
  for (const [fields, path] of [
    [{ type: 'text' }, undefined],
    [{ type: 'city' }, 'type'],
    [{ type: undefined }, 'type'],
    [{ value: '' }, 'value'],
    [{ value: 78704 }, 'value'],
    [{ value: '🏡'.repeat(500) }, undefined],
    [{ value: '🏡'.repeat(501) }, 'value'],
    [{ radius: undefined }, 'radius'],
    [{ radius: '5' }, 'radius'],
    [{ radius: -0.1 }, 'radius'],
    [{ radius: 0 }, undefined],
    [{ radius: 100 }, undefined],
    [{ radius: 100.1 }, 'radius'],
  ] as const) {
    const { paths } = await checkQuery(fields)
    assert.deepEqual(paths, path === undefined ? [] : [`queryList[0].${path}`], JSON.stringify(fields).slice(0, 40))
  }
  assert.deepEqual((await checkBody(queries(1_000), [])).paths, [])
  assert.deepEqual((await checkBody(queries(1_001), [])).paths, ['queryList'])
})

test('300 leads a query are allowed, and one more is not', async () => {
  assert.deepEqual((await checkBody(queries(1), leads(299))).paths, [])
  assert.deepEqual((await checkBody(queries(1), leads(300))).paths, [])
  assert.deepEqual((await checkBody(queries(1), leads(301))).paths, ['fsbos'])
  assert.deepEqual((await checkBody(queries(2), leads(600))).paths, [])
  assert.deepEqual((await checkBody(queries(2), leads(601))).paths, ['fsbos'])
})

test('a lead stands in a body once, and no two queries have one hash', async () => {
  assert.deepEqual((await checkBody([query()], [...leads(2), leadNumber(0), leadNumber(1)])).paths, [
    'fsbos[2].href',
    'fsbos[3].href',
  ])
  const same = [query({ value: '1', radius: 23 }), query({ value: '12', radius: 3, type: 'text' })]
  const { problems } = await checkBody([query(), ...same], [])
  assert.deepEqual(
    problems.map(({ path }) => path),
    ['queryList[2]'],
  )
  assert.match(problems[0]?.what ?? '', /query 1/)
  assert.deepEqual((await checkBody([query({ radius: 5 }), query({ radius: 5.5 })], [])).paths, [])
})

test('a fault of one entry hides no conflict between entries', async () => {
  const { paths } = await checkBody([query(), query()], [...leads(2), { ...leadNumber(0), price: 'x' }])
  assert.deepEqual(paths.sort(), ['fsbos[2].href', 'fsbos[2].price', 'queryList[1]'])
})

test('a body has at most 5,000,000 bytes', async () => {
  const padded = (bytes: number) => {
    const body = (text: string) =>
      Buffer.from(JSON.stringify({ queryList: [query()], fsbos: [leadNumber(1, { description: text })] }))
    return body('a'.repeat(bytes - body('').length))
  }
  for (const bytes of [4_999_999, 5_000_000]) {
    assert.equal(padded(bytes).length, bytes)
    assert.deepEqual((await checkBytes(padded(bytes))).problems, [])
  }
  const { problems } = await checkBytes(padded(5_000_001))
  assert.deepEqual(
    problems.map(({ path, what }) => [path, what]),
    [['', 'has 5000001 bytes: at most 5000000']],
  )
})

test('a body is UTF-8 JSON without a byte order mark', async () => {
  const right = Buffer.from(JSON.stringify({ queryList: [query()], fsbos: [leadNumber(1, { city: 'MARK' })] }))
  const broken = Buffer.from(right)
  broken[broken.indexOf('MARK')] = 0xff
  for (const [bytes, message] of [
    [broken, /UTF-8/],
    [Buffer.concat([Buffer.from('\ufeff'), right]), /byte order mark/],
    [right.subarray(0, -1), /no valid JSON/],
    [Buffer.from(''), /empty/],
  ] as const) {
    const { problems } = await checkBytes(bytes)
    assert.equal(problems.length, 1)
    assert.match(problems[0]?.what ?? '', message)
  }
})

test('a leads file is held to the rules of the import, each record by its line', async () => {
  const lines = toLines([
    { href: 'https://listings.example/1', postalCode: '78704', price: 0 },
    { href: 'https://listings.example/2', postalCode: '78704', price: 'call' },
    { href: 'https://listings.example/3' },
    { href: 'https://listings.example/4', postalCode: ' - ' },
    { postalCode: '78704' },
    { href: 'https://listings.example/5', postalCode: '78704', colour: 'red' },
  ])
  for (const file of [write(lines, 'ndjson'), write(gzipSync(lines), 'ndjson.gz')]) {
    const { problems, findings, counts } = await check(file)
    assert.deepEqual(
      problems.map(({ where, path }) => [where, path]),
      [
        [`${file}:3`, 'postalCode'],
        [`${file}:4`, 'postalCode'],
        [`${file}:5`, 'href'],
      ],
    )
    assert.deepEqual(
      findings.filter(({ level }) => level === 'note').map(({ path }) => path),
      ['price', 'colour'],
    )
    assert.deepEqual(counts, { files: 1, records: 6 })
  }
})

test('a record of a CSV file is named by the line on which it begins', async () => {
  const csv = 'href,postalCode,price,description\n'
  const rows = [
    'https://listings.example/1,78704,"$350,000","two\nlines"',
    'https://listings.example/2, - ,cheap,',
    'https://listings.example/3,78704,1,,x',
  ]
  const file = write(`${csv}${rows.join('\n')}\n`, 'csv')
  const { problems } = await check(file)
  assert.deepEqual(
    problems.map(({ where, path }) => [where, path]),
    [
      [`${file}:4`, 'postalCode'],
      [`${file}:5`, ''],
    ],
  )
})

test('a leads file that breaks off is a problem of the file', async () => {
  const line = '{"href":"https://listings.example/1","postalCode":"78704"}\n'
  const cut = [
    write(`${line}{"href":`, 'ndjson'),
    write(gzipSync(line).subarray(0, -6), 'ndjson.gz'),
    write('href,postalCode\n"https://listings.example/1', 'csv'),
    write('href,postalCode,href\nhttps://listings.example/1,78704,x\n', 'csv'),
  ]
  for (const file of cut) {
    const { problems } = await check(file)
    assert.deepEqual(
      problems.map(({ where, path }) => [where, path]),
      [[file, '']],
    )
  }
})

test('validate FILE… exits 1 for a problem, 0 for none, and needs no database', async () => {
  const env = { DATABASE_URL: 'postgresql://leadpush@127.0.0.1:1/leadpush' }
  const right = write(JSON.stringify({ queryList: [query()], fsbos: leads(2) }), 'json')
  const wrong = write(
    JSON.stringify({ queryList: [query()], fsbos: [...leads(3), leadNumber(4, { price: -1 })] }),
    'json',
  )
  const good = write(toLines([{ href: 'https://listings.example/1', postalCode: '78704' }]), 'ndjson')
  const fine = await callProgram(['validate', right, good, '--json'], { env })
  assert.equal(fine.code, 0)
  assert.deepEqual(fine.json, [{ type: 'summary', problems: 0, notes: 0, files: 2, records: 1 }])
  const bad = await callProgram(['validate', right, wrong, '--json'], { env })
  assert.equal(bad.code, 1)
  assert.deepEqual(bad.json, [
    { type: 'problem', code: 'body', where: wrong, path: 'fsbos[3].price', message: 'must be from 0 to 1000000000000' },
    { type: 'summary', problems: 1, notes: 0, files: 2, records: 0 },
  ])
  const text = await callProgram(['validate', wrong], { env })
  assert.equal(text.code, 1)
  assert.match(text.stdout, /fsbos\[3\]\.price must be from 0/)
})

test('a file that is not there, and a folder, is wrong usage, and nothing is checked', async () => {
  const wrong = write('{}', 'json')
  for (const name of [`${wrong}.gone.json`, `${wrong}.gone.csv`, '/tmp']) {
    const { code, stdout } = await callProgram(['validate', wrong, name, '--json'])
    assert.deepEqual([code, stdout], [2, ''], name)
  }
  const unknown = await callProgram(['validate', wrong], { env: { LEADPUSH_TYPO: '1' } })
  assert.deepEqual([unknown.code, unknown.stdout], [2, ''])
})

// A .json file had to be a delivery body: users and listings that an import takes were problems.
test('the sample files and a feed are judged as their imports do, under any name, and from standard input', async () => {
  const fileOf = (name: string) => join(packageRoot, name)
  const map = ['--map-file', fileOf('examples/feeds/schema-org.map')]
  for (const args of [
    [fileOf('demo/users.json')],
    [fileOf('demo/leads.csv')],
    [fileOf('examples/feeds/schema-org.json'), ...map],
    [write(readFileSync(fileOf('demo/users.json')), 'txt')],
  ]) {
    const { code, stdout } = await callProgram(['validate', ...args])
    assert.equal(code, 0, `${args}: ${stdout}`)
  }
  const body = JSON.stringify({ queryList: [query()], fsbos: leads(2) })
  for (const [input, expected] of [
    [readFileSync(fileOf('demo/users.json')), 0],
    [readFileSync(fileOf('demo/leads.csv')), 0],
    ['href,postalCode\nhttps://listings.example/1,78704\nno,78704\n', 1],
    ['', 1],
    [body, 0],
    [body.replace('"radius":5', '"radius":500'), 1],
  ] as const) {
    const { code, stdout } = await callProgram(['validate', '-'], { input })
    assert.equal(code, expected, stdout)
  }
  assert.equal((await callProgram(['validate', write(body, 'doc')])).code, 0)
  assert.match((await callProgram(['validate', write('a,b', 'doc')])).stdout, /its name does not tell its format/)
})

test('users in CSV are judged whole: what one line leaves out another has, and lines that differ are a problem', async () => {
  const lines = [
    'a@example.com,key,zipcode,78704',
    'b@example.com,,text,pool',
    'a@example.com,,text,pool',
    'b@example.com,k,,',
  ]
  assert.deepEqual((await check(write(['email,receiverApiKey,type,value', ...lines].join('\n'), 'csv'))).problems, [])
  const differ = ['email,receiverApiKey,value', 'a@example.com,one,78704', 'b@example.com,k,pool', 'a@example.com,two,']
  const { problems } = await check(write(differ.join('\n'), 'csv'))
  assert.deepEqual(
    problems.map(({ where, path }) => [where.replace(/.*:/, ''), path]),
    [['4', 'receiverApiKey']],
  )
  const [lacking, the] = (await check(write(toLines([
    { email: 'a@example.com' }, { email: 'b@example.com', receiverApiKey: 'k', queries: [{ value: 'the' }] },
  ]), 'ndjson'))).problems // biome-ignore format: short
  assert.match(`${lacking?.path} ${lacking?.what}`, /^receiverApiKey is missing: only a user who is known/)
  assert.match(`${the?.path} ${the?.what}`, /^queries\[0\]\.value has no word to search for/)
})

test('a file of users with other names is one problem with the command that fits, and --map of users reads it', async () => {
  const file = write('E-mail,API key,ZIP\na@example.com,key,78704\n', 'csv')
  const { code, stdout } = await callProgram(['validate', file])
  const fits = ['--map', 'email=E-mail', '--map', 'receiverApiKey=API key', '--map', 'value=ZIP']
  assert.equal(code, 1)
  assert.ok(
    stdout.includes(`leadpush validate ${file} --map email=E-mail --map 'receiverApiKey=API key' --map value=ZIP`),
    stdout,
  )
  assert.equal((await callProgram(['validate', file, ...fits])).code, 0)
  assert.equal((await callProgram(['validate', file, '--map', 'value=ZIP', '--map', 'price=x'])).code, 2)
})

test('files of users are told from files of listings, in every format, and a map names the columns of listings', async () => {
  const user = { email: 'a@example.com', receiverApiKey: 'k', queries: [query()] }
  const wrong = { ...user, queries: [query({ radius: 200 })] }
  for (const name of [
    write(toLines([user, wrong]), 'ndjson'),
    write(gzipSync(JSON.stringify({ users: [user, wrong] })), 'json.gz'),
    write('email,receiverApiKey,value,radius\na@example.com,k,78704,5\na@example.com,,78704,200\n', 'csv'),
  ]) {
    const { problems, counts } = await check(name)
    assert.deepEqual([counts.records, problems.length], [2, 1], name)
    assert.match(problems[0]?.path ?? '', /radius$/, name)
  }
  const good = Array.from({ length: 5 }, (_, n) => `https://listings.example/${n},78704\n`)
  const file = write(`link,zip\n${good.join('')}x,78704\n`, 'csv')
  const named = await callProgram(['validate', file])
  assert.equal(named.code, 1)
  assert.ok(named.stdout.includes(`leadpush validate ${file} --map href=link --map postalCode=zip`), named.stdout)
  const map = writeInput('validate.map', 'href=link\npostalCode=zip\n')
  const { code, json } = await callProgram(['validate', file, '--map-file', map, '--json'])
  assert.deepEqual([code, json.filter(({ type }) => type === 'problem').map(({ where }) => where)], [1, [`${file}:7`]])
})

test('a file of listings is read by the options that its import takes; without a file they are wrong usage', async () => {
  // --where, --null and --strict were unknown here, so what was found was not what the import would find
  const file = write(
    'href,postalCode,price,status\nhttps://listings.example/1,78704,TBD,Active\nhttps://listings.example/2,78704,1,Sold\n',
    'csv',
  )
  const validate = async (...options: string[]) => {
    const { code, json } = await callProgram(['validate', file, '--json', ...options])
    const found = json.filter(({ path }) => path !== 'status').slice(0, -1)
    return [code, found.map(({ type, path }) => `${type} ${path}`), json.at(-1).filtered]
  }
  assert.deepEqual(await validate(), [0, ['note price'], undefined])
  assert.deepEqual(await validate('--strict'), [1, ['problem price'], undefined])
  assert.deepEqual(await validate('--strict', '--null', 'tbd'), [0, [], undefined])
  assert.deepEqual(await validate('--strict', '--where', 'status!=active'), [0, [], 1])
  assert.deepEqual(await validate('--where', 'colour=red'), [1, ['problem '], 0])

  // a spoilt line among records that are not taken made it say twice that nothing can be read
  const spoilt = write(`${JSON.stringify({ href: 'https://example.com/1', postalCode: '1' })}\n{"\n`, 'ndjson')
  const { json } = await callProgram(['validate', spoilt, '--json', '--where', 'state=TX'])
  assert.deepEqual(
    json.map(({ type, where }) => [type, where]),
    [
      ['problem', `${spoilt}:2`],
      ['summary', undefined],
    ],
  )

  // they were taken in silence for users, whose import has no such option
  const users = write('email,receiverApiKey,value\na@x.example,key-a,78704\n', 'csv')
  const unfit = await callProgram(['validate', users, '--json', '--where', 'a=b', '--null', 'x', '--strict'])
  assert.equal(unfit.code, 1)
  assert.deepEqual(
    unfit.json.filter(({ type }) => type === 'problem').map(({ where, message }) => [where, message]),
    ['--where', '--null', '--strict'].map((option) => [users, `${option} is for listings, and these are users`]),
  )

  // they were taken, and the database was checked as if they had not been given
  for (const option of ['--map=href=link', '--map-file=x', '--encoding=utf-8', '--where=a=b', '--null=x', '--strict']) {
    const { code, stderr } = await callProgram(['validate', option])
    assert.equal(code, 2, option)
    assert.match(stderr, /^error: Options for reading records go with files\./)
  }
})
