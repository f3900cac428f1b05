/** An attempt against real sockets (contract 4.1, 4.5, 4.6, 4.12): how whatever a receiver or a proxy does is judged and told. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import { after, test } from 'node:test'
import tls from 'node:tls'
import type { Proxies } from '../../src/base/config.ts'
import { packageVersion } from '../../src/base/package-root.ts'
import { type AttemptOutcome, sendAttempt } from '../../src/deliveries/attempt.ts'
import { createHttp, type Http } from '../../src/http/client.ts'
import { makeGate } from '../support/gate.ts'
import {
  certificate,
  findClosedPort,
  type Listening,
  listen,
  type RawRequest,
  readRequests,
} from '../support/sockets.ts'
import { until } from '../support/until.ts'

const request = {
  idempotencyKey: 'key-1',
  receiverKey: 'secret-of-the-user',
  body: Buffer.from('{"queryList":[],"fsbos":[]}'),
}
const open: { close(): Promise<void> }[] = []
after(() => Promise.all(open.map((it) => it.close())))

/** For a machine that stalls for seconds: a test that waits for it gives a brief one. */
const timeoutMs = 30_000

function newHttp(options: { timeoutMs?: number; concurrency?: number; proxies?: Proxies } = {}): Http {
  const made = createHttp({ timeoutMs, concurrency: 4, ...options })
  open.push(made)
  return made
}

const target = (url: string | number, brieflyMs = timeoutMs) => ({
  receiverUrl: typeof url === 'number' ? `http://127.0.0.1:${url}/push` : url,
  dataSource: 'source-1',
  timeoutMs: brieflyMs,
})

async function serve(onSocket: (socket: net.Socket) => void): Promise<Listening> {
  const listening = await listen(net.createServer(onSocket))
  open.push(listening)
  return listening
}

/** A receiver that answers each whole request with these bytes, and then perhaps closes. */
const answering = (response: string | Buffer, then: 'stay' | 'end' | 'reset' = 'stay') =>
  serve((socket) =>
    readRequests(socket, () => {
      socket.write(response, () => {
        if (then === 'end') socket.end()
        if (then === 'reset') setTimeout(() => socket.resetAndDestroy(), 50)
      })
    }),
  )

const ok = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
const withStatus = (status: number, headers = '') => `HTTP/1.1 ${status} Any\r\n${headers}Content-Length: 0\r\n\r\n`

type Judgement = Pick<AttemptOutcome, 'ok' | 'maybeArrived' | 'httpStatus'>
const judgement = ({ ok, maybeArrived: open, httpStatus }: AttemptOutcome): Judgement => ({
  ok,
  maybeArrived: open,
  httpStatus,
})
const success = (httpStatus = 200): Judgement => ({ ok: true, maybeArrived: false, httpStatus })
const refused = (httpStatus: number): Judgement => ({ ok: false, maybeArrived: false, httpStatus })
const unreached: Judgement = { ok: false, maybeArrived: false, httpStatus: null }
const unanswered: Judgement = { ok: false, maybeArrived: true, httpStatus: null }

test('the request on the wire has exactly the headers of the contract, the length and the bytes of the body', async () => {
  const seen: RawRequest[] = []
  const receiver = await serve((socket) =>
    readRequests(socket, (whole) => {
      seen.push(whole)
      socket.write(ok)
    }),
  )
  const body = Buffer.from('{"queryList":[],"fsbos":["Zoë – 🏡"]}')
  await sendAttempt(newHttp(), target(`http://127.0.0.1:${receiver.port}/in/leads?tenant=7#part`), { ...request, body })
  assert.deepEqual(seen[0]?.head.split('\r\n'), [
    'POST /in/leads?tenant=7 HTTP/1.1',
    `host: 127.0.0.1:${receiver.port}`,
    'connection: keep-alive',
    'Content-Type: application/json',
    'X-Service-API-Key: secret-of-the-user',
    'X-Data-Source: source-1',
    'X-Idempotency-Key: key-1',
    `User-Agent: leadpush/${packageVersion}`,
    `content-length: ${body.length}`,
  ])
  assert.deepEqual(seen[0]?.body, body)
})

