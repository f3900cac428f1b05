/** What the pages say that the program and the receiver print, they print. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { describeNoAnswer } from '../../src/deliveries/attempt.ts'
import { describeTrouble } from '../../src/http/trouble.ts'
import { toReason } from '../../src/push/hold.ts'
import { createDatabase } from '../support/database.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { toLines, writeInput } from '../support/import-files.ts'
import { findRows, manual, spansOf } from '../support/markdown.ts'
import { type ProgramResult, startProgram } from '../support/program.ts'
import { until } from '../support/until.ts'

const door = join(packageRoot, 'bin', 'leadpush.js')

interface Ended {
  code: number
  said: string
}

const runFile = (file: string, args: string[], options: { cwd?: string; env?: NodeJS.ProcessEnv }): Promise<Ended> =>
  new Promise((done) => {
    execFile(file, args, { ...options, timeout: 120_000 }, (error, stdout, stderr) =>
      done({ code: error ? Number(error.code ?? 1) : 0, said: stdout + stderr }),
    )
  })

test('the receiver answers as the page for its developers shows', async (t) => {
  const { url } = await createDatabase(t)
  const receiver = startProgram(['receiver', '--port', '0', '--json'], { env: { DATABASE_URL: url } })
  const [, receiverUrl = ''] = await receiver.waitFor(/listening on (\S+)/)
  const [example = ''] = manual.code.filter((line) => line.startsWith('{"ok":false'))
  const refused = await fetch(receiverUrl, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', 'X-Service-API-Key': 'k', 'X-Data-Source': 'curl', 'X-Idempotency-Key': '1' },
    body: '{"queryList":[],"fsbos":[{"href":"/1"}]}',
  }) // biome-ignore format: headers
  assert.ok((await refused.text()).startsWith(example.slice(0, -1)), example)
  receiver.kill()
  await receiver.done
})

/** These need half a minute, or a server of their own: other tests meet them. */
const metElsewhere = [
  /^The database is away/,
  /^The embedded PostgreSQL does not start/,
  /is not used for the embedded database/,
  /client certificate/,
  /LEADPUSH_CLIENT_/,
  /^[Tt]he database (lost|confirms nothing)/i,
  /cannot be decrypted/,
  /^The subscription pushes of a long line/,
  /^another process has begun or ended/,
]

function toPattern(symptom: string): RegExp {
  const pieces = symptom.split('…').map((piece) => piece.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&'))
  return new RegExp(pieces.join('.*').replace(/ +/g, '\\s+'), 'm')
}

function readSources(): string {
  const files = readdirSync(join(packageRoot, 'src'), { recursive: true, encoding: 'utf8' })
  return files
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(packageRoot, 'src', file), 'utf8').replace(/\$\{[^}]*\}/g, '…'))
    .join('\n')
}

