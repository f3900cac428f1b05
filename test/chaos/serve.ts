/**
 * `npm run chaos:serve -- [--kills N] [--seed S]`: hooks are registered with the real `leadpush serve`, which is killed at
 * random meanwhile, and at times its child processes with it. In the end every subscription that was answered with 200 must have
 * led to one push: one idempotency key, on the wire at most twice. Exit 1 where that is not so.
 */
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startThrowAway } from '../../src/db/embedded/throw-away.ts'
import { migrate } from '../../src/db/migrate.ts'
import { type OpenDatabase, openDatabase } from '../../src/db/open.ts'
import { createIntegration } from '../../src/integrations/integrations.ts'
import { importLeads } from '../../src/leads/import.ts'
import { importUsers } from '../../src/users/import.ts'
import { type StartedProgram, startProgram } from '../support/program.ts'
import { startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { signal } from './postgres.ts'
import { Random } from './random.ts'

const usersPerKill = 3
const settleMsMax = 60_000

const input = (records: object[]) => ({
  stdin: Readable.from(
    records.map((record) => `${JSON.stringify(record)}\n`),
    { objectMode: false },
  ),
})

async function fill(opened: OpenDatabase, users: number): Promise<string[]> {
  await migrate(opened.db)
  await importLeads(opened, ['-'], input([{ href: 'https://listings.example/a', postalCode: '78704' }]))
  const emails = Array.from({ length: users }, (_, at) => `user-${at}@example.com`)
  const queries = [{ type: 'zipcode', value: '78704', radius: 0 }]
  const records = emails.map((email, at) => ({ email, receiverApiKey: `key-${at}`, queries }))
  await importUsers(opened, ['-'], input(records))
  const keys: string[] = []
  for (const email of emails) keys.push((await createIntegration(opened.db, { email })).apiKey)
  return keys
}

/** Whether it was answered with 200. */
async function subscribe(port: string, key: string): Promise<boolean> {
  const body = JSON.stringify({ hookUrl: 'https://192.0.2.1/hook' })
  const url = `http://127.0.0.1:${port}/api/extern/zapier/subscribe?api_key=${key}`
  return await fetch(url, { method: 'POST', body }).then(
    ({ status }) => status === 200,
    () => false,
  )
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

async function start(env: Record<string, string>): Promise<{ program: StartedProgram; port: string }> {
  const program = startProgram(['serve', '--port', '0'], { env, timeoutMs: 120_000 })
  const [, port = ''] = await program.waitFor(/listening on http:\/\/127\.0\.0\.1:(\d+)/)
  return { program, port }
}

async function settle(opened: OpenDatabase): Promise<boolean> {
  for (const endAt = Date.now() + settleMsMax; Date.now() < endAt; await sleep(100)) {
    const { rows } = await opened.pool.query(`select
      exists (select from subscription_pushes where owed_at is not null) or
      exists (select from deliveries where status = 'pending') as more`)
    if (!rows[0].more) return true
  }
  return false
}

/** What came to the receiver for each user: how often each key did. */
function findSent({ requests }: TestReceiver): Map<string, Map<string, number>> {
  const sent = new Map<string, Map<string, number>>()
  for (const { key, headers } of requests) {
    const user = String(headers['x-service-api-key'])
    const keys = sent.get(user) ?? new Map<string, number>()
    sent.set(user, keys.set(key, (keys.get(key) ?? 0) + 1))
  }
  return sent
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { kills: { type: 'string' }, seed: { type: 'string' } } })
  const kills = Number(values.kills ?? 200)
  const seed = values.seed ?? String(Date.now())
  const random = new Random('serve', seed)
  const server = await startThrowAway()
  const receiver = await startTestReceiver(() => ({ status: 200, delayMs: random.from(0, 400) }))
  const opened = await openDatabase({ databaseUrl: server.url, home: '' }, { schema: 'any' })
  try {
    const keys = await fill(opened, kills * usersPerKill)
    const env = {
      DATABASE_URL: server.url,
      LEADPUSH_RECEIVER_URL: receiver.url,
      LEADPUSH_RETRY_DELAY: '50ms',
      LEADPUSH_LEASE: '1s',
      LEADPUSH_ALLOW_INSECURE_HOOKS: '1',
    }
    const answered = new Set<number>()
    let childrenKilled = 0
    for (let kill = 0; kill < kills; kill++) {
      const { program, port } = await start(env)
      const asked = Array.from({ length: usersPerKill }, async (_, nth) => {
        const at = kill * usersPerKill + nth
        await sleep(random.from(0, 200))
        if (await subscribe(port, keys[at] ?? '')) answered.add(at)
      })
      await sleep(random.from(0, random.chance(0.5) ? 200 : 1_500))
      const children = random.chance(0.3) ? childrenOf(program.pid) : []
      program.kill('SIGKILL')
      for (const pid of children) signal(pid, 'SIGKILL')
      childrenKilled += children.length
      await Promise.all(asked)
      await program.done
    }
    const last = await start(env)
    const isSettled = await settle(opened)
    last.program.kill('SIGTERM')
    const { code } = await last.program.done

    const sent = findSent(receiver)
    const violations = keys.flatMap((_, at) => {
      const times = [...(sent.get(`key-${at}`)?.values() ?? [])]
      const isRight = times.every((n) => n <= 2) && (answered.has(at) ? times.length === 1 : times.length <= 1)
      return isRight ? [] : [`user ${at}, ${answered.has(at) ? '' : 'not '}answered: sent ${JSON.stringify(times)}`]
    })
    if (!isSettled) violations.push('something is still owed or pending')
    if (code !== 0) violations.push(`the last serve ended with ${code}`)
    for (const violation of violations) console.error(violation)
    const total = { seed, kills, childrenKilled, asked: keys.length, answered: answered.size, users: sent.size, requests: receiver.requests.length, violations: violations.length } // biome-ignore format: a line
    console.log(JSON.stringify(total))
    return violations.length > 0 ? 1 : 0
  } finally {
    await opened.close()
    await receiver.close()
    await server.leave()
  }
}

process.exitCode = await main()
