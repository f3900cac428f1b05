/** Each kind of trouble is one finding, in the same words wherever it is shown (contract 3: `status`, `report`, `validate`). */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, afterEach, before, test } from 'node:test'
import { type Finding, type Level, sentenceOf } from '../../src/inspect/finding.ts'
import { findAlarms } from '../../src/inspect/status/alarms.ts'
import { findStatus } from '../../src/inspect/status/status.ts'
import { addHook } from '../support/hooks.ts'
import { buildHouse, hrefOf, makeUsers } from '../support/house.ts'
import { testHome } from '../support/program.ts'
import { defaults } from '../support/push-settings.ts'
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
  test(`${code}: one finding, with what to do`, async () => {
    await run(statements)
    const findings = await findAlarms(opened.db, await findStatus(opened.db, defaults), defaults)
    assert.deepEqual(
      findings.map(({ code, level, toDo }) => [code, level, Boolean(toDo)]),
      [[code, 'problem', true]],
    )
  })
}

test('several are told in the same words by status, the report and both as JSON; validate has what no look at the period tells', async () => {
  const some = ['down', 'held', 'feed', 'dropped'] as const
  await run(...some.map((code) => troubles[code] as string))
  const { code, stdout, json } = await house.call('status --json')
  const findings: FindingLine[] = json[0].findings
  assert.deepEqual([code, findings.map((finding) => finding.code)], [0, some], stdout)
  const lines = findings.map(lineOf)
  const [text, check, quiet] = [await house.call('status'), await house.call('status --check --json'), await house.call('status --check --quiet')]
  assert.deepEqual([text.code, text.stdout.split('\n').slice(0, lines.length)], [0, lines])
  assert.deepEqual([check.code, check.json[0].findings, quiet.code, quiet.stdout], [1, findings, 1, lines.map((line) => `${line}\n`).join('')])
  const file = join(testHome(), 'report.html')
  assert.deepEqual((await house.call(`report --json --out ${file}`)).json[0].findings, findings)
  const page = textOf(readFileSync(file, 'utf8'))
  for (const { message, hint } of findings) {
    const words = sentenceOf({ level: 'problem', what: message, toDo: hint }).replaceAll('`', '')
    assert.ok(page.includes(words), words)
  }
  const told = await codesOfValidate()
  assert.deepEqual(told.filter((each) => each in troubles), [])
}) // biome-ignore format: short

test('if all is well, validate has no finding of these', async () => {
  assert.deepEqual(
    (await codesOfValidate()).filter((code) => worlds.some(({ found }) => code in found)),
    [],
  )
})

/** What is done, or set, and the findings of `validate` that come of it: each once. */
const worlds: { statements?: string[]; env?: Record<string, string>; found: Record<string, Level> }[] = [
  { env: { LEADPUSH_RATE: 'fast' }, found: { settings: 'problem' } },
  { env: { LEADPUSH_RECEIVER_URL: `http://127.0.0.1:${await findClosedPort()}/` }, found: { receiver: 'problem' } },
  { env: { DATABASE_URL: `postgresql://127.0.0.1:${await findClosedPort()}/x` }, found: { database: 'problem' } },
  { statements: [`insert into schema_migrations values ('999999_later', '', '')`], found: { schema: 'problem' } },
  { statements: [`update runs set time_zone = 'Asia/Tokyo'`, 'delete from queries'], found: { 'time-zone': 'note', user: 'note' } },
  { statements: [`update queries set hash = 'other'`, `update hooks set url = 'https://10.0.0.1/hook'`, 'delete from lead_seen'],
    found: { query: 'problem', hook: 'problem', lead: 'problem' } },
] // biome-ignore format: a table

for (const { statements = [], env, found } of worlds) {
  const codes = Object.keys(found)
  test(`${codes.join(', ')}: ${codes.length === 1 ? 'one finding' : 'a finding each'} of validate, in the same words for people and programs`, async () => {
    const call = async (args: string) => await house.call(args, { env: { ...receiver, ...env } })
    await run(...statements)
    const { code: exitCode, json, stdout } = await call('validate --json')
    const told: FindingLine[] = json.filter(({ code }) => code in found)
    assert.deepEqual([exitCode, told.length], [Object.values(found).includes('problem') ? 1 : 0, codes.length], stdout)
    assert.deepEqual(Object.fromEntries(told.map(({ code, type }) => [code, type])), found)
    const people = (await call('validate')).stdout.split('\n')
    for (const finding of told) assert.equal(people.filter((line) => line === lineOf(finding)).length, 1)
    const alarms: Finding[] = (await call('status --json')).json[0]?.findings ?? []
    assert.ok(!alarms.some(({ code }) => code in found))
  })
}
