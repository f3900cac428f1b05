/**
 * `npm run bench:triggers [-- --leads N --hooks N --new N --prices N --due N --hosts N --send S --explain --version 15]`: how long `trigger`
 * looks for what is due, after an import of new listings into many, and one that changes prices, for many hooks, and how much of it a process
 * sends in S seconds to a platform in a process of its own, whose hooks are on so many hosts; on a throw-away database. With `--due` so many
 * triggers are due, the same number to each hook, without a look.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { parseArgs } from 'node:util'
import { sql } from 'kysely'
import type { Database, OpenDatabase } from '../../src/db/open.ts'
import { openDatabase } from '../../src/db/open.ts'
import type { TriggerKind } from '../../src/index.ts'
import { importLeads } from '../../src/leads/import.ts'
import { findPlaces, type Places } from '../../src/places/places.ts'
import { plainVault } from '../../src/secrets/vault.ts'
import { findRunStart } from '../../src/triggers/trigger-store.ts'
import { runTriggers } from '../../src/triggers/triggers.ts'
import { importUsers } from '../../src/users/import.ts'
import { lookAtAll } from '../support/hooks.ts'
import { type ServerVersion, startServer, templateNames, withDatabase } from '../support/servers.ts'
import { fillListings, randomFrom } from './matching-data.ts'
import { findServerPid, readCpu } from './measure.ts'

const day = 86_400_000
const words = [
  'home',
  'kitchen',
  'pool',
  'basement',
  'fireplace',
  'waterfront',
  'sauna',
  'orchard',
  'helipad',
  'nowhere',
]
const cities = ['Austin, TX', 'New York, NY', 'Los Angeles, CA', 'Fargo, ND', 'Miami, FL', 'Denver, CO']

const toStream = (records: readonly object[]) =>
  Readable.from(
    records.map((record) => `${JSON.stringify(record)}\n`),
    { objectMode: false },
  )

/** A hook a user, with two queries: mostly around a ZIP, some by words, some by both. */
async function addHooks(opened: OpenDatabase, places: Places, count: number, triggers: TriggerKind[]): Promise<void> {
  const random = randomFrom(7)
  const codes = places.all.map(({ code }) => code).filter((code) => /^\d/.test(code))
  const pick = <T>(list: readonly T[]) => list[Math.floor(random() * list.length)] as T
  const query = (at: number) => {
    const kind = random()
    if (kind < 0.7) return { type: 'zipcode', value: pick(codes), radius: pick([0, 10, 25, 25, 50]) }
    if (kind < 0.9) return { type: 'text', value: `${pick(words)} ${pick(cities)}`, radius: 25 + at }
    return { type: 'text', value: `${pick(words)} ${pick(words)} ${pick(words)}`, radius: at }
  }
  const users = Array.from({ length: count }, (_, n) => ({
    email: `user-${n}@example.com`,
    receiverApiKey: 'k',
    queries: [query(0), query(1)],
  }))
  await importUsers(opened, ['-'], { stdin: toStream(users) })
  await sql`
    insert into integrations (user_id, api_key_sha256, signing_secret)
    select id, sha256(convert_to(email, 'UTF8')), 'whsec_' || encode(sha256(convert_to(email, 'UTF8')), 'base64') from users
  `.execute(opened.db)
  await sql`
    insert into hooks (integration_id, url, url_sha256, triggers, looked_import_id)
    select id, 'http://127.0.0.1:9/' || id, api_key_sha256, ${triggers}::text[], (select max(id) from imports) from integrations
  `.execute(opened.db)
  await opened.pool.query('vacuum analyze users, queries, searches, integrations, hooks')
}

async function importNew(opened: OpenDatabase, places: Places, count: number): Promise<void> {
  const random = randomFrom(8)
  const codes = places.all.map(({ code }) => code).filter((code) => /^\d/.test(code))
  await sql`select setval('lead_version_ids', (select max(version_id) from leads))`.execute(opened.db)
  const texts = ['a home with a kitchen', 'a house with a pool', 'a cabin with a sauna and a basement', 'land']
  const records = Array.from({ length: count }, (_, n) => ({
    href: `https://listings.example/new-${n}`,
    postalCode: codes[Math.floor(random() * codes.length)],
    description: `${texts[n % texts.length]} ${'and more of it '.repeat(1 + (n % 20))}`,
  }))
  const outcome = await importLeads(opened, ['-'], { stdin: toStream(records) })
  if (outcome.summary.inserted !== count) throw new Error('the import went wrong')
}