/** An attempt, or several one after the other, with one connection at most. */
interface Row {
  what: string
  /** The answer to each whole request, or what is done with a connection. */
  does: string | ((socket: net.Socket) => unknown)
  next?: 'end' | 'reset'
  /** Of the body of the request. */
  bytes?: number
  /** What is waited for in vain. */
  briefly?: number
  /** What comes of each attempt. */
  is: Judgement
  words?: RegExp
  retryAfterMs?: number | null
  /** How many have been made after each attempt; by default there is one attempt. */
  connections?: number[]
}

const limit = 64 * 1024
const httpDate = (ms: number) => new Date(ms).toUTCString()
const length = (count: number, body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${count}\r\n\r\n${body}`
const chunked = (body: string) => `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body}`
const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n'
const goOn = 'HTTP/1.1 100 Continue\r\n\r\n'
const onRequest = (act: (socket: net.Socket) => unknown) => (socket: net.Socket) =>
  readRequests(socket, () => act(socket))
const onData = (act: (socket: net.Socket) => unknown) => (socket: net.Socket) => socket.once('data', () => act(socket))
const dripping = (head: string, drip: string) =>
  onRequest((socket) => {
    socket.write(head)
    const timer = setInterval(() => socket.write(drip), 40)
    socket.on('close', () => clearInterval(timer))
  })
const refusesEarly = (then: (socket: net.Socket) => unknown) =>
  onData((socket) => {
    socket.pause()
    socket.write('HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n', () => then(socket))
  })
const status = (of: number, is: Judgement, words?: RegExp, headers = ''): Row => ({
  what: `status ${of}`,
  does: withStatus(of, headers),
  is,
  ...(words && { words }),
})
const asking = (what: string, headers: string, retryAfterMs: number | null, of = 503): Row =>
  ({ what: `a ${of} with ${what} for a Retry-After`, does: withStatus(of, headers), is: refused(of), retryAfterMs }) // biome-ignore format: short
const notHttp = { is: unanswered, words: /^the answer is no valid HTTP$/ }
const broken = { is: unanswered, words: /the connection broke before an answer came/ }

const rows: Row[] = [
  ...[200, 201, 204, 299].map((of) => status(of, success(of))),
  status(300, refused(300), /redirect/),
  status(301, refused(301), /not followed: set LEADPUSH_RECEIVER_URL/, 'Location: http://127.0.0.1:1/secret\r\n'),
  status(304, refused(304), /redirect/),
  status(308, refused(308), /redirect/),
  status(400, refused(400), /malformed/),
  status(401, refused(401), /receiver key/),
  status(403, refused(403), /receiver key/),
  status(404, refused(404), /LEADPUSH_RECEIVER_URL/),
  status(409, { ok: false, maybeArrived: true, httpStatus: 409 }, /under way/),
  status(413, refused(413), /too large/),
  status(422, refused(422), /refused the body, or has this key with another body/),
  status(429, refused(429), /LEADPUSH_RATE/),
  status(500, refused(500), /in trouble/),
  status(599, refused(599), /in trouble/),

  ...[limit - 1, limit, limit + 1].flatMap((size) => ([[200, success()], [500, refused(500)]] as const).map(([of, is]): Row => ({
    what: `a complete ${of} answer of ${size} bytes`, does: `HTTP/1.1 ${of} Any\r\nContent-Length: ${size}\r\n\r\n${'x'.repeat(size)}`,
    is, connections: size > limit ? [1, 2] : [1, 1],
  }))),
  { what: 'a 200 answer of exactly 64 KiB that never ends', does: `HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(limit)}`, briefly: 1_000, is: unanswered, words: /end of the answer did not come in time/ },

  { what: 'an answer with chunks', does: chunked('2\r\nok\r\n0\r\n\r\n'), is: success() },
  { what: 'an answer of HTTP/1.0 that ends with its connection', does: 'HTTP/1.0 200 OK\r\n\r\nok', next: 'end', is: success() },
  { what: 'an early hint before the answer', does: hints + ok, is: success() },
  { what: 'a 100 that nobody asked for before the answer', does: goOn + ok, is: success() },
  { what: 'a 100 between other interim answers', does: `${hints}HTTP/1.1 100 Go\r\nX: y\r\n\r\nHTTP/1.1 100 Go\r\n\r\n${ok}`, is: success() },
  { what: 'a 100 alone', does: goOn, next: 'end', is: unanswered },
  { what: 'a 204 that tells a length', does: 'HTTP/1.1 204 None\r\nContent-Length: 9\r\n\r\n', is: success(204) },
  { what: 'a 204 with a body', does: 'HTTP/1.1 204 None\r\nContent-Length: 2\r\n\r\n{}', is: success(204) },
  { what: 'a 304 that tells a length', does: 'HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n', is: refused(304) },
  { what: 'an answer whose chunks break off', does: chunked('5\r\nok'), next: 'end', is: unanswered },
  { what: 'an answer that is shorter than its length', does: length(9, 'ok'), next: 'end', is: unanswered },
  { what: 'a refusal that is shorter than its length', does: 'HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nok', next: 'end', is: unanswered },
  { what: 'an answer reset in its middle', does: length(9, 'ok'), next: 'reset', is: unanswered },
  { what: 'an answer without length that is reset', does: 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok', next: 'reset', is: unanswered },
  { what: 'half a status line', does: 'HTTP/1.1 20', next: 'end', is: unanswered },
  { what: 'an answer with headers that do not end', does: `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(20_000)}`, is: unanswered },
  // undici took the 100 for a broken connection, so that each delivery went out twice and ended unknown
  { what: 'an answer that comes after a 100 to every request at once', is: success(), connections: [1, 1], does: onRequest((socket) => {
    socket.write(goOn)
    setTimeout(() => socket.write(ok), 50)
  }) },
  // its beginning alone was taken for the final answer: the connection was broken, and the delivery went out twice and ended unknown
  ...[1, 8, 10, 11, 20, goOn.length - 1].map((at): Row => ({ what: `an answer after a 100 that comes in pieces, split at ${at},`, is: success(), does: (socket) => {
    socket.setNoDelay(true)
    onRequest(() => {
      socket.write(goOn.slice(0, at))
      setTimeout(() => socket.write(`${goOn.slice(at)}${goOn}${ok.slice(0, at)}`), 30)
      setTimeout(() => socket.write(ok.slice(at)), 60)
    })(socket)
  } })),
  // undici gives the error of its parser no code, so a broken connection was told instead, and its remedies
  { what: 'the greeting of a mail server', does: '220 mail.example.com ESMTP\r\n', ...notHttp },
  { what: 'an answer whose lines end with a line feed alone', does: ok.replaceAll('\r', ''), ...notHttp },
  { what: 'a page without a status line', does: '<html></html>', ...notHttp },
  // it was told as a broken connection (ERR_ASSERTION)
  { what: 'status 099', does: 'HTTP/1.1 099 Low\r\n\r\n', ...notHttp },

  { what: 'a connection that is closed after the request, without an answer,', does: onRequest((socket) => socket.end()), ...broken },
  { what: 'a connection that is reset after the request, without an answer,', does: onRequest((socket) => socket.resetAndDestroy()), ...broken },
  { what: 'a connection that is closed as soon as it is made', does: onData((socket) => socket.end()), bytes: 3_000_000, is: unanswered },
  { what: 'a connection that is reset as soon as it is made', does: onData((socket) => socket.resetAndDestroy()), bytes: 3_000_000, is: unanswered },

  { what: 'an answer that does not come in time', does: (socket) => socket.resume(), briefly: 1_000, is: unanswered, words: /an answer did not come in time \(LEADPUSH_TIMEOUT is 1 s\)/ },
  { what: 'an answer with headers that trickle in (one timeout spans it all)', does: dripping('HTTP/1.1 200 OK\r\n', 'X: y\r\n'), briefly: 300, is: unanswered },
  { what: 'an answer with a body that trickles in', does: dripping(length(1_000, ''), 'x'), briefly: 300, is: unanswered },
  { what: 'a request whose body the receiver takes slowly', does: (socket) => socket.pause(), bytes: 5_000_000, briefly: 1_000, is: unanswered },
  { what: 'a refusal that comes before the body was read', does: refusesEarly(() => {}), bytes: 5_000_000, is: refused(413) },
  { what: 'a refusal that comes before the body was read, and ends the connection,', does: refusesEarly((socket) => socket.destroy()), bytes: 5_000_000, is: refused(413) },

  asking('7', 'Retry-After: 7\r\n', 7_000),
  asking('7', 'Retry-After: 7\r\n', 7_000, 429),
  asking('7', 'Retry-After: 7\r\n', null, 500),
  asking('nothing', '', null),
  asking('299', 'Retry-After: 299\r\n', 299_000),
  asking('300', 'Retry-After: 300\r\n', 300_000),
  asking('301', 'Retry-After: 301\r\n', 300_000),
  asking('nonsense', 'Retry-After: soon\r\n', null),
  asking('a negative number', 'Retry-After: -5\r\n', null),
  asking('a date', `Date: ${httpDate(0)}\r\nRetry-After: ${httpDate(9_000)}\r\n`, 9_000),
  asking('a date in the past', `Date: ${httpDate(9_000)}\r\nRetry-After: ${httpDate(0)}\r\n`, 0),
  asking('a date far away', `Date: ${httpDate(0)}\r\nRetry-After: ${httpDate(9e9)}\r\n`, 300_000),
] // biome-ignore format: a table

const nameOf = ({ ok, maybeArrived }: Judgement) =>
  ok ? 'a success' : maybeArrived ? 'no success, and open' : 'a failure that is certain'

for (const { what, does, next, bytes, briefly, is, words, retryAfterMs, connections = [1] } of rows) {
  const waits = retryAfterMs === undefined ? '' : `, and asks to wait ${retryAfterMs} ms`
  test(`${what} is ${nameOf(is)}${waits}`, async () => {
    const receiver = await (typeof does === 'string' ? answering(does, next) : serve(does))
    const sender = newHttp(connections.length > 1 ? { concurrency: 1 } : {})
    const whole = bytes === undefined ? request : { ...request, body: Buffer.alloc(bytes, 'x') }
    for (const count of connections) {
      const outcome = await sendAttempt(sender, target(receiver.port, briefly), whole)
      const error = outcome.error ?? ''
      assert.deepEqual(judgement(outcome), is, error)
      assert.equal(receiver.connections(), count, 'sent once')
      assert.equal(outcome.error === null, is.ok)
      if (words) assert.match(error, words)
      assert.doesNotMatch(error, /secret|\n/)
      if (retryAfterMs !== undefined) assert.equal(outcome.retryAfterMs, retryAfterMs)
      if (briefly === undefined) assert.doesNotMatch(error, /in time/)
      else assert.ok(outcome.durationMs >= briefly - 1, `took ${outcome.durationMs} ms`)
    }
  })
}

test('a 200 answer that exceeds 64 KiB and never ends is a success, and its connection is closed', async () => {
  let resolveClosed = () => {}
  const connectionClosed = new Promise<void>((resolve) => {
    resolveClosed = resolve
  })
  const receiver = await serve((socket) => {
    socket.on('close', () => resolveClosed())
    readRequests(socket, () => socket.write(`HTTP/1.1 200 OK\r\n\r\n${'x'.repeat(limit + 1)}`))
  })
  assert.deepEqual(judgement(await sendAttempt(newHttp(), target(receiver.port), request)), success())
  await connectionClosed
})

test('a refused connection was certainly not sent', async () => {
  const outcome = await sendAttempt(newHttp(), target(await findClosedPort()), request)
  assert.deepEqual(judgement(outcome), unreached)
  assert.match(outcome.error ?? '', /refused.*ECONNREFUSED.*check LEADPUSH_RECEIVER_URL/)
})

test('a host name that does not exist was certainly not sent', async () => {
  const outcome = await sendAttempt(newHttp(), target('http://receiver.invalid/'), request)
  assert.deepEqual(judgement(outcome), unreached)
  assert.match(outcome.error ?? '', /host name/)
})

/** A listening socket whose queue is full takes no further connection: the handshake hangs, as behind a firewall. */
async function listenWithFullQueue(): Promise<{ port: number; close(): Promise<void> }> {
  const script = `
    const server = require('node:net').createServer().listen({ host: '127.0.0.1', port: 0, backlog: 1 }, () => {
      require('node:fs').writeSync(1, server.address().port + '\\n')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
    })`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = Number(String(await new Promise((resolve) => child.stdout.once('data', resolve))))
  const fillers = Array.from({ length: 8 }, () => net.connect(port, '127.0.0.1').on('error', () => {}))
  await new Promise((resolve) => setTimeout(resolve, 200))
  return {
    port,
    close: async () => {
      for (const socket of fillers) socket.destroy()
      child.kill('SIGKILL')
    },
  }
}

test('a connection that is not made in time was certainly not sent, and holds up nothing after it', async () => {
  const full = await listenWithFullQueue()
  open.push(full)
  const receiver = await answering(ok)
  const sender = newHttp({ concurrency: 1 })
  const outcome = await sendAttempt(sender, target(full.port, 300), request)
  assert.deepEqual(judgement(outcome), unreached)
  assert.match(outcome.error ?? '', /no connection in time \(LEADPUSH_TIMEOUT is 0.3 s\)/)
  assert.ok(outcome.durationMs >= 299, `took ${outcome.durationMs} ms`)
  assert.deepEqual(judgement(await sendAttempt(sender, target(receiver.port), request)), success())
})

test('what this machine lacks takes an attempt back only if nothing of it went out', async () => {
  for (const sent of [false, true]) {
    const outcome = { kind: 'no-answer', stage: 'connect', error: '', code: 'EMFILE', reused: false, sent } as const
    const { lacks, maybeArrived } = await sendAttempt({ post: async () => outcome }, target(1), request)
    assert.deepEqual([lacks !== undefined, maybeArrived], [!sent, sent])
  }
})

test('a body may be overwritten once its attempt is over, even when the answer came before it was sent', async () => {
  // a receiver that answers early and keeps the connection open, then reads on: it must never see the next body in this one
  const bodies: Buffer[] = []
  const receiver = await serve((socket) => {
    let answered = false
    socket.on('data', (chunk) => {
      bodies.push(chunk)
      if (answered) return
      answered = true
      socket.pause()
      socket.write(ok)
      setTimeout(() => socket.resume(), 200)
    })
  })
  const body = Buffer.alloc(5_000_000, 'a')
  const outcome = await sendAttempt(newHttp({ concurrency: 1 }), target(receiver.port), { ...request, body })
  assert.deepEqual(judgement(outcome), success())
  body.fill('b')
  await pause(500)
  const text = Buffer.concat(bodies)
  const begin = text.indexOf('\r\n\r\n') + 4
  assert.ok(text.length > begin)
  assert.equal(text.subarray(begin).indexOf('b'), -1)
})

test('connections are kept and used again, never more than the concurrency', async () => {
  let underWay = 0
  let most = 0
  const server = http.createServer((incoming, response) => {
    underWay++
    most = Math.max(most, underWay)
    incoming.resume().on('end', () =>
      setTimeout(() => {
        underWay--
        response.end('ok')
      }, 5),
    )
  })
  const receiver = await listen(server)
  open.push(receiver)
  const sender = newHttp({ concurrency: 3 })
  const outcomes = await Promise.all(
    Array.from({ length: 60 }, () => sendAttempt(sender, target(receiver.port), request)),
  )
  assert.ok(outcomes.every((outcome) => outcome.ok))
  assert.equal(most, 3)
  assert.equal(receiver.connections(), 3)
})

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

test('a kept connection that the receiver closed meanwhile is not used, and refused after it went away', async () => {
  let closed: Promise<unknown> = Promise.resolve()
  const first = await serve((socket) => {
    // by then the sender has heard of it
    closed = once(socket, 'close')
    readRequests(socket, () => socket.end(ok))
  })
  const sender = newHttp({ concurrency: 1 })
  for (const connections of [1, 2]) {
    assert.deepEqual(judgement(await sendAttempt(sender, target(first.port), request)), success())
    assert.equal(first.connections(), connections)
    await closed
  }
  await first.close()
  assert.deepEqual(judgement(await sendAttempt(sender, target(first.port), request)), unreached)
})

test('a kept connection that was reset before the next request was on it costs that one nothing', async () => {
  // one that was closed was replaced, one that was reset failed the request, of which nothing had been sent
  let onReset = () => {}
  const receiver = await serve((socket) =>
    readRequests(socket, () => {
      socket.write(ok)
      setTimeout(() => {
        socket.resetAndDestroy()
        onReset()
      }, 20)
    }),
  )
  const sender = newHttp({ concurrency: 1 })
  let next = sendAttempt(sender, target(receiver.port), request)
  for (let connections = 1; connections <= 3; connections++) {
    const done = next
    // begun when the reset is on its way, and nothing has read it yet
    const begun = new Promise<void>((resolve) => {
      onReset = () => {
        next = sendAttempt(sender, target(receiver.port), request)
        resolve()
      }
    })
    assert.deepEqual(judgement(await done), success())
    assert.equal(receiver.connections(), connections)
    await begun
  }
  assert.deepEqual(judgement(await next), success())
})

test('after one kept connection broke under a request, the next requests get connections of their own', async () => {
  // some receivers promise to keep a connection and close it with the answer: each second attempt would be lost on them
  const heads: string[] = []
  const receiver = await serve((socket) => {
    let seen = 0
    readRequests(socket, ({ head }) => {
      heads.push(head)
      if (++seen === 1) socket.write(ok)
      else socket.resetAndDestroy()
    })
  })
  const sender = newHttp({ concurrency: 1 })
  const outcomes: Judgement[] = []
  for (let at = 0; at < 5; at++) outcomes.push(judgement(await sendAttempt(sender, target(receiver.port), request)))
  assert.deepEqual(outcomes, [success(), unanswered, success(), success(), success()])
  const kept = heads.map((head) => /^connection: keep-alive$/m.test(head))
  assert.deepEqual(kept, [true, true, false, false, false])
})

test('a kept connection that breaks under the next request is open, and the request is not sent again', async () => {
  let requests = 0
  const receiver = await serve((socket) => {
    let seen = 0
    readRequests(socket, () => {
      requests++
      if (++seen === 1) socket.write(ok)
      else socket.resetAndDestroy()
    })
  })
  const sender = newHttp({ concurrency: 1 })
  assert.deepEqual(judgement(await sendAttempt(sender, target(receiver.port), request)), success())
  assert.deepEqual(judgement(await sendAttempt(sender, target(receiver.port), request)), unanswered)
  assert.equal(requests, 2)
  assert.deepEqual(judgement(await sendAttempt(sender, target(receiver.port), request)), success())
})

test('trouble with a connection to one target says nothing of another target', async () => {
  // the connection made last was taken for the one that a request ran on: where a target answered and reset it, the
  // complete answers of others over kept connections counted as broken, and were sent again
  const wells = await Promise.all(Array.from({ length: 6 }, () => answering(ok)))
  const resets = await Promise.all([answering(ok, 'reset'), answering(ok, 'reset')])
  const sender = newHttp({ concurrency: 3 })
  for (let round = 0; round < 6; round++) {
    await Promise.all(resets.map(({ port }) => sendAttempt(sender, target(port), request)))
    const outcomes = await Promise.all(wells.map(({ port }) => sendAttempt(sender, target(port), request)))
    assert.deepEqual(
      outcomes.map(judgement),
      wells.map(() => success()),
    )
    // the resets come after their answers
    await pause(60)
  }
})

test('a target that breaks kept connections costs others theirs no more than its own', async () => {
  const broken = await serve((socket) => {
    let seen = 0
    readRequests(socket, () => (++seen === 1 ? socket.write(ok) : socket.resetAndDestroy()))
  })
  const well = await answering(ok)
  const sender = newHttp({ concurrency: 2 })
  for (let round = 0; round < 4; round++) {
    await sendAttempt(sender, target(broken.port), request)
    assert.deepEqual(judgement(await sendAttempt(sender, target(well.port), request)), success())
  }
  assert.deepEqual([well.connections(), broken.connections()], [1, 3])
})

test('with many targets connections to the last 256 are kept', async () => {
  const sockets = new Set<net.Socket>()
  const receiver = await serve((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    readRequests(socket, () => socket.write(ok))
  })
  const sender = createHttp({ timeoutMs, concurrency: 16, findAddresses: async () => ['127.0.0.1'] })
  open.push(sender)
  const hosts = Array.from({ length: 320 }, (_, n) => `http://host-${n}.example:${receiver.port}/`)
  const outcomes = await Promise.all(hosts.map((url) => sendAttempt(sender, target(url), request)))
  assert.ok(outcomes.every((outcome) => outcome.ok))
  // one that made room is gone a moment later
  await until('256 are left', () => sockets.size <= 256)
})

