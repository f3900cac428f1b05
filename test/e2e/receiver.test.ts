/** `leadpush receiver` as its user meets it: what it answers, what it shows, the faults that it plays, and how it ends. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { completeLead, type LeadPatch } from '../../src/leads/lead.ts'
import { createDatabase } from '../support/database.ts'
import { lackingScript } from '../support/installed.ts'
import { callProgram, onShell, type ProgramOptions, startOnTerminal, startProgram } from '../support/program.ts'

const database = await createDatabase()
const env = { DATABASE_URL: database.url }

async function start(args: readonly string[], options: ProgramOptions = {}) {
  const program = startProgram(['receiver', '--port', '0', ...args], { ...options, env })
  const [, url = ''] = await program.waitFor(/^leadpush receiver listening on (http:\S+)$/m)
  return { program, url }
}

let keys = 0

async function send(url: string, leads: LeadPatch[], headers: Record<string, string> = {}) {
  const fsbos = leads.map((patch) => completeLead({ postalCode: '78704', ...patch }))
  const response = await fetch(`${url}/any/path`, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      'X-Service-API-Key': 'receiver-key-1',
      'X-Data-Source': 'leadpush',
      'X-Idempotency-Key': `key-${++keys}`,
      ...headers,
    },
    body: JSON.stringify({ queryList: [{ type: 'zipcode', value: '78704', radius: 0 }], fsbos }),
  })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

test('it shows each request in a line, what is wrong with it in plain words, and the sum of it at its end', async () => {
  const { program, url } = await start([])
  const href = 'https://example.com/1'
  await send(url, [{ href, city: 'Austin', state: 'TX' }])
  await send(url, [{ href, price: 1 }])
  await send(url, [{ href: '/1' }])
  await program.waitFor(
    /fsbos\[0\]\.href must be an absolute http: or https: URL \(docs\/contract-delivery\.md 4\.10\)/,
  )
  program.kill('SIGINT')
  const { code, stdout, stderr } = await program.done
  assert.equal(code, 0)
  assert.match(
    stdout,
    /^\d\d:\d\d:\d\d {2}200 {2}user [0-9a-f]{8} {2}1 lead for 1 query, \d+ B: 1 new, 0 changed, 0 unchanged$/m,
  )
  assert.match(stdout, /: 0 new, 1 changed, 0 unchanged, 2 values kept by the null rule$/m)
  assert.match(stdout, /^\d\d:\d\d:\d\d {2}422 {2}user [0-9a-f]{8} {2}\d+ B: refused$/m)
  assert.match(stderr, /^3 requests: 2 taken, 1 not; leads: 1 new, 1 changed, 0 unchanged, 2 values kept/m)
  assert.doesNotMatch(stdout + stderr, /receiver-key-1/)
})

test('--json: one object a request; --fail, --drop, --delay play their script once', async () => {
  const { program, url } = await start(['--json', '--fail', '503:2', '--fail', '429', '--drop', '--delay', '20ms'])
  const leads = [{ href: 'https://example.com/2' }]
  const answers: (number | string)[] = []
  for (let at = 0; at < 5; at++) {
    answers.push(
      await send(url, leads).then(
        ({ status }) => status,
        () => 'dropped',
      ),
    )
  }
  assert.deepEqual(answers, [503, 503, 429, 'dropped', 200])
  program.kill()
  const { code, json } = await program.done
  assert.equal(code, 0)
  assert.deepEqual(
    json.map(({ type, status, fault }) => [type, status, fault]),
    [503, 503, 429, null, 200].map((status) => ['request', status, status === null ? 'drop' : status === 200 ? null : 'fail']),
  )
  const { at, user, durationMs, bytes, ...last } = json.at(-1)
  assert.ok(Date.parse(at) > 0 && /^[0-9a-f]{8}$/.test(user) && durationMs >= 19 && bytes > 300)
  assert.deepEqual(last, {
    type: 'request', status: 200, msg: 'Taken.', idempotencyKey: `key-${keys}`, dataSource: 'leadpush', queries: 1, leads: 1,
    applied: { new: 1, changed: 0, unchanged: 0, kept: 0 }, times: 1, problems: [], fault: null,
  })
}) // biome-ignore format: short

test('--keys: the users of the database, or a list that no list of processes shows; others are a 401', async () => {
  const db = await database.open()
  await db.pool.query(
    `insert into users (email, receiver_key, subscribed) values ('a@example.com', 'receiver-key-1', true)`,
  )
  const ask = async (args: string[], input?: string) => {
    const { program, url } = await start(['--keys', ...args], input === undefined ? {} : { input })
    const statuses = []
    for (const key of ['receiver-key-1', 'receiver-key-2']) {
      statuses.push((await send(url, [], { 'X-Service-API-Key': key })).status)
    }
    program.kill()
    assert.equal((await program.done).code, 0)
    return statuses
  }
  assert.deepEqual(await ask(['users']), [200, 401])
  assert.deepEqual(await ask(['-'], '\nreceiver-key-2\r\nother\n'), [401, 200])
})

test('where another program has its port it says so, and counts no requests', async () => {
  const { program, url } = await start([])
  const { code, stdout, stderr } = await callProgram(['receiver', '--port', new URL(url).port], { env })
  assert.deepEqual([code, stdout], [2, ''])
  assert.match(stderr, /^error: Cannot listen on .*\n.*--host and --port/)
  assert.doesNotMatch(stderr, /requests/)
  program.kill()
  await program.done
})

test('senseless options are refused before it listens', async () => {
  const refused = [
    [['--fail', '200:1'], /^error: --fail: holds "200:1"; allowed: a status from 300 to 599/],
    [['--drop', '0'], /^error: --drop: holds "0"/],
    [['--delay', '11m'], /^error: --delay: holds "11m"/],
    [['--keys', 'nowhere.txt'], /^error: --keys: "nowhere.txt" cannot be read/],
    [['--keys', '-'], /^error: --keys: line 2 must be 1 to 50 visible ASCII characters/],
  ] as const
  for (const [args, said] of refused) {
    const { code, stdout, stderr } = await callProgram(['receiver', ...args], { env, input: 'right\nnot right\n' })
    assert.deepEqual([code, stdout], [2, ''])
    assert.match(stderr, said)
    assert.doesNotMatch(stderr, /not right/)
  }
})

test('on a terminal the counts move below the lines', { skip: lackingScript }, async () => {
  const line = `${onShell('receiver --port 0')} & pid=$!; sleep 0.1; read line; kill $pid; wait $pid`
  const terminal = startOnTerminal(line, 120, { env: { ...env, TERM: 'xterm' } })
  const [, url = ''] = await terminal.waitFor(/listening on (http:[^\s]+)/)
  await send(url, [{ href: 'https://example.com/3' }])
  await terminal.waitFor(/1 lead for 1 query/)
  await terminal.waitFor(/1 request: 1 taken; leads: 1 new, 0 changed, 0 unchanged/)
  terminal.child.stdin?.write('\n')
  assert.equal((await terminal.done).code, 0)
})
