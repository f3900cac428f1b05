/**
 * `npm run bench:serve`: the `test` endpoint of the real `leadpush serve` against a bare Fastify route with the same single
 * look-up, over loopback with 64 connections, in turns of 5 s, 20 s each. Stored secrets are encrypted. Prints requests a second, their
 * ratio and latencies, and ends with 1 where an answer was wrong.
 */
import { fork, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import autocannon from 'autocannon'
import Fastify from 'fastify'
import { packageRoot } from '../../src/base/package-root.ts'
import { startThrowAway } from '../../src/db/embedded/throw-away.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/open.ts'
import { createIntegration, findIntegrationByKey } from '../../src/integrations/integrations.ts'
import { openVault } from '../../src/secrets/vault.ts'

const connections = 64
const turns = 4
const turnSeconds = 5
const warmUpSeconds = 2
const user = 'user@example.com'
const secretKey = randomBytes(32)

async function fill(databaseUrl: string): Promise<string> {
  const opened = await openDatabase({ databaseUrl, home: '' }, { schema: 'any' })
  await migrate(opened.db)
  await opened.db.insertInto('users').values({ email: user, receiver_key: 'key', subscribed: true }).execute()
  // so many that the look-up needs its index
  await opened.pool.query(`
    insert into integrations (user_id, api_key_sha256, signing_secret)
    select u.id, sha256(n::text::bytea), 'whsec_AAAA' from users u, generate_series(1, 20000) n`)
  const vault = await openVault(opened.db, { secretKey }, { begins: true })
  const { apiKey } = await createIntegration(opened.db, { email: user, vault })
  await opened.pool.query('vacuum analyze')
  await opened.close()
  return apiKey
}

/** The route that there would be if nothing were checked, limited, measured or logged. */
async function serveBare(databaseUrl: string): Promise<void> {
  const { db } = await openDatabase({ databaseUrl, home: '' })
  const app = Fastify()
  app.get('/test', async (request) => {
    const integration = await findIntegrationByKey(db, (request.query as { api_key: string }).api_key)
    return {
      ok: true,
      msg: 'The integration is connected.',
      date: new Date().toISOString(),
      userEmail: integration?.email,
    }
  })
  process.send?.(await app.listen({ port: 0, host: '127.0.0.1' }))
}

interface Measured {
  requests: number
  cpuMs: number
  wrong: number
  p50: number
  p99: number
  max: number
}

/** What the process has computed so far, in milliseconds; the system counts in hundredths of a second. */
function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  return (Number(fields[11]) + Number(fields[12])) * 10
}

async function fire({ url, pid }: Target, duration: number): Promise<Measured> {
  const before = cpuMsOf(pid)
  const isRight = (body: unknown) => String(body).startsWith('{"ok":true') && String(body).includes(user)
  const result = await autocannon({ url, connections, duration, verifyBody: isRight })
  const { p50, p99, max } = result.latency
  const wrong = result.non2xx + result.errors + result.timeouts + result.mismatches
  return { requests: result.requests.total, cpuMs: cpuMsOf(pid) - before, wrong, p50, p99, max }
}

interface Target {
  url: string
  pid: number
}

function report(name: string, slices: readonly Measured[]): { perSecond: number; wrong: number } {
  const total = (key: 'requests' | 'wrong' | 'cpuMs') => slices.reduce((sum, slice) => sum + slice[key], 0)
  const turnsOf = (key: 'p50' | 'p99' | 'max') => slices.map((slice) => slice[key]).join(', ')
  const perSecond = total('requests') / (turns * turnSeconds)
  console.log(
    `${name}: ${Math.round(perSecond)} requests/s, ${Math.round((total('cpuMs') / total('requests')) * 1_000)} µs of its CPU each; by turn p50 ${turnsOf('p50')} ms, p99 ${turnsOf('p99')} ms, max ${turnsOf('max')} ms; wrong: ${total('wrong')}`,
  )
  return { perSecond, wrong: total('wrong') }
}

async function main(): Promise<number> {
  const server = await startThrowAway()
  const apiKey = await fill(server.url)
  const bare = fork(fileURLToPath(import.meta.url), ['bare', server.url], { execArgv: ['--import', 'tsx'] })
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-bench-'))
  // its log goes to a file: to read it would be work of the load's own process
  const program = spawn(process.execPath, [join(packageRoot, 'bin/leadpush.js'), 'serve', '--port', '0'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', openSync(join(folder, 'log'), 'w')],
    env: {
      PATH: process.env.PATH, HOME: folder, DATABASE_URL: server.url, LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:9/',
      LEADPUSH_LIMIT_KEY: 'off', LEADPUSH_LIMIT_ADDRESS: 'off', LEADPUSH_SECRET_KEY: secretKey.toString('base64'),
    }, // biome-ignore format: short
  })
  try {
    const [bareUrl] = await once(bare, 'message')
    const [announced] = await once(program.stdout as Readable, 'data')
    const serveUrl = String(announced).trim().split(' ').at(-1)
    const targets = [
      { url: `${serveUrl}/api/extern/zapier/test?api_key=${apiKey}`, pid: program.pid ?? 0 },
      { url: `${bareUrl}/test?api_key=${apiKey}`, pid: bare.pid ?? 0 },
    ] as const
    for (const target of targets) await fire(target, warmUpSeconds)
    const slices: [Measured[], Measured[]] = [[], []]
    for (let turn = 0; turn < turns; turn++) {
      for (const at of turn % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
        slices[at].push(await fire(targets[at], turnSeconds))
      }
    }
    const [ours, theirs] = [report('leadpush serve', slices[0]), report('bare Fastify  ', slices[1])]
    console.log(`ratio: ${(ours.perSecond / theirs.perSecond).toFixed(2)}`)
    return ours.wrong > 0 ? 1 : 0
  } finally {
    bare.kill()
    program.kill('SIGKILL')
    await server.leave()
    rmSync(folder, { recursive: true })
  }
}

if (process.argv[2] === 'bare') await serveBare(process.argv[3] ?? '')
else process.exitCode = await main()