test('Retry-After with a date, from a receiver that sends no Date, counts from the own clock', async () => {
  const receiver = await answering(withStatus(503, `Retry-After: ${httpDate(Date.now() + 250_000)}\r\n`))
  const { retryAfterMs } = await sendAttempt(newHttp(), target(receiver.port), request)
  assert.ok(retryAfterMs !== null && retryAfterMs > 150_000 && retryAfterMs <= 250_000, String(retryAfterMs))
})

const tlsServer = (file: string) =>
  tls.createServer(
    { key: readFileSync(certificate('localhost.key')), cert: readFileSync(certificate(file)) },
    (socket) => {
      socket.on('error', () => {})
      readRequests(socket, () => socket.write(ok))
    },
  )

test('a certificate that is not trusted was certainly not sent', async () => {
  const receiver = await listen(tlsServer('localhost.pem'))
  open.push(receiver)
  const outcome = await sendAttempt(newHttp(), target(`https://127.0.0.1:${receiver.port}/`), request)
  assert.deepEqual(judgement(outcome), unreached)
  assert.match(outcome.error ?? '', /certificate is not trusted.*NODE_EXTRA_CA_CERTS/)
})

test('https: to a receiver that speaks http:, and the other way round', async () => {
  const plain = await serve((socket) => socket.once('data', () => socket.end(withStatus(400))))
  const outcome = await sendAttempt(newHttp(), target(`https://127.0.0.1:${plain.port}/`), request)
  assert.deepEqual(judgement(outcome), unreached)
  const secure = await listen(tlsServer('localhost.pem'))
  open.push(secure)
  assert.deepEqual(judgement(await sendAttempt(newHttp(), target(secure.port, 1_000), request)), unanswered)
})

