/** Each kind of trouble is one finding, in the same words wherever it is shown (contract 3: `status`, `report`, `validate`). */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { type Finding, type Level, sentenceOf } from '../../src/inspect/finding.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { testHome } from '../support/program.ts'
import { findClosedPort } from '../support/sockets.ts'

const house = await buildHouse({ leads: [{ href: hrefOf(1), postalCode: '78704' }], users: makeUsers(1) })
const opened = await house.database.open()
after(() => opened.close())
await house.call('push --all')
await addHook(opened, 'user-0@example.com', 'https://8.8.8.8/hook')
// without a query of its own, which would be a note
const receiver = { LEADPUSH_RECEIVER_URL: house.receiver.url }

const tables = [
  'users', 'queries', 'claims', 'runs', 'deliveries', 'receivers', 'imports', 'leads', 'lead_seen', 'sources', 'lead_sources', 'hooks',
  'triggers', 'schema_migrations',
] // biome-ignore format: a list

/** Runs statements that no foreign key minds: what is wrong here nobody can bring about with a command. */
async function run(...statements: string[]): Promise<void> {
  await opened.pool.query(['begin', 'set local session_replication_role = replica', ...statements, 'commit'].join(';'))
}

before(() => run('create schema saved', ...tables.map((name) => `create table saved.${name} as table ${name}`)))
afterEach(() =>
  run(
    ...tables.map((name) => `delete from ${name}`),
    ...tables.map((name) => `insert into ${name} overriding system value select * from saved.${name}`),
    "update pg_index set indisvalid = true where indexrelid = 'runs_by_start'::regclass",
  ),
)

const week = 'to_char(to_date(period, \'IYYY-"W"IW\') - 7, \'IYYY-"W"IW\')'
const late = `insert into users (email, receiver_key, subscribed, due_since) values ('late@example.com', 'key', true, now() - interval '8 days');
  insert into queries select l.id, q.position, q.type, q.value, q.radius, q.hash, q.json, q.search_id from queries q, users l where l.email like 'late%'`

/** What is done to a house in which all is well, by the code of what comes of it. */
const troubles: Record<string, string> = {
  down: `insert into receivers (url_sha256, trouble, trouble_since) values (sha256('x'), 'down', now())`,
  refused: `insert into receivers (url_sha256, trouble, trouble_since, refused_status) values (sha256('x'), 'refuses', now(), 401)`,
  lost: `insert into runs (command, period, time_zone, worker_id, resumable, ended_at, outcome)
    select 'resume', period, 'UTC', 0, false, now(), 'lost' from runs`,
  stuck: `update deliveries set status = 'pending'`,
  'not-delivered': `update deliveries set status = 'failed', first_error = 'HTTP 401: no key'`,
  held: `update runs set held_users = 1`,
  left: `${late}; update runs set started_at = now() - interval '2 days', ended_at = now() - interval '1 day'`,
  'two-weeks': `${late}; update runs set period = ${week}, started_at = now() - interval '7 days', ended_at = now() - interval '7 days';
    update deliveries set period = ${week}, created_at = now() - interval '7 days';
    update claims set scope = 'weekly:' || (select period from runs)`,
  'no-push': `update runs set started_at = now() - interval '9 days', ended_at = now() - interval '9 days'`,
  'no-leads': `update lead_seen set seen_at = now() - interval '31 days'`,
  feed: `update imports set started_at = now() - interval '9 days'`,
  sources: `insert into sources (id, name, imported_at) overriding system value values (1, 'mls', now() - interval '9 days');
    insert into lead_sources (source_id, lead_id) select 1, id from leads`,
  waiting: `update imports set started_at = now() - interval '25 hours'; update hooks set looked_import_id = 0`,
  failing: `update hooks set failing_since = now() - interval '25 hours', off_since = now()`,
  abandoned: `update hooks set abandoned_at = now()`,
  dropped: `update hooks set dropped_at = now()`,
}

interface FindingLine {
  type: Level
  code: string
  where: string
  path: string
  message: string
  hint?: string
}

const codesOfValidate = async (): Promise<string[]> =>
  (await house.call('validate --json', { env: receiver })).json.map(({ code }) => code)

/** The line on which people see a finding that a program gets as JSON. */
const lineOf = ({ type, where, path, message, hint }: FindingLine) =>
  `${where}  ${type}  ${sentenceOf({ level: type, path, what: message, toDo: hint })}`

