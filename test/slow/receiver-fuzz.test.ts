/** Requests that nobody would think of, mostly near to a delivery: each gets one clear answer, and the receiver stays well. */
import assert from 'node:assert/strict'
import net from 'node:net'
import { after, test } from 'node:test'
import fc from 'fast-check'
import { completeLead, leadFields } from '../../src/leads/lead.ts'
import { startReceiver } from '../../src/receiver-kit/receiver/receiver.ts'
import { createDatabase } from '../support/database.ts'

const database = await createDatabase()
const troubles: unknown[] = []
const receiver = await startReceiver({
  db: await database.open(),
  host: '127.0.0.1',
  port: 0,
  onTrouble: (error) => troubles.push(error),
})
after(() => receiver.close())

const odd = fc.oneof(
  fc.constantFrom(
    null, true, -1, 0, 1e12, 1e12 + 1, 1e308, '', ' ', '0', '\u0000', '\ud800', '🏡'.repeat(300), 'x'.repeat(3_000), [], {}, [[]],
    { toString: 1 }, { $ref: '#' }, 'https://x', '//x', 'javascript:x', 'http://[', 'zipcode', 'text',
  ),
  fc.jsonValue({ maxDepth: 3 }),
  fc.string({ unit: 'binary', maxLength: 30 }),
) // biome-ignore format: a list

/** An object with some of its fields changed, gone, or others beside them. */
const spoil = (base: object, names: readonly string[]) =>
  fc
    .array(fc.tuple(fc.constantFrom(...names, '__proto__', 'constructor', 'toJSON', '', 'id'), fc.option(odd)), {
      maxLength: 1,
      size: 'small',
    })
    .map((changes) => {
      const entries = new Map<string, unknown>(Object.entries(base))
      for (const [name, value] of changes) {
        if (value === null) entries.delete(name)
        else entries.set(name, value)
      }
      return entries.size === 0 ? {} : Object.fromEntries([...entries].filter(([name]) => name !== '__proto__'))
    })

const names = leadFields.map(({ name }) => name)
const lead = fc
  .nat(50)
  .chain((n) => spoil(completeLead({ href: `https://example.com/${n}`, postalCode: '60614' }), names))
const query = fc
  .nat(5)
  .chain((n) => spoil({ type: 'text', value: `house ${n}.`, radius: n }, ['type', 'value', 'radius']))
const delivery = fc
  .record({ queryList: fc.oneof({ weight: 9, arbitrary: fc.array(query, { minLength: 1, maxLength: 3 }) }, { weight: 1, arbitrary: odd }), fsbos: fc.oneof({ weight: 9, arbitrary: fc.array(lead, { maxLength: 4 }) }, { weight: 1, arbitrary: odd }) })
  .chain((body) => fc.oneof({ weight: 9, arbitrary: fc.constant(body as object) }, { weight: 1, arbitrary: spoil(body, ['queryList', 'fsbos']) }))
  .map((body) => Buffer.from(JSON.stringify(body))) // biome-ignore format: short
const bytes = fc.oneof(
  { weight: 8, arbitrary: delivery },
  // a delivery with a few bytes changed, or cut short
  { weight: 2, arbitrary: fc.tuple(delivery, fc.nat(), fc.nat(255), fc.boolean()).map(([body, at, byte, cut]) => {
    const changed = Buffer.from(body)
    if (changed.length > 0) changed[at % changed.length] = byte
    return cut ? changed.subarray(0, at % (changed.length + 1)) : changed
  }) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }).map((array) => Buffer.from(array)) },
  { weight: 1, arbitrary: fc.constantFrom('', '{', '[]', 'null', '\ufeff{}', `${'['.repeat(50_000)}${']'.repeat(50_000)}`, '{"queryList":[],"queryList":[],"fsbos":[]}', '{"__proto__":{"queryList":[]},"queryList":[],"fsbos":[]}', '{"queryList":[],"fsbos":[]}x', '5\r\nhello\r\n0\r\n\r\n').map((text) => Buffer.from(text)) },
) // biome-ignore format: a list

