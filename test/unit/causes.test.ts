/** Over the errors that the program itself makes: an attempt's, and those that the ledger adds. */
import assert from 'node:assert/strict'
import http from 'node:http'
import { test } from 'node:test'
import { describeNoAnswer, sendAttempt } from '../../src/deliveries/attempt.ts'
import { wasErased } from '../../src/deliveries/ledger.ts'
import { createHttp } from '../../src/http/client.ts'
import { describeTrouble, type TroubleStage } from '../../src/http/trouble.ts'
import { CauseTally, causeOf } from '../../src/inspect/status/causes.ts'
import { listen } from '../support/sockets.ts'

const target = { receiverUrl: 'http://receiver.example/leads', dataSource: 'leadpush', timeoutMs: 30_000 }

function troubleOf(stage: TroubleStage, code: string, error: unknown = new Error(code)) {
  const text = describeTrouble(stage, code, error)
  const sent = stage !== 'connect'
  return describeNoAnswer({ kind: 'no-answer', sent, stage, error: text, code, reused: false }, target)
}

test('each status that a receiver answers with has a cause of its own, and a remedy', async (t) => {
  const server = await listen(
    http.createServer(({ url }, response) => void response.writeHead(Number(url?.slice(1))).end()),
  )
  const wire = createHttp({ concurrency: 1, timeoutMs: 5_000 })
  t.after(() => Promise.all([wire.close(), server.close()]))
  const expected: [status: number, cause: RegExp, remedy: RegExp][] = [
    [301, /redirect/, /LEADPUSH_RECEIVER_URL to the address/],
    [400, /malformed/, /leadpush probe/],
    [401, /receiver key/, /leadpush users import/],
    [403, /receiver key/, /leadpush users import/],
    [404, /no such address/, /LEADPUSH_RECEIVER_URL/],
    [405, /takes no POST/, /LEADPUSH_RECEIVER_URL/],
    [407, /proxy/, /HTTP_PROXY/],
    [409, /has this delivery under way/, /restored from a backup/],
    [410, /gone/, /LEADPUSH_RECEIVER_URL/],
    [411, /length/, /Content-Length/],
    [413, /too large/, /5,000,000/],
    [415, /JSON/, /LEADPUSH_RECEIVER_URL/],
    [418, /refused the delivery/, /log/],
    [422, /another body/, /preview --body.*restored from a backup/],
    [429, /too many/, /LEADPUSH_RATE/],
    [500, /in trouble/, /log says why/],
    [503, /in trouble/, /log says why/],
  ]
  const causes = new Set<string>()
  for (const [status, words, advice] of expected) {
    const attempt = { idempotencyKey: 'key', receiverKey: 'key', body: Buffer.from('{}') }
    const url = { ...target, receiverUrl: `http://127.0.0.1:${server.port}/${status}` }
    const { what: cause, toDo: remedy } = causeOf(await sendAttempt(wire, url, attempt))
    assert.match(cause, new RegExp(`^HTTP ${status}: [^:;]+$`))
    assert.match(cause, words)
    assert.match(remedy, advice)
    causes.add(cause)
  }
  assert.equal(causes.size, expected.length)
})