/** A proxy that forwards in absolute form and makes tunnels; it notes what it was asked for. */
async function startProxy(refuse = 0) {
  const asked: string[] = []
  const agents: (string[] | undefined)[] = []
  const server = http.createServer((incoming, response) => {
    asked.push(`${incoming.method} ${incoming.url} ${incoming.headers['proxy-authorization'] ?? ''}`.trim())
    agents.push(incoming.headersDistinct['user-agent'])
    if (refuse) return void response.writeHead(refuse).end()
    const onward = http.request(incoming.url ?? '', { method: 'POST', headers: incoming.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers)
      answer.pipe(response)
    })
    incoming.pipe(onward)
  })
  server.on('connect', (incoming, socket, head) => {
    asked.push(`CONNECT ${incoming.url} ${incoming.headers['proxy-authorization'] ?? ''}`.trim())
    agents.push(incoming.headersDistinct['user-agent'])
    if (refuse) return void socket.end(`HTTP/1.1 ${refuse} No\r\n\r\n`)
    const [host, port] = (incoming.url ?? '').split(':')
    const onward = net.connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      onward.write(head)
      onward.pipe(socket).pipe(onward)
    })
    onward.on('error', () => socket.destroy())
    socket.on('error', () => onward.destroy())
  })
  const listening = await listen(server)
  open.push(listening)
  return { asked, agents, url: `http://name:pass@127.0.0.1:${listening.port}` }
}

