/** Options of an import that judge or read a whole file (contract 3, 4.18): `--tolerate`, those of a map file, `--encoding`, `--source`. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { buildHouse } from '../support/house.ts'
import { writeInput } from '../support/import-files.ts'

const house = await buildHouse({ leads: [], users: [] })
const importing = async (name: string, content: string | Buffer, args = '') =>
  await house.call(`leads import ${writeInput(name, content)} ${args}`.trim())

const good = (at: number | string) => `https://listings.example/${at},78704,1`
const csv = (...lines: string[]) => ['href,postalCode,price', ...lines, ''].join('\n')

test('--tolerate: so many rejected records, or such a share of those read, leave the exit code at 0', async () => {
  const content = csv(good(1), good(2), good(3), 'no URL,78704,1')
  for (const [tolerated, code] of [
    ['0', 1],
    ['1', 0],
    ['24.9%', 1],
    ['25%', 0],
    ['100%', 0],
  ] as const) {
    const { code: ended, stdout } = await importing('some.csv', content, `--tolerate ${tolerated}`)
    assert.deepEqual([tolerated, ended], [tolerated, code])
    assert.match(stdout, /rejected +1/)
  }
  for (const wrong of ['x', '101%', '-1']) {
    const { code, stderr } = await importing('some.csv', content, `--tolerate=${wrong}`)
    assert.equal(code, 2)
    assert.match(stderr, /--tolerate: holds .*allowed: a number of records/)
  }
})

test('a map file holds options of the import, beside those of the command', async () => {
  const map = writeInput(
    'feed.map',
    'price=cost\n--null TBD\n--where status=active # of old ones nobody wants to hear\n',
  )
  const content = [
    'href,postalCode,cost,status',
    'https://listings.example/10,78704,TBD,Active',
    'https://listings.example/11,78704,2,sold',
    'https://listings.example/12,78704,,active',
    '',
  ].join('\n')
  const { code, stdout } = await importing('feed.csv', content, `--map-file ${map} --where price=0 --json`)
  assert.equal(code, 0)
  // an unknown price goes out as 0
  assert.match(stdout, /"inserted":2,.*"filtered":1,/)
})

test('bytes that are UTF-8 are read in no other encoding', async () => {
  const content = csv(good('señor'))
  const refused = await importing('utf8.csv', content, '--encoding windows-1252')
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /it is in UTF-8, not in windows-1252\n.*Nothing of this file went in/)
  assert.equal((await importing('ascii.csv', csv(good('plain')), '--encoding windows-1252')).code, 0)
})

test('a source that is new beside one with nearly its name is told', async () => {
  assert.doesNotMatch((await importing('a.csv', csv(good('a')), '--source siteA')).stderr, /new source/)
  const { code, stderr } = await importing('b.csv', csv(good('b')), '--source sitea')
  assert.equal(code, 0)
  assert.match(stderr, /--source sitea is a new source, beside siteA: is it another one\?/)
  assert.doesNotMatch((await importing('c.csv', csv(good('c')), '--source sitea')).stderr, /new source/)
  assert.doesNotMatch((await importing('d.csv', csv(good('d')), '--source county')).stderr, /new source/)
})

for (const [encoding, mark, told] of [
  ['latin1', '', '--encoding windows-1252'],
  ['utf16le', '\ufeff', ''],
  ['utf8', '\ufeff', ''],
] as const) {
  test(`--rejects has the bytes of a file in ${encoding}, and once mended is imported in the same way`, async () => {
    // they came out in UTF-8 without a mark, which --encoding refuses
    const write = (...lines: string[]) =>
      Buffer.from(`${mark}href,postalCode,bathrooms\n${lines.join('\n')}\n`, encoding)
    const bad = `https://listings.example/${encoding},nowhere,2½`
    const rejects = writeInput(`${encoding}-rejects.csv`, '')
    const ways = `--rejects ${rejects} ${told}`.trim()
    const first = await importing(`${encoding}.csv`, write('https://listings.example/half,78704,1½', bad), ways)
    assert.equal(first.code, 1)
    assert.deepEqual(readFileSync(rejects), write(bad))
    const { code, stdout } = await importing(
      'mended.csv',
      write(bad.replace('nowhere', '78704')),
      `${told} --json`.trim(),
    )
    assert.equal(code, 0)
    assert.match(stdout, /"inserted":1,.*"unreadable":{}/)
  })
}

test('the encoding of a file is told before a map is proposed, which is then that of all its columns', async () => {
  // without its encoding the records with ½ could not be read, and the proposal left their column out
  const file = writeInput('baths.csv', Buffer.from('link,zip,baths\nhttps://listings.example/b,78704,2½\n', 'latin1'))
  for (const command of ['leads import', 'validate']) {
    const foreign = await house.call(`${command} ${file}`)
    assert.equal(foreign.code, 1)
    assert.match(foreign.stdout + foreign.stderr, /another encoding than UTF-8: line 2 .*--encoding windows-1252/s)
    assert.doesNotMatch(foreign.stdout + foreign.stderr, /--map/)
    const told = await house.call(`${command} ${file} --encoding windows-1252`)
    const maps = '--map href=link --map postalCode=zip --map bathrooms=baths'
    assert.ok(`${told.stdout}${told.stderr}`.replace(/\s+/g, ' ').includes(maps), told.stdout + told.stderr)
  }
})

test('validate says once what all records lack, and proposes the map of the import', async () => {
  // "href is missing" stood there 100 times, and the proposal was not shown
  const records = Array.from({ length: 150 }, (_, at) => ({ link: `https://listings.example/v${at}`, zip: '78704' }))
  const file = writeInput('lacking.ndjson', records.map((record) => `${JSON.stringify(record)}\n`).join(''))
  const { code, stdout } = await house.call(`validate ${file}`)
  assert.equal(code, 1)
  assert.equal(stdout.match(/href is missing/g)?.length, 6)
  assert.match(stdout, /… and 145 more like it: problem {2}href is missing/)
  assert.match(stdout.replace(/\s+/g, ' '), /--map href=link --map postalCode=zip/)
  assert.match(stdout, /problems +151/)
})