/** Notes what an import notes that changes the prices of so many of the older listings that are still seen. */
async function changePrices(opened: OpenDatabase, count: number): Promise<void> {
  await sql`
    with started as (
      insert into imports (file, base_version_id) select '-', max(version_id) from leads returning id, base_version_id as base
    )
    insert into lead_events (version_id, import_id, lead_id, kind, payload)
    select s.base + row_number() over (), s.id, l.id, 'price_change', '{"previousPrice": 100, "price": 110}'
    from (select id from leads join lead_seen on lead_id = id where seen_at > now() - interval '7 days'
      and first_import_id < (select max(first_import_id) from leads) order by hashint8(id) limit ${count}) l,
      started s
  `.execute(opened.db)
}

/** The plan of every statement of the look that takes a while, as PostgreSQL notes it. */
async function explainStatements(db: Database): Promise<void> {
  for (const [name, value] of [
    ['session_preload_libraries', 'auto_explain'],
    ['auto_explain.log_min_duration', '20ms'],
    ['auto_explain.log_analyze', 'on'],
    ['auto_explain.log_timing', 'off'],
    ['client_min_messages', 'log'],
  ] as const) {
    await sql.raw(`alter database bench set ${name} = '${value}'`).execute(db)
  }
}

async function count(db: Database): Promise<{ triggers: number; hooks: number }> {
  const { rows } = await sql<{ triggers: number; hooks: number }>`
    select count(*) as triggers, count(distinct hook_id) as hooks from triggers`.execute(db)
  return rows[0] ?? { triggers: 0, hooks: 0 }
}

/** By the plainest statement: what is due for some of the hooks, all together. */
async function checkSome(opened: OpenDatabase): Promise<boolean> {
  const { rows } = await sql<{ id: string; due: number; found: number }>`
    select h.id, least(300, (
        select count(distinct l.id) from leads l, queries q join searches s on s.id = q.search_id
        where q.user_id = i.user_id and case k.kind when 'new_lead' then l.first_import_id = (select max(first_import_id) from leads)
            else l.id in (select lead_id from lead_events) end
          and (s.places is null or l.postal_key = any (s.places))
          and (s.words is null or l.search @@ plainto_tsquery('english', s.words))
      )) as due, (select count(*) from triggers t where t.hook_id = h.id and t.kind = k.kind) as found
    from hooks h join integrations i on i.id = h.integration_id cross join unnest(h.triggers) as k (kind) order by h.id limit 40
  `.execute(opened.db)
  const wrong = rows.filter(({ due, found }) => due !== found)
  if (wrong.length > 0) console.log('wrong:', wrong)
  return wrong.length === 0
}

/** Makes so many triggers due, the same number to each hook, of the listings that came last. */
async function makeDue(opened: OpenDatabase, due: number, hooks: number): Promise<void> {
  const each = Math.ceil(due / hooks)
  await sql`
    insert into triggers (hook_id, version_id, kind, lead_id, occurred_at, due_at)
    select h.id, l.version_id, 'new_lead', l.id, now(), now()
    from (select id, row_number() over (order by id) as n from hooks) h join (
      select id, version_id, row_number() over (order by id) as n, count(*) over () as among
      from leads where first_import_id = (select max(first_import_id) from leads)
    ) l on l.n > h.n * 7 % (l.among - ${each}) and l.n <= h.n * 7 % (l.among - ${each}) + ${each}
  `.execute(opened.db)
  await opened.pool.query('update hooks set looked_import_id = (select max(id) from imports)')
  await opened.pool.query('vacuum analyze triggers, hooks')
}

/** Measures a piece of work: seconds, and those of the processor, in this process and in PostgreSQL. */
async function startWatch(opened: OpenDatabase): Promise<() => string> {
  const pid = await findServerPid(opened)
  const began = { ms: performance.now(), cpu: process.cpuUsage(), server: readCpu(pid) ?? 0 }
  return () => {
    const { user, system } = process.cpuUsage(began.cpu)
    const server = (readCpu(pid) ?? 0) - began.server
    const seconds = (performance.now() - began.ms) / 1_000
    return `${seconds.toFixed(1)} s (processor: ${((user + system) / 1e6).toFixed(1)} s here, ${server.toFixed(1)} s PostgreSQL)`
  }
}

const platform = `
  const server = require('node:http').createServer((request, response) => request.resume().on('end', () => response.end('{}')))
  server.listen(0, () => console.log(server.address().port))
`