test('an http: receiver is asked for through HTTP_PROXY, in absolute form, and not through HTTPS_PROXY', async () => {
  const receiver = await answering(ok)
  const proxy = await startProxy()
  const sender = newHttp({ proxies: { http: proxy.url } })
  assert.deepEqual(judgement(await sendAttempt(sender, target(receiver.port), request)), success())
  assert.deepEqual(judgement(await sendAttempt(sender, target(receiver.port), request)), success())
  const credentials = `Basic ${Buffer.from('name:pass').toString('base64')}`
  const line = `POST http://127.0.0.1:${receiver.port}/push ${credentials}`
  assert.deepEqual(proxy.asked, [line, line])
  const other = newHttp({ proxies: { https: proxy.url } })
  assert.deepEqual(judgement(await sendAttempt(other, target(receiver.port), request)), success())
  assert.equal(proxy.asked.length, 2)
})

test('an https: receiver is reached through a tunnel of HTTPS_PROXY; its certificate is still checked', async () => {
  const receiver = await listen(tlsServer('localhost.pem'))
  open.push(receiver)
  const proxy = await startProxy()
  const sender = newHttp({ proxies: { https: proxy.url } })
  const outcome = await sendAttempt(sender, target(`https://localhost:${receiver.port}/`), request)
  assert.deepEqual(judgement(outcome), unreached)
  assert.match(outcome.error ?? '', /certificate/)
  assert.match(proxy.asked[0] ?? '', new RegExp(`^CONNECT localhost:${receiver.port} Basic `))
})

