/** Subscription pushes behind the real `serve`: a house with 23 subscribed users and one who is not, and an integration for each. */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { buildHouse, hrefOf, makeUsers } from './house.ts'
import { owed } from './owed.ts'
import { assertAnswer, createKeys, type Serve, startServe } from './serve.ts'
import { until } from './until.ts'

/** Call it at the top of a file; what it starts ends with the file. */
export async function buildSubscriptions() {
  const users = [...makeUsers(23), { ...makeUsers(1, 23)[0], subscribed: false }]
  const house = await buildHouse({ users, leads: [{ href: hrefOf('a'), postalCode: '78704' }] })
  const keys = (await createKeys(house, users.map(({ email }) => email ?? ''))).map(({ apiKey }) => apiKey) // biome-ignore format: short
  const opened = await house.database.open()
  const { receiver } = house
  const started: Serve[] = []
  after(() => {
    for (const { program } of started) program.kill('SIGKILL')
  })

  async function start(env: Record<string, string> = {}): Promise<Serve> {
    const serve = await startServe(house, { LEADPUSH_ALLOW_INSECURE_HOOKS: '1', LEADPUSH_LEASE: '2s', ...env })
    started.push(serve)
    return serve
  }

  async function stop(serve: Serve, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    serve.program.kill(signal)
    const { code, stderr } = await serve.program.done
    if (signal !== 'SIGKILL') assert.equal(code, 0, stderr)
  }

  const keyOf = (at: number) => keys[at] ?? ''
  async function subscribe(serve: Serve, at: number, name?: string): Promise<void> {
    assert.equal(assertAnswer(await serve.subscribe(keyOf(at), name)), 200)
  }

  /** The requests for one user, by their idempotency keys. */
  const sentTo = (at: number) => {
    const own = receiver.requests.filter(({ headers }) => headers['x-service-api-key'] === `key-${at}`)
    return [...new Set(own.map(({ key }) => key))].map((key) => own.filter((request) => request.key === key).length)
  }

  async function countOwed(): Promise<number> {
    const { rows } = await opened.pool.query(`select count(*) as n ${owed}`)
    return rows[0].n
  }

  async function countPending(): Promise<number> {
    const { rows } = await opened.pool.query("select count(*) as n from deliveries where status = 'pending'")
    return rows[0].n
  }

  const untilNothingIsLeft = () =>
    until('nothing is owed or under way', async () => {
      // a push that is begun between two counts is neither owed nor pending in them
      const { rows } = await opened.pool.query(`select (select count(*) ${owed})
        + (select count(*) from deliveries where status = 'pending') as n`)
      return rows[0].n === 0
    })

  async function metric(serve: Serve, name: string): Promise<number> {
    const { text } = await serve.ask({ path: '/metrics' })
    const lines = text.split('\n').filter((line) => line.startsWith(name) && !line.startsWith(`${name}_`))
    return lines.reduce((sum, line) => sum + Number(line.split(' ')[1]), 0)
  }
  return {
    ...{ house, receiver, opened, start, stop, keyOf, subscribe, sentTo },
    ...{ countOwed, countPending, untilNothingIsLeft, metric },
  }
}