const textOf = (html: string) =>
  html.replaceAll(/<[^>]*>/g, '').replaceAll('&amp;', '&').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&quot;', '"').replaceAll('&#39;', "'") // biome-ignore format: a chain

test('if all is well, status, report and their JSON have no finding', async () => {
  const { code, stdout } = await house.call('status --check')
  assert.equal(code, 0)
  assert.match(stdout, /^All is well\.\n/)
  assert.deepEqual((await house.call('status --json')).json[0].findings, [])
})

for (const [code, statements] of Object.entries(troubles)) {
  test(`${code}: one finding, in the words of status in the report and the JSON too`, async () => {
    await run(statements)
    const status = await house.call('status --check --json')
    const findings: FindingLine[] = status.json[0].findings
    assert.deepEqual([status.code, findings.map((finding) => finding.code)], [1, [code]], status.stdout)
    const [finding] = findings as [FindingLine]
    assert.deepEqual([finding.type, Boolean(finding.hint)], ['problem', true])
    assert.equal((await house.call('status --check --quiet')).stdout, `${lineOf(finding)}\n`)
    const file = join(testHome(), 'report.html')
    assert.deepEqual((await house.call(`report --json --out ${file}`)).json[0].findings, findings)
    const words = sentenceOf({ level: 'problem', what: finding.message, toDo: finding.hint }).replaceAll('`', '')
    assert.ok(textOf(readFileSync(file, 'utf8')).includes(words), words)
  })
}

test('without --check the exit code is 0, and validate has what no look at the period tells', async () => {
  const some = ['down', 'held', 'feed', 'dropped'] as const
  await run(...some.map((code) => troubles[code] as string))
  const { code, stdout, json } = await house.call('status --json')
  assert.deepEqual([code, json[0].findings.map((finding: FindingLine) => finding.code)], [0, some], stdout)
  const text = await house.call('status')
  const lines = json[0].findings.map(lineOf)
  assert.deepEqual([text.code, text.stdout.split('\n').slice(0, lines.length)], [0, lines])
  const told = await codesOfValidate()
  assert.deepEqual(told.filter((each) => each in troubles), [])
}) // biome-ignore format: short

test('if all is well, validate has no finding of these', async () => {
  assert.deepEqual(
    (await codesOfValidate()).filter((code) => code in checks),
    [],
  )
})

/** What is done, or set, and the finding of `validate` that comes of it. */
const checks: Record<string, { level: Level; statements?: string; env?: Record<string, string>; }> = {
  settings: { level: 'problem', env: { LEADPUSH_RATE: 'fast' } },
  receiver: { level: 'problem', env: { LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${await findClosedPort()}/` } },
  database: { level: 'problem', env: { DATABASE_URL: `postgresql://127.0.0.1:${await findClosedPort()}/x` } },
  schema: { level: 'problem', statements: `insert into schema_migrations values ('999999_later', '', '')` },
  'time-zone': { level: 'note', statements: `update runs set time_zone = 'Asia/Tokyo'` },
  user: { level: 'note', statements: 'delete from queries' },
  query: { level: 'problem', statements: `update queries set hash = 'other'` },
  hook: { level: 'problem', statements: `update hooks set url = 'https://10.0.0.1/hook'` },
  lead: { level: 'problem', statements: `delete from lead_seen` },
} // biome-ignore format: a table

for (const [code, { level, statements, env }] of Object.entries(checks)) {
  test(`${code}: one finding of validate, in the same words for people and programs`, async () => {
    const validate = async (args: string) => await house.call(`validate${args}`, { env: { ...receiver, ...env } })
    if (statements) await run(statements)
    const { code: exitCode, json, stdout } = await validate(' --json')
    const found: FindingLine[] = json.filter((line) => line.code === code)
    assert.deepEqual([exitCode, found.map(({ type }) => type)], [level === 'problem' ? 1 : 0, [level]], stdout)
    const people = (await validate('')).stdout.split('\n')
    for (const finding of found) assert.equal(people.filter((line) => line === lineOf(finding)).length, 1)
    const status = await house.call('status --json', { env: { ...receiver, ...env } })
    const alarms: Finding[] = status.json[0]?.findings ?? []
    assert.ok(!alarms.some((finding) => finding.code === code))
  })
}
