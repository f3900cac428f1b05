/** The guard of the weekly push (contract 4.14) as cron and an operator meet it, in weeks that turn. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { deliveriesOf } from '../support/house.ts'
import { callProgram, testHome } from '../support/program.ts'
import { startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { seedLeads, seedUsers } from '../support/seed.ts'
import { listen } from '../support/sockets.ts'
import { startTurningWeek, type TurningWeek, turningZone, type WeekDatabase } from '../support/turning-week.ts'

/** 60 listings in 78704 and 940 in 78705; `moved` of the 60 are there too. */
const listings = (more: object, moved = 0) =>
  Array.from({ length: 1_000 }, (_, n) => ({
    href: `https://listings.example/${n}`,
    postalCode: n < 60 - moved ? '78704' : '78705',
    ...more,
  }))
const full = { price: 1, city: 'Austin', bedrooms: 3 }

let week: TurningWeek
let database: WeekDatabase
let receiver: TestReceiver
let env: Record<string, string>
let ping: Awaited<ReturnType<typeof listen>>
const pings: string[] = []
const pinged = createServer((request, response) => {
  pings.push(request.url ?? '')
  response.end()
})

before(async () => {
  week = await startTurningWeek()
  database = await week.createDatabase(async (opened) => {
    await seedLeads(opened, listings(full))
    await seedUsers(
      opened.db,
      ['78704', '78705'].map((code) => ({ email: `${code}@example.com`, queries: [{ value: code, places: [code] }] })),
    )
  })
  receiver = await startTestReceiver()
  ping = await listen(pinged)
  env = {
    DATABASE_URL: database.url,
    LEADPUSH_TIME_ZONE: turningZone,
    LEADPUSH_RECEIVER_URL: receiver.url,
    LEADPUSH_PING_URL: `http://127.0.0.1:${ping.port}`,
  }
})
after(async () => {
  await receiver.close()
  await ping.close()
  await week.leave()
})

const run = (args: string, more = {}) => callProgram(args.split(' '), { env: { ...env, ...more } })
const look = (args: string) => callProgram(args.split(' '), { env })

async function importListings(records: readonly object[]): Promise<void> {
  const input = records.map((record) => `${JSON.stringify(record)}\n`).join('')
  assert.equal((await callProgram(['leads', 'import', '-'], { env, input })).code, 0)
}

const metricsFile = join(testHome(), 'leadpush.prom')
const metric = (name: string) =>
  Number(new RegExp(`^leadpush_push_${name}\\{.*\\} (\\S+)$`, 'm').exec(readFileSync(metricsFile, 'utf8'))?.[1])

test('a first week is never held, and nor is a second run in it', async () => {
  assert.equal((await run('push --all --json')).code, 0)
  assert.equal((await run('push --all --json')).code, 0)
  assert.equal(receiver.requests.length, 2)
  assert.deepEqual(pings, ['/start', '/', '/start', '/'])
})

test('a hollow feed: cron is told and sends nothing, --resume neither, status says what to do, --accept sends', async () => {
  await week.turn()
  await importListings(listings({ price: null, city: '' }))
  const reason =
    'held: 0 filled fields in the 1000 listings imported since the last weekly run instead of 3000 in the week before'
  pings.length = 0
  const held = await run(`push --all --json --metrics-file ${metricsFile}`)
  assert.equal(held.code, 1)
  assert.deepEqual(['held', 'owed', 'exit_code', 'last_completion_timestamp_seconds'].map(metric), [1, 2, 1, NaN])
  const [skip, summary, ...rest] = held.json
  assert.deepEqual([skip, rest], [{ type: 'skip', reason }, []])
  assert.deepEqual([summary.users, summary.owed, summary.skipped, summary.deliveries], [2, 2, 0, 0])
  assert.deepEqual(pings, ['/start', '/fail'])

  const preview = await look('preview --json')
  assert.deepEqual([preview.code, preview.json[0], preview.json.length], [0, skip, 2])
  assert.match(
    (await look('preview')).stdout,
    /\nMend what was imported, then run `leadpush push --all` \(or, if .*--accept`\)\.\n/,
  )
  const explained = await look('explain --user 78704@example.com https://listings.example/0')
  assert.match(explained.stdout, /^Not yet: it is held: 0 filled fields .* \(or, .*`leadpush push --all --accept`\)\./)
  const resumed = await run('push --resume')
  // what was told is one line
  assert.equal(resumed.code, 0)
  assert.match(resumed.stdout, /^all users {2}skipped {2}held: 0 filled fields .*\n$/)
  assert.equal(receiver.requests.length, 2)

  const status = await look('status')
  assert.match(status.stdout, /The guard holds back the weekly run \(0 filled fields .*leadpush push --all --accept/s)
  const check = await run('status --check --json')
  assert.deepEqual([check.code, check.json[0].held, check.json[0].owed], [1, { reason, users: 0 }, 2])

  const accepted = await run('push --all --accept --json')
  assert.deepEqual([accepted.code, deliveriesOf(accepted.json).length, receiver.requests.length], [0, 2, 4])
  const after = await look('status --check --json')
  assert.deepEqual([after.code, after.json[0].held], [0, undefined])
})

test('a user whose leads are gone is held alone', async () => {
  await week.turn()
  await importListings(listings(full, 57))
  const reason = 'held: 3 leads instead of 60 in the last weekly delivery with the same queries'
  const held = await run(`push --all --json --metrics-file ${metricsFile}`)
  assert.equal(held.code, 1)
  assert.deepEqual(['held', 'owed', 'skipped'].map(metric), [1, 1, 1])
  assert.ok(metric('last_completion_timestamp_seconds') > 0, 'the others were served')
  assert.deepEqual(
    held.json.filter(({ type }) => type === 'skip'),
    [{ type: 'skip', user: '78704@example.com', reason }],
  )
  const { users, owed, skipped, delivered } = held.json.at(-1)
  assert.deepEqual([users, owed, skipped, delivered], [2, 1, 1, 1])
  const { json } = await look('explain --user 78704@example.com https://listings.example/0 --json')
  assert.equal(json[0].held, reason)
  assert.match((await look('status')).stdout, /^users {2}problem {2}The guard holds back 1 user in /)
  assert.equal((await run('push --resume --accept')).code, 0)
  assert.equal(receiver.requests.length, 6)
})

test('LEADPUSH_GUARD=off holds nothing back', async () => {
  await week.turn()
  assert.equal((await look('preview --json')).json[0].reason.slice(0, 5), 'held:')
  assert.equal((await run('push --all', { LEADPUSH_GUARD: 'off' })).code, 0)
  assert.equal(receiver.requests.length, 8)
})