async function measureSending(opened: OpenDatabase, seconds: number, hosts: number): Promise<void> {
  const receiver = spawn(process.execPath, ['-e', platform], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [port] = await once(receiver.stdout, 'data')
  await sql`
    update hooks set url = 'http://' || host('127.0.0.1'::inet + integration_id % ${hosts}) || ':' || ${String(port).trim()} || '/' || integration_id
  `.execute(opened.db)
  await opened.pool.query('vacuum analyze hooks')
  const settings = { leaseMs: 60_000, maxLeadAgeMs: 30 * day, allowInsecureHooks: '1' as const }
  const stop = AbortSignal.timeout(seconds * 1_000)
  const began = performance.now()
  const read = await startWatch(opened)
  const summary = await runTriggers({
    opened,
    vault: plainVault,
    settings,
    stop,
    onTrigger: () => {},
    onNote: console.log,
  })
  const rate = summary.delivered / ((performance.now() - began) / 1_000)
  const megabytes = process.resourceUsage().maxRSS / 1024
  console.log(`sent ${summary.delivered} in ${read()}: ${rate.toFixed(0)}/s; peak memory ${megabytes.toFixed(0)} MB`)
  console.log(JSON.stringify(summary))
  receiver.kill()
}

async function measureLook(opened: OpenDatabase): Promise<void> {
  const maxLeadAgeMs = 30 * day
  let last = performance.now()
  const onLooked = ({ hooks, found }: { hooks: number; found: number }) => {
    const now = performance.now()
    console.log(`  ${hooks} hooks, ${found} triggers in ${((now - last) / 1_000).toFixed(2)} s`)
    last = now
  }
  const read = await startWatch(opened)
  const { lastImportId: upTo } = await findRunStart(opened.db)
  const looked = await lookAtAll(opened, { upTo, maxLeadAgeMs }, onLooked)
  console.log(`looked at ${looked.hooks} hooks: ${looked.found} due, ${looked.dropped} dropped, in ${read()}`)
  console.log(await count(opened.db))
  const again = performance.now()
  await lookAtAll(opened, { upTo, maxLeadAgeMs })
  console.log(`again, with nothing new: ${(performance.now() - again).toFixed(0)} ms`)
  if (!(await checkSome(opened))) process.exitCode = 1
}

interface Measured {
  explain: boolean
  due: number
  hooks: number
  hosts: number
  send: number
}

async function measure(url: string, { explain, due, hooks, hosts, send }: Measured): Promise<void> {
  const opened = await openDatabase({ databaseUrl: url, home: '' })
  if (explain) {
    const told = new Set<object>()
    opened.pool.on('acquire', (client) => {
      if (!told.has(client)) client.on('notice', ({ message }) => console.log(message))
      told.add(client)
    })
  }
  try {
    if (due > 0) await makeDue(opened, due, hooks)
    else await measureLook(opened)
    if (send > 0) await measureSending(opened, send, hosts)
  } finally {
    await opened.close()
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      leads: { type: 'string', default: '1000000' },
      hooks: { type: 'string', default: '10000' },
      new: { type: 'string', default: '20000' },
      prices: { type: 'string', default: '0' },
      due: { type: 'string', default: '0' },
      hosts: { type: 'string', default: '10000' },
      send: { type: 'string', default: '0' },
      version: { type: 'string', default: '18' },
      explain: { type: 'boolean', default: false },
    },
  })
  const server = await startServer(Number(values.version) as ServerVersion)
  try {
    const maintenance = await openDatabase({ databaseUrl: server.url, home: '' }, { schema: 'any' })
    await maintenance.pool.query(`create database bench template ${templateNames.all}`)
    await maintenance.close()
    const url = withDatabase(server.url, 'bench')
    const opened = await openDatabase({ databaseUrl: url, home: '' })
    console.log(
      `filling in ${values.leads} listings, ${values.hooks} hooks, ${values.new} new listings, ${values.prices} new prices`,
    )
    const places = await findPlaces(opened.db)
    // a look reads no words but of what is new
    await fillListings(opened, places, Number(values.leads), 'without')
    const prices = Number(values.prices)
    await addHooks(opened, places, Number(values.hooks), prices > 0 ? ['new_lead', 'price_change'] : ['new_lead'])
    await importNew(opened, places, Number(values.new))
    if (prices > 0) await changePrices(opened, prices)
    if (values.explain) await explainStatements(opened.db)
    await opened.close()
    await measure(url, {
      explain: values.explain,
      due: Number(values.due),
      hooks: Number(values.hooks),
      hosts: Number(values.hosts),
      send: Number(values.send),
    })
  } finally {
    await server.leave()
  }
}

await main()
