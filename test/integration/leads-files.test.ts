/** Files as they come (contract 4.18), imported: encodings, separators, wrapped JSON, `--where`, dry runs, what cannot be meant. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { leadMaps } from '../../src/leads/field-map.ts'
import type { LeadImportOptions } from '../../src/leads/import.ts'
import { parseWhere } from '../../src/leads/where.ts'
import { createDatabase } from '../support/database.ts'
import { findStored, hrefOf, importing, importRecords, listing, toLines, writeInput } from '../support/import-files.ts'

const database = await createDatabase()
const opened = await database.open()
test.after(() => opened.close())

const put = (name: string, content: string | Buffer, options: LeadImportOptions = {}) =>
  importing(opened, [writeInput(name, content)], options)
const rows = (name: string) =>
  `href,postalCode,city\n${hrefOf(name)},78704,"Cañon – “C”"\n${hrefOf(`${name}2`)},78704,x\n`

/** How windows-1252 writes a text. */
function toWindows1252(text: string): Buffer {
  const bytes: Record<string, number> = { '–': 0x96, '“': 0x93, '”': 0x94 }
  return Buffer.from([...text].map((character) => bytes[character] ?? character.charCodeAt(0)))
}

test('CSV with each separator, in each encoding, zipped under any name: the same listings', async () => {
  const text = rows('same')
  const utf16be = Buffer.from(`\ufeff${text}`, 'utf16le').swap16()
  const ways: [string, string | Buffer, LeadImportOptions?][] = [
    ['same.csv', text],
    ['same-semicolon.csv', text.replaceAll(',', ';')],
    ['same.tsv', text.replaceAll(',', '\t')],
    ['same.txt', text.replaceAll(',', '|')],
    ['same-sep.csv', `sep=;\r\n${text.replaceAll(',', ';').replaceAll('\n', '\r\n')}`],
    ['same-mark.csv', `\ufeff${text}`],
    ['same-16le.csv', Buffer.from(`\ufeff${text}`, 'utf16le')],
    ['same-16be.csv', utf16be],
    ['same-16.csv', Buffer.from(text, 'utf16le'), { encoding: 'utf-16le' }],
    ['same-1252.csv', toWindows1252(text), { encoding: 'windows-1252' }],
    ['same-zipped.csv', gzipSync(text)],
    ['same-case.csv', text.replace('href,postalCode,city', ' HREF , "postalcode",City ')],
  ]
  for (const [at, [name, content, options]] of ways.entries()) {
    const { summary, broken } = await put(name, content, options)
    assert.equal(broken, undefined, name)
    assert.deepEqual([summary.inserted, summary.unchanged], at === 0 ? [2, 0] : [0, 2], name)
  }
  assert.equal((await findStored(opened, 'same'))?.lead.city, 'Cañon – “C”')
})

test('a value nested 5,000 deep costs its record alone', async () => {
  // it ended the import as a fault of leadpush itself, and the good records were lost, on every run
  const deep = `${'['.repeat(5_000)}${']'.repeat(5_000)}`
  const bad = JSON.stringify(listing('deep-bad', { price: 'DEEP', Photos: 'DEEP' })).replaceAll('"DEEP"', deep)
  const ways: LeadImportOptions[] = [{}, { strict: true }, { where: parseWhere(['photos!=x']) }]
  for (const options of ways) {
    for (const name of ['deep.ndjson', 'deep.json']) {
      const good = JSON.stringify(listing('deep-good', { Photos: 'none' }))
      const text = name.endsWith('.json') ? `[${bad},${good}]` : `${bad}\n${good}\n`
      const { summary, broken, rejected } = await put(name, text, options)
      const lines = rejected.map(({ line }) => line)
      assert.deepEqual([broken, summary.read, lines], [undefined, 2, [1]], `${name} ${Object.keys(options)}`)
    }
  }
  assert.notEqual(await findStored(opened, 'deep-good'), undefined)
})

test('bytes of another encoding are one message; among UTF-8 they cost their record alone', async () => {
  const foreign = await put('foreign.csv', toWindows1252(rows('foreign')))
  assert.match(foreign.broken?.message ?? '', /another encoding than UTF-8/)
  assert.match(foreign.broken?.hint ?? '', /--encoding windows-1252/)
  assert.equal(await findStored(opened, 'foreign2'), undefined)
  const spoilt = Buffer.concat([Buffer.from(rows('spoilt')), Buffer.from(`${hrefOf('bad')},78704,\xff\n`, 'latin1')])
  const { summary, rejected } = await put('spoilt.csv', spoilt)
  assert.deepEqual([summary.inserted, rejected.map(({ line }) => line)], [2, [4]])
  // with the encoding told, nothing is guessed
  const told = await put('told.csv', toWindows1252(rows('told')), { encoding: 'utf-8' })
  assert.deepEqual([told.broken, told.summary.inserted, told.summary.rejected], [undefined, 1, 1])
})

