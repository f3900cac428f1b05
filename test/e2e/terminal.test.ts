/** What a terminal does to the program, and the program to a terminal. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { createDatabase } from '../support/database.ts'
import { makeGate } from '../support/gate.ts'
import { startHookReceiver } from '../support/hook-receiver.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, hrefOf, makeUsers, zip } from '../support/house.ts'
import { toLines } from '../support/import-files.ts'
import { lackingScript } from '../support/installed.ts'
import { callProgram, onShell, startOnTerminal, testHome } from '../support/program.ts'

/** What a terminal obeys, what turns a line around, and what looks like a line or a colour of the program's own. */
const hidden = 'po\r\n\u001b[8m\u001b[31m\u009b2J\u007f\u200f\u202e\u2066\u2028ol'
const shown = JSON.stringify(hidden)
  .slice(1, -1)
  .replace('\\r\\n', '\\u000d\\u000a')
  .replace(/[\u007f-\uffff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)

// line ends and every sequence that looked like a colour once passed, and `trigger` filtered nothing
test('control characters in data are spelt out on a terminal and in a log, before anything is painted', {
  skip: lackingScript,
}, async (t) => {
  const queries = [zip('78704'), { type: 'text', value: hidden, radius: 0 }]
  const house = await buildHouse({ users: [{ email: 'user-0@example.com', receiverApiKey: 'key-0', queries }] })
  const env = { ...house.env, TERM: 'xterm-256color', LEADPUSH_ALLOW_INSECURE_HOOKS: '1' }
  const listed = await showOn(120, 'users list', env)
  assert.ok(stripVTControlCharacters(listed).includes(shown), listed)
  assert.ok(listed.includes(`\u001b[2muser\u001b[22m`), listed)

  const opened = await house.database.open()
  t.after(() => opened.close())
  const platform = await startHookReceiver(() => 500)
  t.after(() => platform.close())
  await addHook(opened, 'user-0@example.com', platform.url('/a'))
  await house.put('leads', [{ href: hrefOf('new'), postalCode: '78704' }])
  const escaped = JSON.stringify(hidden).slice(1, -1)
  await opened.pool.query(`update lead_versions set json = replace(json, '/new"', '/new' || $1 || '"')`, [escaped])
  const sent = await showOn(120, 'trigger', env)
  // before it the line that moves, which is cleared
  assert.match(stripVTControlCharacters(sent), /https:.*failed {2}hook /m)
  assert.ok(sent.includes(`new${shown}  \u001b[33mfailed\u001b[39m  hook`), sent)

  const log = await house.call(['leads', 'import', hidden])
  assert.equal(log.code, 2)
  const json = await house.call(['leads', 'import', hidden], { env: { LEADPUSH_LOG_FORMAT: 'json' } })
  for (const { stderr } of [log, json]) assert.doesNotMatch(stderr, /[^\P{Cc}\n]|[\u200f\u202e\u2066\u2028]/u)
  const told = json.stderr.trim().split('\n')
  assert.ok(
    told
      .map((line) => JSON.parse(line).msg)
      .join('\n')
      .startsWith(hidden),
    json.stderr,
  )
})

test('control characters in a file are shown, not obeyed; JSON lines keep them as they came', async (t) => {
  const { url } = await createDatabase(t)
  const env = { DATABASE_URL: url }
  const value = 'po\u001b[2J\u009bol'
  const record = { email: 'user@example.com', receiverApiKey: 'key-1', queries: [{ type: 'text', value, radius: 0 }] }
  const input = toLines([{ ...record, 'x\u001b]0;title\u0007': 1 }])
  const imported = await callProgram(['users', 'import', '-'], { env, input })
  assert.match(imported.stdout, /unknown field: x\\u001b\]0;title\\u0007$/m)
  assert.match((await callProgram(['users', 'list'], { env })).stdout, /po\\u001b\[2J\\u009bol/)
  assert.equal((await callProgram(['users', 'list', '--json'], { env })).json[0].queries[0].value, value)
})

/** What it writes to a terminal of so many columns. */
async function showOn(
  columns: number,
  args: string,
  env: Record<string, string>,
  typed?: string,
  onText = (_: string) => {},
): Promise<string> {
  const terminal = startOnTerminal(`${onShell(args)}; true`, columns, { env })
  terminal.child.stdout?.on('data', () => onText(terminal.stdout()))
  const asked = terminal.waitFor(/\[y\/N\]/)
  asked.then(() => terminal.child.stdin?.write(typed ?? '')).catch(() => {})
  return (await terminal.done).stdout
}

// a person who tried a push saw no line for the users whose delivery arrived
test('a push shows a line that moves and never wraps, up to 20 users of each end, a summary, and why what failed did', {
  skip: lackingScript,
}, async () => {
  const house = await buildHouse({ users: makeUsers(30), leads: [{ href: hrefOf('a'), postalCode: '78704' }] })
  // 25 of them are refused, and not all of the first; the second attempts behind the first one wait until it is shown
  const isShown = makeGate()
  const tried = new Set<unknown>()
  let again = 0
  house.receiver.answer = async ({ headers }) => {
    const key = headers['x-idempotency-key']
    if (tried.has(key) && again++ > 0) await isShown.opened
    tried.add(key)
    return Number(String(headers['x-service-api-key']).slice(4)) % 6 > 0 ? 401 : 200
  }
  const env = { ...house.env, LEADPUSH_CONCURRENCY: '4', TERM: 'xterm-256color' }
  // the spinner has its colour, and what stands beside it has none
  const frames = (text: string) => {
    const pieces = text.split('\u001b')
    return pieces.flatMap((piece, at) =>
      /[\u2800-\u28ff]$/.test(piece) ? [`*${pieces[at + 1]?.slice('[39m'.length)}`] : [],
    )
  }

  const narrow = await showOn(40, 'push --all', env, undefined, (text) => {
    if (frames(text).some((frame) => frame.includes('not delivered'))) isShown.open()
  })
  assert.ok(frames(narrow).some((frame) => /^. \d+ of 30 users, .*not delivered/.test(frame)))
  for (const frame of frames(narrow)) assert.ok(frame.length < 40, frame)
  const plain = stripVTControlCharacters(narrow).replaceAll('\r', '')
  assert.equal(plain.match(/ {2}failed {2}/g)?.length, 20)
  assert.equal(plain.match(/ {2}delivered {2}weekly/g)?.length, 5)
  assert.match(plain, /… and 5 more; --json lists all/)
  assert.match(
    plain,
    /^Not delivered, by cause\n25 {2}HTTP 401: the receiver does not take\n {4}the user's receiver key\n {4}user-\d/m,
  )
  assert.match(plain, /\n {4}Bring the keys/)
  assert.match(plain, /\nMend the cause, then run `leadpush push\n--failed`\.\n/)

  house.receiver.answer = () => 200
  const still = await showOn(80, 'push --failed', { ...env, NO_COLOR: '1' })
  assert.deepEqual([frames(still), still.includes('\u001b')], [[], false])
  assert.equal(still.match(/ {2}delivered {2}\w+, 1 lead/g)?.length, 20)
  assert.match(still, /… and 5 more; --json lists all/)

  // one needed --json to see a key
  const [head, first] = (await showOn(200, 'deliveries list --limit 1', { ...env, NO_COLOR: '1' })).split('\r\n')
  const [key] = /[0-9a-f-]{36}/.exec(first ?? '') ?? []
  assert.match(head ?? '', /^first attempt +last attempt +took +period +key +delivery$/)
  assert.equal(head?.indexOf('key'), first?.indexOf(key ?? 'none'), first)
})

test('on a terminal a forced push says how many users would get a further delivery, and asks', {
  skip: lackingScript,
}, async () => {
  const house = await buildHouse({ users: makeUsers(3), leads: [{ href: hrefOf('a'), postalCode: '78704' }] })
  const env = { ...house.env, TERM: 'xterm-256color', NO_COLOR: '1' }
  assert.doesNotMatch(await showOn(80, 'push --all --force', env, 'n\n'), /y\/N/)
  const sent = () => house.receiver.requests.length
  assert.equal(sent(), 3)
  for (const typed of ['n\n', '\n', '\u0004']) {
    const refused = await showOn(80, 'push --all --force', env, typed)
    assert.match(refused, /3 users who had theirs in \S+ would get a further delivery[\s\S]*\[y\/N\]/)
    assert.match(refused, /Nothing was sent/)
  }
  assert.equal(sent(), 3)
  // into a pipe it sent without asking, and into a file it asked there, where nobody saw it
  for (const beside of ['| cat', `2> '${join(testHome(), 'asked')}'`]) {
    const refused = await showOn(80, `push --all --force ${beside}`, env, 'n\n')
    assert.match(refused, /3 users who had theirs in \S+ would get a further delivery[\s\S]*\[y\/N\]/)
  }
  // what it asked about was no JSON object, as the question itself cannot be
  const refused = await showOn(80, 'push --all --force', { ...env, LEADPUSH_LOG_FORMAT: 'json' }, 'n\n')
  const told = refused.split(/\r?\n/).filter((line) => line !== '' && !/^Send them\? \[y\/N\] /.test(line))
  assert.match(told.map((line) => JSON.parse(line).msg).join('\n'), /^3 users who had theirs in /m)
  assert.equal(sent(), 3)
  await showOn(80, 'push --all --force', env, 'y\n')
  assert.equal(sent(), 6)
  assert.doesNotMatch(await showOn(80, 'push --all --force --yes', env, 'n\n'), /y\/N/)
  assert.equal(sent(), 9)
  assert.equal((await house.call('push --all --yes')).code, 2)
})