test('the program prints every message in the table of trouble', async (t) => {
  const said: string[] = []
  const codes = new Set<number | null>()
  const note = ({ code, stdout, stderr }: ProgramResult) => {
    codes.add(code)
    said.push(stdout, stderr)
  }
  const run = async (args: string, env: Record<string, string | undefined> = {}) =>
    note(await house.call(args, { env }))
  const answers: Record<string, number | 'hang'> = { 'key-0': 401, 'key-1': 413, 'key-2': 422 }
  const house = await buildHouse({
    leads: [{ href: hrefOf(1), postalCode: '78704' }],
    users: makeUsers(4),
    answer: ({ headers }) => answers[String(headers['x-service-api-key'])] ?? 200,
  })
  const opened = await house.database.open()

  const [empty, sealed] = await Promise.all([createDatabase(t, { empty: true }), createDatabase(t)])
  const secretKey = (fill: number) => Buffer.alloc(32, fill).toString('base64')
  await run('migrate', { DATABASE_URL: sealed.url, LEADPUSH_SECRET_KEY: secretKey(1) })
  const isOpen = mkdtempSync(join(tmpdir(), 'leadpush-open-'))
  t.after(() => rmSync(isOpen, { recursive: true }))
  chmodSync(isOpen, 0o777)
  const pretend = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.8' } })`
  const old = runFile(process.execPath, ['--import', `data:text/javascript,${encodeURIComponent(pretend)}`, door], {})
  await Promise.all([
    run('status --check'),
    run('status', { DATABASE_URL: undefined }),
    run('status', { DATABASE_URL: undefined, LEADPUSH_HOME: isOpen }),
    run('status', { DATABASE_URL: 'postgresql://user@127.0.0.1:1/leadpush' }),
    run('trigger', { DATABASE_URL: 'postgresql://user@127.0.0.1:1/leadpush', LEADPUSH_DATABASE_AWAY: '1ms' }),
    run('users remove x@example.com', { DATABASE_URL: `${empty.url}?options=-cdefault_transaction_read_only%3Don` }),
    run('status', { DATABASE_URL: 'postgresql://h/leadpush?service=x' }),
    run('push --all', { DATABASE_URL: sealed.url }),
    run('push --all', { DATABASE_URL: sealed.url, LEADPUSH_SECRET_KEY: secretKey(2) }),
    run('status', { DATABASE_URL_FILE: '/nowhere' }),
    run(
      `leads import ${writeInput('half.csv', `href,postalCode\n${hrefOf(2)},78704\n${hrefOf(3)},\n`)} --rejects /dev/full`,
    ),
    run(`leads import ${writeInput('broken.json', `[{"href":"${hrefOf(4)}"`)}`),
  ])
  said.push((await old).said)

  const ping = { LEADPUSH_PING_URL: 'http://127.0.0.1:1/' }
  await run('push --all', ping)
  answers['key-3'] = 'hang'
  await run('push --user user-3@example.com', { LEADPUSH_TIMEOUT: '1s' })
  await run('push --resume', { LEADPUSH_TIME_ZONE: 'America/Chicago' })
  await house.put('users', makeUsers(24, 10))
  house.receiver.answer = () => 503
  await run('push --all', { LEADPUSH_OUTAGE: '1s' })

  // as if the outage had never been noted
  await opened.pool.query('delete from receivers')
  await house.put('users', makeUsers(2, 40))
  house.receiver.answer = () => 404
  await run('push --all')
  await opened.pool.query('delete from receivers')
  let asked = false
  house.receiver.answer = () => {
    const answer = asked ? 200 : { status: 429, headers: { 'retry-after': '1' } }
    asked = true
    return answer
  }
  await run('push --all')
  await opened.pool.query('delete from receivers')

  // a push that hangs, with others beside it; then killed, and its lease over
  await house.put('users', makeUsers(1, 50))
  let hung: string | undefined
  house.receiver.answer = ({ headers, key }) => {
    if (headers['x-service-api-key'] === 'key-50') hung ??= key
    return key === hung ? 'hang' : 200
  }
  const hanging = startProgram(['push', '--all'], { env: house.env })
  await until('it hangs', () => hung !== undefined)
  await Promise.all(['push --all', 'push --resume'].map(async (args) => note(await house.call(args))))
  hanging.kill('SIGKILL')
  await hanging.done
  await opened.pool.query(`update workers set lease_until = now() - interval '1 second'`)
  await run('status --check')
  await run(`leads forget --href ${hrefOf(1)}`)
  await run('status --user user-50@example.com')

  const rows = (count: number) => Array.from({ length: count }, (_, at) => `${hrefOf(`own-${at}`)},78704\n`).join('')
  await run(`leads import ${writeInput('all.csv', `href,postalCode\n${rows(5)}`)} --source mls --complete`)
  await run(`leads import ${writeInput('few.csv', `href,postalCode\n${rows(2)}`)} --source mls --complete`)
  const twins = ['a', 'b'].map((name) => `${name}@example.com,one-key,text,pool\n`).join('')
  await run(`users import ${writeInput('twins.csv', `email,receiverApiKey,type,value\n${twins}`)}`)
  await run(`users import ${writeInput('twins.csv', `email,receiverApiKey,type,value\n${twins}`)} --complete`)
  const [one, other] = [0, 1].map((at) =>
    writeInput(`twin-${at}.ndjson`, toLines([{ email: `${'ab'[at]}@example.com` }])),
  )
  await run(`users import ${one} ${other} --complete`)
  await run('push --user user-50@example.com', { HTTP_PROXY: 'http://127.0.0.1:1', LEADPUSH_RETRY_DELAY: '0s' })

  const target = { receiverUrl: 'https://receiver.example', dataSource: 'leadpush', timeoutMs: 30_000 }
  for (const code of ['CERT_NOT_YET_VALID', 'SELF_SIGNED_CERT_IN_CHAIN', 'ENOTPUBLIC']) {
    const error = describeTrouble('connect', code, undefined)
    said.push(
      describeNoAnswer({ kind: 'no-answer', sent: false, stage: 'connect', error, code, reused: false }, target),
    )
  }
  said.push(toReason({ by: 'user', leads: 2, before: 412 }))
  said.push(toReason({ by: 'slowness', query: '{}' }))
  said.push(toReason({ by: 'answers', inARow: 20, says: 'HTTP 200' }))

  const text = said.join('\n')
  const sources = readSources()
  const symptoms = findRows(manual, 'it prints').flatMap(([symptom = '']) => spansOf(symptom))
  assert.ok(symptoms.length >= 20)
  const neverSaid = symptoms.filter(
    (symptom) => !toPattern(symptom).test(metElsewhere.some((known) => known.test(symptom)) ? sources : text),
  )
  assert.deepEqual(neverSaid, [], text)
  assert.deepEqual([...codes].sort(), [0, 1, 2, 3])
})