test('one JSON object with a single list of objects is its list; one with an href is a listing', async () => {
  const records = [listing('w1'), listing('w2')]
  const cases: [string, string, number][] = [
    ['wrapped.json', JSON.stringify({ count: 2, page: { size: 2 }, tags: ['a'], listings: records, next: null }), 2],
    ['pretty.json', JSON.stringify({ data: records }, null, 2), 2],
    // its `email` was taken for that of a user, so the whole object was one bad record
    ['office.json', JSON.stringify({ email: 'office@x.example', listings: records, phone: '5125550143' }), 2],
    ['office-last.json', JSON.stringify({ listings: records, email: 'office@x.example' }, null, 2), 2],
    ['lines.json', toLines(records), 2],
    ['single.json', JSON.stringify({ photos: [{ url: 'x' }], ...listing('w3') }, null, 2), 1],
  ]
  for (const [name, content, read] of cases) {
    const { summary, broken } = await put(name, content)
    assert.deepEqual([broken, summary.read, summary.rejected], [undefined, read, 0], name)
  }
  const two = await put('two.json', JSON.stringify({ agents: [{ id: 1 }], listings: records }))
  assert.match(two.broken?.message ?? '', /two lists of objects, agents and listings/)
  const cut = await put('cut.json', '{"listings":[{"href":"x"}')
  assert.match(cut.broken?.message ?? '', /breaks off/)
})

test('--where takes records by a field or a column, without regard to case; a missing value is the empty text', async () => {
  const lines = 'href,postalCode,state,price,Status\n'.concat(
    `${hrefOf('q1')},78704,TX,"$1,000",Active\n${hrefOf('q2')},78704,tx,,SOLD\n${hrefOf('q3')},78704,,5,\n`,
  )
  const json = [
    listing('q1', { state: 'TX', price: 1000, Status: 'Active' }),
    listing('q2', { state: 'tx', Status: 'SOLD' }),
    { ...listing('q3', { price: 5 }), status: null },
  ]
  const cases: [string[], number][] = [
    [['state=tx'], 1],
    [['state!=TX'], 2],
    [['status=active'], 2],
    [['status!=Sold'], 1],
    [['Status='], 2],
    [['price=1000'], 2],
    [['price='], 2],
    [['state=TX', 'status=sold'], 2],
    [['city='], 0],
  ]
  for (const [where, filtered] of cases) {
    for (const name of ['where.csv', 'where.ndjson']) {
      const content = name.endsWith('csv') ? lines : toLines(json)
      const { summary, broken } = await put(name, content, { where: parseWhere(where) })
      assert.deepEqual([broken, summary.filtered, summary.read], [undefined, filtered, 3], `${name} ${where}`)
    }
  }
  for (const [name, content] of [
    ['unknown.csv', lines],
    ['unknown.ndjson', toLines(json)],
  ] as const) {
    const unknown = put(name, content, { where: parseWhere(['Statu=Active']) })
    await assert.rejects(unknown, /Statu is neither a field of a lead nor a column of the file; did you mean Status/)
  }
})

test('if --where takes no record, only a spoilt one is rejected', async () => {
  // the file was refused as a whole: no record could be read
  const where = parseWhere(['state=CA'])
  const records = [listing('f1', { state: 'TX' }), listing('f2', { state: 'TX' })]
  const lines = `href,postalCode,state\n${hrefOf('f1')},78704,TX\n${hrefOf('f2')},78704,TX\nx,x,TX,x\n`
  for (const [name, content, line] of [
    ['spoilt.ndjson', `${toLines(records)}{"href"\n`, 3],
    ['spoilt.csv', lines, 4],
  ] as const) {
    const { broken, summary, rejected } = await put(name, content, { where })
    assert.deepEqual([broken, summary.read, summary.filtered, summary.rejected], [undefined, 3, 2, 1], name)
    assert.deepEqual(
      rejected.map((one) => one.line),
      [line],
    )
  }
  // a column that no record has is told once all the same
  const lacking = await put('lacking.csv', lines.replace('postalCode', 'zip'), { where: parseWhere(['zip!=1']) })
  assert.match(lacking.broken?.message ?? '', /no column of its header is postalCode/)
  const partly = `href,zip,state\n${hrefOf('f1')},78704,TX\n${hrefOf('f3')},78704,CA\n`
  assert.match(
    (await put('partly.csv', partly, { where })).broken?.message ?? '',
    /no column of its header is postalCode/,
  )
})

