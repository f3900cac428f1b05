import assert from 'node:assert/strict'
import { test } from 'node:test'
import { bodyBytesMax } from '../../src/base/limits.ts'
import { buildBody, countBodyBytes } from '../../src/deliveries/body.ts'
import { planDeliveries } from '../../src/deliveries/plan.ts'
import { SharedLeads } from '../../src/deliveries/shared-leads.ts'

interface Query {
  json: string
  versionIds: number[]
}

const query = (name: string, versionIds: number[]): Query => ({
  json: JSON.stringify({ type: 'text', value: name, radius: 0 }),
  versionIds,
})

type SizeOf = (id: number) => { leadId: number; bytes: number } | undefined

/** Version `id` is that of the lead with the same number, unless `leadOf` says otherwise, and has `bytes` bytes. */
const sizes =
  (bytes: number | ((id: number) => number), leadOf: (id: number) => number = (id) => id): SizeOf =>
  (id) => ({
    leadId: leadOf(id),
    bytes: typeof bytes === 'number' ? bytes : bytes(id),
  })

const idsOf = (leads: readonly { versionId: number }[]) => leads.map(({ versionId }) => versionId)

function share(queries: readonly Query[], sizeOf: SizeOf) {
  const ids = [...new Set(queries.flatMap(({ versionIds }) => versionIds))]
  const leads = ids.map((versionId) => {
    const size = sizeOf(versionId)
    return size && { versionId, ...size }
  })
  const toPlan = queries.map(({ json, versionIds }) => ({ json, indexes: versionIds.map((id) => ids.indexOf(id)) }))
  return { shared: new SharedLeads(leads), toPlan }
}

function plan(queries: readonly Query[], sizeOf: SizeOf, bytesMax?: number) {
  const { shared, toPlan } = share(queries, sizeOf)
  const { deliveries, tooLarge } = planDeliveries(toPlan, shared, bytesMax)
  const withIds = deliveries.map(({ contents, ...delivery }) => ({ ...delivery, versionIds: idsOf(contents) }))
  return { deliveries: withIds, tooLarge: idsOf(tooLarge) }
}

const queriesOf = (queryList: string) => (JSON.parse(`[${queryList}]`) as { value: string }[]).map(({ value }) => value)

test('a lead that two queries match goes out once, and the order of the leads does not depend on that of the queries', () => {
  const [forward, backward] = [
    [query('a', [9, 5, 1]), query('b', [7, 5])],
    [query('b', [7, 5]), query('a', [9, 5, 1])],
  ].map((queries) => plan(queries, sizes(10)).deliveries[0])
  assert.deepEqual(forward?.versionIds, [9, 7, 5, 1])
  assert.deepEqual(backward?.versionIds, forward?.versionIds)
})

test('two versions of one lead, seen by two queries at different moments, count as one lead', () => {
  const { deliveries } = plan(
    [query('a', [9]), query('b', [4, 3])],
    sizes(10, (id) => (id === 4 ? 9 : id)),
  )
  assert.deepEqual(deliveries[0]?.versionIds, [9, 3])
})

test('users who share leads each get all of theirs', () => {
  const queries = [query('a', [9, 5]), query('b', [9, 4])]
  const { shared, toPlan } = share(queries, sizes(10))
  const each = toPlan.map((only) => planDeliveries([only], shared).deliveries[0]?.contents ?? [])
  assert.deepEqual(each.map(idsOf), [
    [9, 5],
    [9, 4],
  ])
})

test('queries that match nothing still make one delivery that lists them', () => {
  const { deliveries } = plan([query('a', []), query('b', [])], sizes(1))
  assert.equal(deliveries.length, 1)
  assert.equal(deliveries[0]?.leads, 0)
  assert.deepEqual(queriesOf(deliveries[0]?.queryList ?? ''), ['a', 'b'])
})

test('a version that is gone meanwhile is left out', () => {
  const { deliveries } = plan([query('a', [3, 2, 1])], (id) => (id === 2 ? undefined : { leadId: id, bytes: 1 }))
  assert.deepEqual(deliveries[0]?.versionIds, [3, 1])
})

test('5,000,000 bytes are one part, one more makes two', () => {
  const one = query('a', [2, 1])
  const frame = countBodyBytes(1, Buffer.byteLength(one.json), 2, 0)
  const rest = bodyBytesMax - frame
  for (const [extra, parts] of [
    [-1, 1],
    [0, 1],
    [1, 2],
  ] as const) {
    const { deliveries } = plan(
      [one],
      sizes((id) => (id === 1 ? 1_000 : rest - 1_000 + extra)),
    )
    assert.equal(deliveries.length, parts)
    assert.ok(deliveries.every(({ bytes }) => bytes <= bodyBytesMax))
  }
})

test('whole queries go into the first part with room; the queries without leads stand in the first part', () => {
  const queries = [query('a', [9, 8, 7]), query('none', []), query('b', [6, 5, 4]), query('c', [3])]
  // 100 bytes a lead, room for about four leads and three queries
  const { deliveries } = plan(queries, sizes(100), 600)
  assert.deepEqual(
    deliveries.map(({ queryList, leads }) => [queriesOf(queryList), leads]),
    [
      [['a', 'none', 'c'], 4],
      [['b'], 3],
    ],
  )
  assert.deepEqual(
    deliveries.map(({ part, parts }) => [part, parts]),
    [
      [1, 2],
      [2, 2],
    ],
  )
})