test("every request to a proxy has our User-Agent once, and no other proxy's credentials", async () => {
  // a request for a tunnel once had no User-Agent
  const receiver = await answering(ok)
  const proxy = await startProxy()
  const bare = await startProxy(407)
  const both = newHttp({ proxies: { http: proxy.url, https: bare.url.replace('name:pass@', '') } })
  assert.deepEqual(judgement(await sendAttempt(both, target(receiver.port), request)), success())
  assert.deepEqual(judgement(await sendAttempt(both, target('https://receiver.example/'), request)), unreached)
  assert.deepEqual(bare.asked, ['CONNECT receiver.example:443'])
  assert.deepEqual([...proxy.agents, ...bare.agents], Array(2).fill([`leadpush/${packageVersion}`]))
})

test('hosts in NO_PROXY are reached directly', async () => {
  const receiver = await answering(ok)
  const proxy = await startProxy()
  for (const except of ['127.0.0.1', `example.com,127.0.0.1:${receiver.port}`, '*']) {
    const sender = newHttp({ proxies: { http: proxy.url, except } })
    assert.deepEqual(judgement(await sendAttempt(sender, target(receiver.port), request)), success(), except)
  }
  assert.deepEqual(proxy.asked, [])
})

test('a proxy that refuses, or is not there, means that nothing was sent', async () => {
  const proxy = await startProxy(407)
  const gone = `http://127.0.0.1:${await findClosedPort()}`
  for (const [proxies, url, words] of [
    [{ https: proxy.url }, 'https://receiver.example/', /the proxy refused the tunnel with 407/],
    // it was told that nothing listens at the receiver, and to check LEADPUSH_RECEIVER_URL
    [{ http: gone }, 'http://receiver.example/', /^the proxy was not reached: .*refused.*; check HTTP_PROXY/],
    [{ https: gone }, 'https://receiver.example/', /^the proxy was not reached: .*refused.*; check HTTP_PROXY/],
    [
      { https: gone, except: 'localhost' },
      gone.replace(/.*1:/, 'https://localhost:'),
      /^the receiver was not reached: /,
    ],
  ] as const) {
    const outcome = await sendAttempt(newHttp({ proxies }), target(url), request)
    assert.deepEqual(judgement(outcome), unreached)
    assert.match(outcome.error ?? '', words)
    assert.doesNotMatch(outcome.error ?? '', /pass/)
  }
})