test('a dry run counts what an import would do, and leaves everything as it was', async () => {
  await importRecords(opened, [listing('d1', { price: 1 }), listing('d2', { price: 1 })])
  const look = async () => {
    const { rows: found } = await opened.pool.query(
      `select (select count(*) from leads) as leads, (select count(*) from lead_versions) as versions,
         (select count(*) from imports) as imports, (select max(seen_at) from lead_seen)::text as seen,
         (select last_value from lead_version_ids) as last`,
    )
    return found[0]
  }
  const before = await look()
  const file = writeInput(
    'dry.ndjson',
    toLines([listing('d1', { price: 1 }), listing('d2', { price: 2 }), listing('d3'), listing('d3'), { href: 'no' }]),
  )
  const dry = await importing(opened, [file], { isDryRun: true })
  assert.deepEqual(await look(), before)
  const { summary } = await importing(opened, [file])
  assert.deepEqual(dry.summary, summary)
  assert.deepEqual([summary.inserted, summary.updated, summary.unchanged, summary.rejected], [1, 1, 1, 1])
  assert.equal(dry.rejected.length, 1)
})

test('a file that can bring nothing is one message, with what would do; no record of it is told', async () => {
  const csv = (header: string, line: string) => `${header}\n${line}\n`
  const url = 'https://example.com/n'
  const cases: [string, string | Buffer, RegExp, RegExp?][] = [
    ['names.csv', csv('Listing Link,Zip,List Price', `${url},78704,5`), /no column of its header is href or postalCode/, /--map 'href=Listing Link' --map postalCode=Zip --map 'price=List Price'/],
    ['values.csv', csv('a,b,c', `${url},78704,350000`), /href or postalCode/, /--map href=a --map postalCode=b/],
    ['spelt.csv', csv('href,postal_cod', `${url},78704`), /is postalCode/, /--map postalCode=postal_cod/],
    ['none.csv', csv('x,y', '1,2'), /href or postalCode/, /--map FIELD=COLUMN/],
    ['one.csv', csv('href^postalCode', `${url}^78704`), /one column/, /, ; tab or \|/],
    ['keys.ndjson', toLines([{ link: url, address: { zip: '78704' } }]), /no record has href or postalCode/, /--map href=link --map postalCode=address.zip/],
    ['bad.csv', csv('href,postalCode', '/n,78704'), /in line 2 href must be .*: "\/n"/],
    ['code.csv', csv('href,postalCode', `${url},-`), /postalCode is not a postal code: "-"/],
    ['cells.csv', csv('href,postalCode', `${url},1,2`), /no record can be read: line 2 has 3 cells/],
    ['users.json', JSON.stringify([{ email: 'a@example.com', queries: [] }]), /users, not listings/, /users import/],
    ['zip.csv', Buffer.from('PK\x03\x04\x14\0', 'latin1'), /a zip file/, /unzip/],
    ['named.zip', Buffer.from('PK\x03\x04\x14\0', 'latin1'), /a zip file/, /unzip/],
    ['book.csv', Buffer.from('PK\x03\x04\x14\0\x06\0[Content_Types].xml', 'latin1'), /Excel/, /Save it as CSV/],
    ['page.csv', '<!doctype html>\n<html>', /a web page/],
    ['utf16.csv', Buffer.from(csv('href,postalCode', `${url},78704`), 'utf16le'), /UTF-16/, /--encoding utf-16le/],
    ['nul.ndjson', '{"href":"\0"}\n', /NUL/],
  ] // biome-ignore format: a table
  for (const [name, content, pattern, hint] of cases) {
    const { broken, rejected } = await put(name, content)
    assert.match(broken?.message ?? '', pattern, name)
    if (hint) assert.match(broken?.hint ?? '', hint, name)
    assert.deepEqual(rejected, [], name)
  }
  assert.equal(await findStored(opened, 'n'), undefined)
})

test('an empty file is told as one in each format', async () => {
  // one of JSON was told as broken off
  for (const name of ['none.json', 'none.ndjson', 'none.csv', 'none.txt']) {
    assert.equal((await put(name, '')).broken?.message, 'it is empty: it has no record', name)
    assert.equal((await put(name, '\n\n')).broken?.message, 'it has no record', name)
  }
  assert.match((await put('none.json', '[')).broken?.message ?? '', /it breaks off/)
})

