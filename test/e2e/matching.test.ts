/** Which listings a user gets (contract 4.3, 4.4, 4.9), by what `preview --body` and a push show of real postal codes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { buildHouse, deliveriesOf, hrefOf, zip } from '../support/house.ts'

const text = (value: string, radius = 0) => ({ type: 'text', value, radius })

const places = {
  austin: '78704', austinNorth: '78758', austinPlus4: '787041234', roundRock: '78664', sanAntonio: '78205', boston: '02134',
  bostonPlain: '2134', sanJuan: '00901', sanJuanPlain: '901', toronto: 'M5V 3L9', torontoLower: 'm5v3l9', torontoArea: 'M5V',
  montreal: 'H2Y 1C6', portland: '97201', nowhere: '00000', london: 'SW1A 1AA', londonClose: 'sw1a-1aa',
} // biome-ignore format: a list

const extras: Record<string, object> = {
  austinNorth: { description: 'A house with two swimming pools.', city: 'Austin', state: 'TX' },
  austin: { description: 'Sunny', propertyType: 'condo', address: '12 Pool Street', city: 'Austin', state: 'Texas' },
  sanAntonio: { description: 'Pool!', city: 'San Antonio', state: 'TX' },
  portland: { city: 'Portland', state: 'OR', description: `${'x '.repeat(49_998)}fine lateword` },
  nowhere: { description: 'contact', contactName: 'Hiddenname', city: 'Atlantis' },
}

const house = await buildHouse({
  places: 'all',
  leads: Object.entries(places).map(([name, postalCode]) => ({ href: hrefOf(name), postalCode, ...extras[name] })),
})

const austin = ['austin', 'austinNorth', 'austinPlus4']
const cases: [{ type: string; value: string; radius: number }, string[]][] = [
  [zip('78704'), ['austin', 'austinPlus4']],
  [zip('78704-9999'), ['austin', 'austinPlus4']],
  [zip(' 78 704 '), ['austin', 'austinPlus4']],
  [zip('78704', 10), austin],
  [zip('78704', 25), [...austin, 'roundRock']],
  [zip('78704', 100), [...austin, 'roundRock', 'sanAntonio']],
  [zip('2134'), ['boston', 'bostonPlain']],
  [zip('02134'), ['boston', 'bostonPlain']],
  [zip('901'), ['sanJuan', 'sanJuanPlain']],
  [zip('M5V 3L9'), ['toronto', 'torontoArea', 'torontoLower']],
  [zip('m5v'), ['toronto', 'torontoArea', 'torontoLower']],
  [zip('H2Y', 5), ['montreal']],
  [zip('00000', 100), ['nowhere']],
  [zip('SW1A1AA', 50), ['london', 'londonClose']],
  [text('Austin, TX'), austin],
  [text('austin, texas'), austin],
  [text('  Austin ,  Texas '), austin],
  [text('Austin, TX', 25), [...austin, 'roundRock']],
  [text('78704'), ['austin', 'austinPlus4']],
  [text('78704', 10), austin],
  [text('Portland, OR'), ['portland']],
  [text('Portland, ME'), []],
  [text('pool Austin, TX'), ['austin', 'austinNorth']],
  [text('Pools Austin, TX', 100), ['austin', 'austinNorth', 'sanAntonio']],
  [text('pool 78704', 100), ['austin', 'austinNorth', 'sanAntonio']],
  [text('pool'), ['austin', 'austinNorth', 'sanAntonio']],
  [text('pool', 100), ['austin', 'austinNorth', 'sanAntonio']],
  [text('SWIMMING pool'), ['austinNorth']],
  [text('pool house TX'), ['austinNorth']],
  [text('condo Texas'), ['austin']],
  [text('pool -swimming'), ['austinNorth']],
  [text('pool or lateword'), []],
  [text('atlantis'), ['nowhere']],
  [text('hiddenname'), []],
  [text('fine'), ['portland']],
]

test('each query matches the listings that the contract says', async () => {
  await house.put(
    'users',
    cases.map(([query], at) => ({ email: `${1_000 + at}@example.com`, receiverApiKey: 'k', queries: [query] })),
  )
  const { code, stderr } = await house.call('push --all', { env: { LEADPUSH_DATA_SOURCE: 'matching' } })
  assert.equal(code, 0, stderr)
  assert.equal(house.receiver.requests.length, cases.length)
  for (const [query, expected] of cases) {
    const request = house.receiver.requests.find(
      ({ json }) => JSON.stringify(json.queryList) === JSON.stringify([query]),
    )
    const found = request?.json.fsbos.map(({ href }) => String(href).replace(hrefOf(''), '')).sort()
    assert.deepEqual(found, [...expected].sort(), JSON.stringify(query))
  }
  // what is delivered stays as it was imported
  const toronto = house.receiver.requests.find(({ json }) => json.queryList[0]?.value === 'm5v')
  assert.deepEqual(toronto?.json.fsbos.map(({ postalCode }) => postalCode).sort(), ['M5V', 'M5V 3L9', 'm5v3l9'])
})

test('a query gets its 300 newest, of one import the earlier in the file; each is cut first, then repeats are dropped', async () => {
  const own = await buildHouse({
    places: 'all',
    leads: Array.from({ length: 301 }, (_, at) => ({ href: hrefOf(at), postalCode: at === 300 ? '78758' : '78704' })),
    users: [
      { email: 'one@example.com', receiverApiKey: 'k', queries: [zip('78704', 10)] },
      { email: 'two@example.com', receiverApiKey: 'k', queries: [zip('78704'), zip('78704', 10)] },
      { email: 'three@example.com', receiverApiKey: 'k', queries: [zip('78704', 10), zip('78758')] },
    ],
  })
  const hrefs = async (email: string): Promise<string[]> => {
    const { stdout } = await own.call(`preview --user ${email} --body`)
    return JSON.parse(stdout).fsbos.map(({ href }: { href: string }) => href)
  }
  const first = await hrefs('one@example.com')
  assert.deepEqual(
    [first.length, new Set(first).size, first.includes(hrefOf(300)), first.includes(hrefOf(0))],
    [300, 300, false, true],
  )
  // the second query's 300 are among the first one's, and its 301st stays out
  assert.equal((await hrefs('two@example.com')).length, 300)
  assert.equal((await hrefs('three@example.com')).length, 301)

  await own.put('leads', [{ href: hrefOf(300), postalCode: '78758', price: 1 }])
  const changed = await hrefs('one@example.com')
  assert.deepEqual([changed.length, changed.includes(hrefOf(300)), changed.includes(hrefOf(299))], [300, true, false])
  await own.put('leads', [{ href: hrefOf(299), postalCode: '78704' }])
  assert.deepEqual(await hrefs('one@example.com'), changed)
  await own.put('leads', [{ href: hrefOf('new'), postalCode: '78704' }])
  const newest = await hrefs('one@example.com')
  assert.deepEqual([newest.includes(hrefOf('new')), newest.includes(hrefOf(298))], [true, false])
})

test('a listing that was not seen for longer than the maximum age is not delivered, until an import contains it again', async () => {
  const lead = { href: hrefOf('old'), postalCode: '78704' }
  const own = await buildHouse({
    places: 'all',
    leads: [lead],
    users: [{ email: 'a@example.com', receiverApiKey: 'k', queries: [zip('78704')] }],
  })
  const opened = await own.database.open()
  await opened.pool.query("update lead_seen set seen_at = now() - interval '2 days'")
  await opened.close()
  const count = async (age: string) => {
    const { json } = await own.call('preview --json', { env: { LEADPUSH_MAX_LEAD_AGE: age } })
    return deliveriesOf(json)[0].leads
  }
  assert.deepEqual([await count('47h'), await count('49h'), await count('30d')], [0, 1, 1])
  await own.put('leads', [lead])
  assert.equal(await count('47h'), 1)
})

test('over 5,000,000 bytes a push goes out in parts: queries whole where they fit, each part valid on its own', async () => {
  const leads = (name: string, postalCode: string, count: number, bytes: number) =>
    Array.from({ length: count }, (_, at) => ({
      href: hrefOf(`${name}-${at}`),
      postalCode,
      description: 'ü'.repeat(bytes / 2),
    }))
  const own = await buildHouse({
    places: 'all',
    leads: [
      ...leads('small', '10001', 2, 1_000_000),
      ...leads('large', '20001', 12, 1_000_000),
      ...leads('middle', '30301', 4, 1_000_000),
      ...leads('giant', '30301', 1, 4_999_800),
    ],
    users: [
      {
        email: 'a@example.com',
        receiverApiKey: 'k',
        queries: [zip('10001'), zip('20001'), zip('99950'), zip('30301')],
      },
    ],
  })
  const preview = await own.call('preview --body')
  const { code, json, stderr } = await own.call('push --all --json')
  assert.equal(code, 0, stderr)
  const { requests } = own.receiver
  assert.deepEqual(preview.stdout.split('\n').slice(0, -1).sort(), requests.map(({ body }) => body.toString()).sort())
  const lines = deliveriesOf(json).sort((a, b) => a.part - b.part)
  assert.ok(lines.length >= 4 && lines.every(({ parts }, at) => parts === lines.length && lines[at].part === at + 1))
  assert.equal(new Set(lines.map(({ idempotencyKey }) => idempotencyKey)).size, lines.length)
  const sent: string[] = []
  for (const line of lines) {
    const [request] = own.receiver.keys().get(line.idempotencyKey) ?? []
    assert.ok(request && request.body.length <= 5_000_000 && request.body.length === line.bytes)
    const values = request.json.queryList.map(({ value }) => value)
    assert.equal(values.includes('99950'), line.part === 1)
    for (const { href, postalCode } of request.json.fsbos) {
      sent.push(String(href))
      assert.ok(values.includes(String(postalCode)))
    }
    for (const value of values.filter((each) => each !== '99950')) {
      assert.ok(
        request.json.fsbos.some(({ postalCode }) => postalCode === value),
        `${value} in part ${line.part}`,
      )
    }
  }
  assert.deepEqual([sent.length, new Set(sent).size], [18, 18])
  const partsOf = (postalCode: string) =>
    requests.filter(({ json }) => json.fsbos.some((lead) => lead.postalCode === postalCode))
  assert.deepEqual([partsOf('10001').length, partsOf('30301').length], [1, 1])
  const [warning] = json.filter(({ type }) => type === 'warning')
  assert.deepEqual(Object.keys(warning), ['type', 'user', 'href', 'message'])
  assert.deepEqual([warning.user, warning.href], ['a@example.com', hrefOf('giant-0')])
  assert.match(preview.stderr + stderr, /^Database/)
})