test('all codes for a missing answer have one cause, and a remedy', () => {
  const expected: [stage: TroubleStage, codes: string[], cause: string, remedy: RegExp][] = [
    ['connect', ['ECONNREFUSED'], 'the receiver was not reached: the connection was refused: nothing listens there', /receiver runs/],
    ['connect', ['ENOTFOUND'], 'the receiver was not reached: its host name is unknown', /host in LEADPUSH_RECEIVER_URL/],
    ['connect', ['EAI_AGAIN'], 'the receiver was not reached: its host name could not be looked up just now', /name server/],
    ['connect', ['EHOSTUNREACH', 'ENETUNREACH'], 'the receiver was not reached: there is no route to it', /firewall/],
    ['connect', ['TIMEOUT', 'ETIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT'], 'the receiver was not reached: there was no connection in time', /firewall/],
    ['connect', ['ECONNRESET'], 'the receiver was not reached: the connection broke while it was being made', /ends connections early/],
    ['connect', ['CERT_HAS_EXPIRED'], 'the receiver was not reached: its certificate has expired, by this machine\'s clock', /new certificate/],
    ['connect', ['ERR_TLS_CERT_ALTNAME_INVALID'], 'the receiver was not reached: its certificate is for another host name', /host/],
    ['connect', ['SELF_SIGNED_CERT_IN_CHAIN', 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'], 'the receiver was not reached: its certificate is not trusted', /NODE_EXTRA_CA_CERTS/],
    ['connect', ['EPROTO', 'ERR_SSL_WRONG_VERSION_NUMBER'], 'the receiver was not reached: the TLS handshake failed', /http: or https:/],
    ['connect', ['UND_ERR_SOCKET'], 'the receiver was not reached: the proxy closed the connection', /NO_PROXY/],
    ['connect', ['EMFILE'], 'the receiver was not reached: the connection could not be made', /leadpush status --user/],
    ['request', ['TIMEOUT'], 'an answer did not come in time', /LEADPUSH_TIMEOUT/],
    ['response', ['TIMEOUT'], 'the end of the answer did not come in time', /LEADPUSH_TIMEOUT/],
    ['request', ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'], 'the connection broke before an answer came', /ends connections early/],
    ['response', ['HPE_INVALID_CONSTANT', 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH'], 'the answer is no valid HTTP', /LEADPUSH_RECEIVER_URL/],
  ] // biome-ignore format: a table
  for (const [stage, codes, cause, remedy] of expected) {
    for (const code of codes) {
      const found = causeOf({ httpStatus: null, error: troubleOf(stage, code) })
      assert.equal(found.what, cause)
      assert.match(found.toDo, remedy)
    }
  }
  const refused = troubleOf('connect', 'UND_ERR_ABORTED', new Error('Proxy response (407) !== 200 when HTTP Tunneling'))
  assert.match(causeOf({ httpStatus: null, error: refused }).toDo, /HTTPS_PROXY/)
  const away = describeNoAnswer(
    {
      kind: 'no-answer',
      sent: false,
      stage: 'connect',
      code: 'ECONNREFUSED',
      error: 'the proxy was not reached: …',
      reused: false,
      atProxy: true,
    },
    target,
  )
  assert.match(causeOf({ httpStatus: null, error: away }).toDo, /NO_PROXY/)
})

test('the end of a delivery decides its cause, not its last attempt', () => {
  assert.match(causeOf({ httpStatus: 503, error: wasErased }).toDo, /made anew without it/)
  assert.match(causeOf({ httpStatus: 503, error: 'nobody recorded what came of the attempt' }).toDo, /A process died/)
  assert.match(causeOf({ httpStatus: null, error: 'the user unsubscribed before it was begun' }).toDo, /^Nothing/)
  assert.deepEqual(causeOf({ httpStatus: 502, error: null }).what, 'HTTP 502')
  assert.deepEqual(causeOf({ httpStatus: null, error: null }).what, 'the reason is not known')
})

test('a tally counts by cause, the most frequent first, with the first few users, and in bounded memory', () => {
  const tally = new CauseTally(3)
  const add = (user: string | null, error: string, answer?: string) =>
    tally.add({ user, httpStatus: null, error, answer })
  for (const user of ['a', 'b', 'b', null, 'c', 'd']) add(user && `${user}@example.com`, 'HTTP 401: no key: do this')
  add('e@example.com', 'HTTP 500: in trouble')
  for (let n = 0; n < 1_000; n++) add('f@example.com', `other ${n}`, n % 3 ? `said ${n}` : 'often')
  const [others, keys] = tally.top(2)
  assert.deepEqual(
    { ...others, toDo: '' },
    {
      what: 'other causes',
      toDo: '',
      deliveries: 902,
      users: ['f@example.com'],
      answers: [
        { answer: 'often', deliveries: 301 },
        { answer: 'said 98', deliveries: 1 },
        { answer: 'said 100', deliveries: 1 },
      ],
    },
  )
  assert.deepEqual([keys?.what, keys?.deliveries], ['HTTP 401: no key', 6])
  assert.deepEqual(keys?.users, ['a@example.com', 'b@example.com', 'c@example.com'])
  assert.equal(tally.top().length, 101)
  assert.equal(tally.top(1).length, 1)
})