test('a first line that is a listing is told as no header, and nothing of it is shown', async () => {
  // it was shown as the one column, and its cells were suggested for --map
  const lines = [
    'https://l.example/77 512-555-0100 ann@secret.example',
    'https://l.example/77,78704,350000,ann@secret.example',
    'Ann Secret,(512) 555-0100,78704',
    '78704^Ann Secret^5125550100',
  ]
  for (const line of lines) {
    const content = `${line}\n${line.replaceAll('7', '8')}\n`
    const { broken, rejected } = await put('headless.csv', content)
    const told = `${broken?.message} ${broken?.hint}`
    assert.match(told, /its first line looks like a record, not like a header .*names of the columns/, line)
    assert.doesNotMatch(told, /secret|555|l\.example|78704|--map/i, line)
    assert.deepEqual(rejected, [])
  }
  const { broken } = await put('headless.csv', 'Ann Secret,5125550100,78704\nx,y,z\n', {
    map: leadMaps.parse(['href=Ann Secrets']),
  })
  assert.match(broken?.message ?? '', /no column Ann Secrets, which --map reads href from$/)
})

test('a NUL costs its value or its record, wherever in the file it stands', async () => {
  // within the first 64 KiB it cost the whole file, further on its value
  for (const lines of [0, 2_000]) {
    const many = Array.from({ length: lines }, (_, at) => `${hrefOf(`nul-${at}`)},78704,${'x'.repeat(40)}\n`).join('')
    const text = `href,postalCode,city\n${many}${hrefOf('nul-city')},78704,a\0b\n${hrefOf('nul\0')},78704,c\n`
    const { summary, broken, rejected } = await put('nul.csv', text)
    assert.equal(broken, undefined)
    assert.deepEqual(summary.unreadable, { city: 1 })
    assert.deepEqual(
      rejected.map(({ line, path }) => [line, path]),
      [[lines + 3, 'href']],
    )
  }
  assert.equal((await findStored(opened, 'nul-city'))?.lead.city, null)
})

test('a NUL in the first record costs that record alone, unless that is the header of CSV', async () => {
  // in the first line it cost the whole file, which may be the one line of a JSON array
  const bad = '{"href":"https://example.com/nul-bad","postalCode":"78704","city":"a\0b"}'
  const escaped = JSON.stringify({ href: hrefOf('nul-escaped'), postalCode: '78704', city: 'a\0b' })
  const records = [bad, escaped, JSON.stringify(listing('nul-good'))]
  for (const [name, text] of [
    ['nul.ndjson', records.join('\n')],
    ['nul.json', `[${records.join()}]`],
    ['nul-list.json', `{"count":3,"listings":[${records.join()}]}`],
  ] as const) {
    const { summary, broken, rejected } = await put(name, `${text}\n`)
    assert.deepEqual([name, broken, summary.unreadable], [name, undefined, { city: 1 }])
    assert.deepEqual(
      rejected.map(({ line, message }) => [line, /is no valid JSON .*NUL/.test(message)]),
      [[1, true]],
    )
  }
  assert.ok(await findStored(opened, 'nul-good'))
  const { broken } = await put('nul-header.csv', `href,postalCode,ci\0ty\n${hrefOf('nul-header')},78704,a\n`)
  assert.match(broken?.message ?? '', /it is no text: it has NUL bytes/)
})

test('rows without any text are no records, as the empty lines are', async () => {
  // they were rejected, so that the export of a sheet with empty rows below its table always ended with 1
  const sheet = `href,postalCode,,\n${hrefOf('rows')},78704,,\n,,,\n ,"",,\n,\n\n${hrefOf('rows2')},78704,seen,\n,,,\n`
  const { summary, rejected } = await put('rows.csv', sheet)
  assert.deepEqual([summary.read, summary.inserted, rejected], [2, 2, []])
  assert.deepEqual(summary.ignored, { '(no name)': 1 })
})