test('a query that fills a part to its last byte beside another goes into it, and one that is a byte longer does not', () => {
  const queries = [query('a', [3]), query('b', [2]), query('c', [1])]
  const bytesMax = countBodyBytes(2, 2 * Buffer.byteLength(queries[0]?.json ?? ''), 2, 900)
  const packed = [-1, 0, 1].map((extra) => {
    const { deliveries } = plan(queries, sizes((id) => (id === 2 ? 400 + extra : 500)), bytesMax)
    return deliveries.map(({ queryList }) => queriesOf(queryList).join(' '))
  }) // biome-ignore format: short
  assert.deepEqual(packed, [
    ['a b', 'c'],
    ['a b', 'c'],
    ['a', 'b', 'c'],
  ])
})

test('a query is torn only if it alone exceeds a part, and each of its parts lists it', () => {
  const queries = [
    query('a', [20]),
    query(
      'big',
      Array.from({ length: 10 }, (_, at) => 10 - at),
    ),
  ]
  const { deliveries } = plan(queries, sizes(100), 600)
  assert.deepEqual(
    deliveries.map(({ queryList, leads }) => [queriesOf(queryList), leads]),
    [
      [['a'], 1],
      [['big'], 5],
      [['big'], 5],
    ],
  )
  assert.ok(deliveries.every(({ bytes }) => bytes <= 600))
})

test('a lead too large for a part of its own is left out and named, the others go', () => {
  const { deliveries, tooLarge } = plan(
    [query('a', [3, 2, 1])],
    sizes((id) => (id === 2 ? 601 : 10)),
    600,
  )
  assert.deepEqual(tooLarge, [2])
  assert.deepEqual(deliveries.map(({ versionIds }) => versionIds), [[3, 1]]) // biome-ignore format: short
})

// it was packed as if it carried leads, into any part with room
test('a query whose leads are all too large for a part stands in the first part', () => {
  const queries = [query('a', [9, 8, 7, 6, 5]), query('b', [4]), query('huge', [2, 1])]
  const { deliveries, tooLarge } = plan(queries, sizes((id) => (id <= 2 ? 601 : 100)), 600) // biome-ignore format: short
  assert.deepEqual(
    deliveries.map(({ queryList, leads }) => [queriesOf(queryList), leads]),
    [
      [['b', 'huge'], 1],
      [['a'], 5],
    ],
  )
  assert.deepEqual(tooLarge, [2, 1])
})

test('the bytes of a plan are the bytes of the body, with any characters', () => {
  const leads = ['{"href":"https://example.com/ü€😀"}', '{"href":"b"}']
  const queries = [{ ...query('Mayagüez ☀', [2, 1]) }, query('x', [])]
  const sizeOf = (id: number) => ({ leadId: id, bytes: Buffer.byteLength(leads[id - 1] ?? '') })
  const delivery = plan(queries, sizeOf).deliveries[0]
  assert.ok(delivery)
  const pieces = delivery.versionIds.map((id) => ({ json: Buffer.from(leads[id - 1] ?? ''), place: '' }))
  const body = buildBody(delivery.queryList, pieces, delivery.bytes)
  assert.equal(body.length, delivery.bytes)
  assert.equal(JSON.parse(body.toString()).fsbos.length, 2)
  assert.throws(() => buildBody(delivery.queryList, pieces, delivery.bytes + 1), RangeError)
})

test('many random plans keep every promise: parts within the limit, no lead lost or twice, every query listed where its leads are', () => {
  let seed = 7
  const random = (below: number) => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31
    return seed % below
  }
  for (let round = 0; round < 200; round++) {
    const queries = Array.from({ length: 1 + random(6) }, (_, at) => {
      const ids = new Set(Array.from({ length: random(30) }, () => 1 + random(60)))
      return query(
        `q${at}`,
        [...ids].sort((a, b) => b - a),
      )
    })
    const bytesOf = (id: number) => 20 + ((id * 37) % 400)
    const { deliveries, tooLarge } = plan(queries, sizes(bytesOf), 700)
    const sent = deliveries.flatMap(({ versionIds }) => versionIds)
    const matched = new Set(queries.flatMap(({ versionIds }) => versionIds))
    assert.equal(new Set(sent).size, sent.length)
    assert.deepEqual([...new Set([...sent, ...tooLarge])].sort(), [...matched].sort())
    assert.ok(deliveries.every(({ bytes }) => bytes <= 700))
    assert.deepEqual(
      [...new Set(deliveries.flatMap(({ queryList }) => queriesOf(queryList)))].sort(),
      queries.map((_, at) => `q${at}`),
    )
  }
})

test('a lead that fills a part to its last byte is sent, and one that is a byte longer is left out', () => {
  const queries = [query('a', [3, 2, 1])]
  const bytesMax = countBodyBytes(1, Buffer.byteLength(queries[0]?.json ?? ''), 1, 500)
  const { deliveries, tooLarge } = plan(queries, sizes((id) => 498 + id), bytesMax) // biome-ignore format: short
  assert.deepEqual([deliveries.map(({ versionIds }) => versionIds), tooLarge], [[[2], [1]], [3]])
})
