/** Options of an import that judge or read a whole file (contract 3, 4.18): `--tolerate`, those of a map file, `--encoding`, `--source`. */
import assert from 'node:assert/strict'
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