test('files that were put together are refused, where their headers differ', async () => {
  // what stood below the second header was read by the first: square feet became a price
  const part = (column: string, name: string) => `href,postalCode,${column}\n${hrefOf(name)},78704,2000\n`
  const whole = await put('whole.csv', part('price', 'whole-1') + part('sqft', 'whole-2'))
  assert.equal(whole.broken?.message, 'its line 3 is another header: it is several files put together')
  assert.equal(await findStored(opened, 'whole-1'), undefined)
  const moved = await put(
    'moved.csv',
    `${part('price', 'whole-1')}price,href,postalCode\n1,${hrefOf('whole-2')},78704\n`,
  )
  assert.match(moved.broken?.message ?? '', /line 3 is another header/)
  const same = await put('same-twice.csv', part('price', 'whole-1') + part('Price', 'whole-2'))
  assert.deepEqual([same.summary.inserted, same.summary.rejected], [2, 1])
})

test('a record that a later one replaces is not taken, also where --where does not take the later one', async () => {
  // a listing that was sold later in the file came in as active
  const options = { where: parseWhere(['status=Active']) }
  const records = [
    ['sold', 'Active'],
    ['back', 'Sold'],
    ['sold', 'Active'],
    ['sold', 'Sold'],
    ['back', 'Active'],
    ['never', 'Sold'],
    ['never', 'Sold'],
  ] as const
  const file = toLines(records.map(([name, status]) => listing(`where-${name}`, { status })))
  const dry = await put('where.ndjson', file, { ...options, isDryRun: true })
  const { summary } = await put('where.ndjson', file, options)
  assert.deepEqual(dry.summary, summary)
  const { read, inserted, repeated, filtered } = summary
  assert.deepEqual([read, inserted, repeated, filtered], [7, 1, 2, 4])
  assert.equal(await findStored(opened, 'where-sold'), undefined)
  assert.notEqual(await findStored(opened, 'where-back'), undefined)
  const bad = toLines([
    listing('where-bad', { status: 'Active', postalCode: [] }),
    listing('where-bad', { status: '' }),
  ])
  const { rejected } = await put(
    'where-bad.ndjson',
    toLines([listing('where-good', { status: 'Active' })]) + bad,
    options,
  )
  assert.deepEqual(rejected.map(({ line }) => line), [2]) // biome-ignore format: a list
})

test('a file without postal codes still brings listings that are known up to date, and tells of the others', async () => {
  await importRecords(opened, [listing('known')])
  const { summary, broken } = await put('known.csv', `href,price\n${hrefOf('known')},7\n${hrefOf('unknown')},7\n`)
  assert.deepEqual([broken, summary.updated, summary.rejected], [undefined, 1, 1])
})

test('a column that stands twice is an error with both places, read or not, and shows no text of a record', async () => {
  const twice = put('twice.csv', `href,postalCode,price, Price \n${hrefOf('t')},78704,1,2\n`)
  await assert.rejects(twice, /column Price twice: it is column 3 \(as price\) and column 4/)
  // one that nothing reads was taken
  const other = put('other.csv', `href,postalCode,note,note\n${hrefOf('t')},78704,1,2\n`)
  await assert.rejects(other, /column note twice: it is column 3 and column 4/)
  const unnamed = await put('unnamed.csv', `href,postalCode,note,,\n${hrefOf('t')},78704,1,,\n`)
  assert.deepEqual([unnamed.broken, unnamed.summary.inserted], [undefined, 1])
  const record = `${hrefOf('t')},78704,Ann Seller,Ann Seller\n`
  const { broken } = await put('no-header.csv', record.repeat(2))
  assert.match(broken?.message ?? '', /looks like a record/)
})

test('a column that a map names and the header lacks refuses the file, with the nearest name', async () => {
  // under cron the listings of a renamed column went out at price 0
  const content = `href,postalCode,list_price\n${hrefOf('m')},78704,5\n`
  for (const map of [leadMaps.parse(['price=list_prise']), leadMaps.parseFile('mls.map', 'price=list_prise')]) {
    const { broken, summary } = await put('map.csv', content, { map })
    assert.match(broken?.message ?? '', /no column list_prise, .*did you mean list_price\?/)
    assert.equal(summary.read, 0)
  }
  const map = leadMaps.parseFile('mls.map', 'sqft=living_area\n\nprice=LIST_PRICE # asking\n')
  const told: string[] = []
  await put('map.ndjson', toLines([listing('m2')]), { map, onNote: (note) => void told.push(note) })
  assert.ok(told.includes('no record has a key living_area, which mls.map:1 reads sqft from'), told.join())
})

test('a cell that is the name of a column does not make a line another header', async () => {
  // the whole file was refused for a row with a cell href
  const content = `href,postalCode,city\n${hrefOf('h')},78704,Austin\nx,href,Waco\n`
  assert.equal((await put('cell.csv', content)).summary.inserted, 1)
})