const word = fc.oneof(
  fc.constantFrom('', 'k', 'a b', 'é', '\u0000', '\t', 'k'.repeat(51), 'k'.repeat(101), 'x'.repeat(20_000), 'key,key', '"k"'),
  fc.string({ maxLength: 60 }),
) // biome-ignore format: a list
const usual = {
  Host: 'a', Connection: 'close', 'Content-Type': 'application/json', 'X-Service-API-Key': 'k', 'X-Data-Source': 'd', 'X-Idempotency-Key': '',
} // biome-ignore format: a list
const head = fc.record({
  line: fc.oneof(
    { weight: 20, arbitrary: fc.constant('POST /leads HTTP/1.1') },
    { weight: 1, arbitrary: fc.tuple(fc.constantFrom('POST', 'GET', 'HEAD', 'OPTIONS', 'CONNECT', 'PRI', 'post', ''), fc.constantFrom('/', '*', '/?a=1', 'http://a/b', 'a:1', '//', '/%00', '/\u0000'), fc.constantFrom('1.1', '1.0', '2.0', '9')).map(([method, path, version]) => `${method} ${path} HTTP/${version}`) },
  ),
  changes: fc.array(fc.tuple(fc.constantFrom(...Object.keys(usual).filter((name) => name !== 'Connection')), fc.option(word)), { maxLength: 1 }),
  more: fc.array(fc.oneof(fc.constantFrom('Transfer-Encoding: chunked', 'Content-Encoding: gzip', 'Content-Length: 3', 'Content-Length: -1', 'Content-Length: 5000001', 'Expect: 100-continue', 'Expect: x', 'Upgrade: h2c', 'Connection: Upgrade, HTTP2-Settings', 'X-Data-Source: e'), fc.tuple(fc.constantFrom('X-Y', 'X-Service-API-Key', 'X Y'), word).map(([name, value]) => `${name}: ${value}`)), { maxLength: 1 }),
  hasLength: fc.integer({ min: 0, max: 9 }).map((n) => n > 0),
}) // biome-ignore format: a list

let sent = 0
const request = fc.tuple(head, bytes).map(([{ line, changes, more, hasLength }, body]) => {
  const headers = new Map<string, string>(Object.entries({ ...usual, 'X-Idempotency-Key': `key-${++sent % 3_000}` }))
  for (const [name, value] of changes) {
    if (value === null) headers.delete(name)
    else headers.set(name, value)
  }
  if (hasLength) headers.set('Content-Length', String(body.length))
  const lines = [line, ...[...headers].map(([name, value]) => `${name}: ${value}`), ...more, '', '']
  // who promises more than there is gets no answer before the end
  const isShort = !hasLength && more.some((text) => /Content-Length: \d|chunked/.test(text))
  return { bytes: Buffer.concat([Buffer.from(lines.join('\r\n'), 'utf8'), body]), isShort }
})

/** What comes back until the connection is closed; rejects if nobody does. */
function exchange({ bytes, isShort }: { bytes: Buffer; isShort: boolean }): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = net.connect(receiver.port, '127.0.0.1', () => (isShort ? socket.end(bytes) : socket.write(bytes)))
    const timer = setTimeout(() => reject(new Error(`no end to ${bytes.subarray(0, 500)}; so far: ${answer}`)), 20_000)
    socket.setEncoding('utf8').on('data', (part) => {
      answer += part
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(answer)
    })
  })
}

const statuses = new Map<string, number>()

function assertClear(answer: string, isShort: boolean): void {
  const final = answer.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, '')
  if (final === '' && isShort) return
  const [, status = ''] = /^HTTP\/1\.1 (\d{3}) /.exec(final) ?? assert.fail(`no answer: ${final}`)
  statuses.set(status, (statuses.get(status) ?? 0) + 1)
  assert.ok(Number(status) < 500, final)
  const [top = '', text = ''] = final.split('\r\n\r\n', 2)
  const length = Number(/^content-length: (\d+)/im.exec(top)?.[1])
  if (text === '') return
  const { ok, msg, problems } = JSON.parse(Buffer.from(text).subarray(0, length).toString())
  assert.equal(ok, status === '200', final)
  assert.match(msg, /^[A-Z].*\.$/)
  if (ok) return
  assert.ok(problems.length > 0, final)
  for (const { clause, path, message } of problems) {
    assert.match(clause, /^4\.\d+$/)
    assert.ok(path !== '' && message !== '' && `${path} ${message}`.length < 500, final)
  }
}

test('thousands of bad requests: no crash, no 5xx, and each is told what is wrong with it and which clause it breaks', async () => {
  const property = fc.asyncProperty(
    fc.array(request, { minLength: 50, maxLength: 50, size: 'max' }),
    async (requests) => {
      const answers = await Promise.all(requests.map(exchange))
      for (const [at, answer] of answers.entries()) assertClear(answer, requests[at]?.isShort ?? false)
    },
  )
  await fc.assert(property, { numRuns: 45, endOnFailure: true })
  assert.deepEqual(troubles, [])
  // it was no monotony
  for (const status of ['200', '400', '401', '405', '411', '415', '422', '431']) {
    assert.ok((statuses.get(status) ?? 0) > 0, `no ${status} among ${JSON.stringify([...statuses])}`)
  }
})