test('a proxy that closes the tunnel without a word is asked once, not over and over', async () => {
  let asked = 0
  const rude = await serve((socket) => {
    asked++
    socket.once('data', () => socket.end())
  })
  const sender = newHttp({ proxies: { https: `http://127.0.0.1:${rude.port}` } })
  const outcome = await sendAttempt(sender, target('https://receiver.example/'), request)
  assert.deepEqual(judgement(outcome), unreached)
  assert.equal(asked, 1)
})

test('a GET for a ping is sent as it stands, and judged by its caller', async () => {
  const seen: string[] = []
  const monitor = await serve((socket) =>
    readRequests(socket, ({ head }) => {
      seen.push(head)
      socket.write(withStatus(404))
    }),
  )
  const outcome = await newHttp().get(`http://127.0.0.1:${monitor.port}/ping/start?x=1`, timeoutMs)
  assert.equal(outcome.kind === 'answer' && outcome.status, 404)
  assert.deepEqual(seen[0]?.split('\r\n'), [
    'GET /ping/start?x=1 HTTP/1.1',
    `host: 127.0.0.1:${monitor.port}`,
    'connection: keep-alive',
    `User-Agent: leadpush/${packageVersion}`,
  ])
})

test('closing waits for what is under way, and leaves no connection behind', async () => {
  const [asked, answer] = [makeGate(), makeGate()]
  const receiver = await serve((socket) =>
    readRequests(socket, () => {
      asked.open()
      void answer.opened.then(() => socket.write(ok))
    }),
  )
  const sender = createHttp({ timeoutMs, concurrency: 2 })
  const outcome = sendAttempt(sender, target(receiver.port), request)
  await asked.opened
  const closing = sender.close()
  answer.open()
  await closing
  assert.deepEqual(judgement(await outcome), success())
})

// It counted as no answer of the receiver: the delivery was unknown, and the receiver was told as down.
test('a 407 of the proxy to an http: receiver is an answer, which says what to do; the next request goes out as ever', async () => {
  const proxy = await startProxy(407)
  const sender = newHttp({ proxies: { http: proxy.url }, concurrency: 1 })
  for (let nth = 1; nth <= 3; nth++) {
    const outcome = await sendAttempt(sender, target('http://receiver.example/'), request)
    assert.deepEqual(judgement(outcome), refused(407))
    assert.match(outcome.error ?? '', /^HTTP 407: the proxy asks for a user name and password: .*HTTP_PROXY/)
    assert.equal(proxy.asked.length, nth)
  }
})
