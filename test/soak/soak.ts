/**
 * `npm run soak -- [--weeks N] [--seed S]`: a year of one operator in some minutes. The real program runs from a crontab of its own
 * against a real PostgreSQL, and all live by a clock that is moved: daily complete feeds, a push each week, triggers, erasures, prunes,
 * and a bad week of each kind. Checks what the receiver got, what monitors were told, and how large the tables grow. Exit 1 where
 * something is wrong. It needs libfaketime.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { type ProgramResult, startProgram } from '../support/program.ts'
import { type ReceivedRequest, startTestReceiver, type TestReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'
import { MovedClock } from './clock.ts'
import { contactOf, emailOf, type House, hrefOf, Operator } from './operator.ts'
import { type MovedPostgres, startMovedPostgres } from './postgres.ts'

/** A Monday. */
const beginMs = Date.UTC(2026, 0, 5)
const hourMs = 3_600_000
const dayMs = 24 * hourMs
const feedMap = 'href=Listing URL\npostalCode=Zip\nprice=List Price\ncontactEmail=Owner Email\nbedrooms=Beds\n'

/** What goes wrong in a week, by its number. */
const badWeeks = {
  6: 'a feed is cut',
  10: 'the receiver is down',
  16: 'every key is refused',
  22: 'one key is refused',
  28: 'the database is killed',
  34: 'a clock is wrong',
  40: 'cron is dead',
  46: 'the market halves',
} as const
type Bad = (typeof badWeeks)[keyof typeof badWeeks] | undefined

class Soak {
  readonly violations: string[] = []
  private readonly clock: MovedClock
  private readonly postgres: MovedPostgres
  private readonly receiver: TestReceiver
  private readonly hook: TestReceiver
  private readonly operator: Operator
  private readonly folder: string
  private readonly erased = new Set<string>()
  private refuses: (request: ReceivedRequest) => number = () => 200
  private readonly taken = new Set<ReceivedRequest>()
  private sizes: { week: number; bytes: number }[] = []

  constructor(given: {
    clock: MovedClock
    postgres: MovedPostgres
    receiver: TestReceiver
    hook: TestReceiver
    folder: string
    seed: string
  }) {
    this.clock = given.clock
    this.postgres = given.postgres
    this.receiver = given.receiver
    this.hook = given.hook
    this.folder = given.folder
    // the guard compares weeks of 1,000 listings and more
    this.operator = new Operator(given.seed, { houses: 2_000, users: 40 })
    this.receiver.answer = (request) => {
      const status = this.refuses(request)
      if (status === 200) this.taken.add(request)
      return status
    }
  }

  async run(weeks: number): Promise<void> {
    writeFileSync(join(this.folder, 'mls.map'), feedMap)
    this.setTime(0, 0)
    await this.expect(['migrate'])
    await this.importFeeds()
    await this.importUsers()
    await this.registerHook()
    for (let week = 0; week < weeks; week++) await this.passWeek(week)
    this.checkTriggers()
  }

  private async passWeek(week: number): Promise<void> {
    const bad: Bad = badWeeks[week as keyof typeof badWeeks]
    const before = this.receiver.requests.length
    this.operator.passWeek()
    for (let day = 0; day < 7; day++) await this.passDay(week, day, bad)
    const requests = this.receiver.requests.slice(before)
    this.checkWeek(week, bad, requests)
    this.receiver.requests.length = 0
    this.taken.clear()
    console.log(
      `week ${week + 1}${bad ? ` (${bad})` : ''}: ${requests.length} requests, ${this.violations.length} violations`,
    )
  }

  private async passDay(week: number, day: number, bad: Bad): Promise<void> {
    const nth = week * 7 + day
    this.setTime(nth, 3)
    await this.check(week, day, bad)
    this.operator.passDay()
    this.setTime(nth, 4)
    await this.importFeeds(bad, day)
    await this.expect(['trigger'])
    if (day === 0) await this.passMonday(nth, bad)
    if (day === 1) await this.mend(nth, bad, 'every key is refused', 'one key is refused', 'the market halves')
    if (day === 2) await this.mend(nth, bad, 'the receiver is down')
    if (day === 3 && week % 4 === 2) await this.erase(nth)
    if (day === 5 && week % 4 === 3) await this.prune(nth, week)
  }

  private async passMonday(nth: number, bad: Bad): Promise<void> {
    this.setTime(nth, 5)
    await this.importUsers()
    this.setTime(nth, 6)
    this.dueUsers = this.operator.users.filter(({ isListed }) => isListed)
    this.dueHouses = this.live()
    if (bad === 'cron is dead') return
    if (bad === 'the receiver is down') this.refuses = () => 503
    if (bad === 'every key is refused') this.refuses = () => 401
    if (bad === 'one key is refused') {
      this.unlucky = this.operator.pick(this.dueUsers)
      const { receiverKey } = this.unlucky
      this.refuses = ({ headers }) => (headers['x-service-api-key'] === receiverKey ? 401 : 200)
    }
    const fails = ['the receiver is down', 'every key is refused', 'one key is refused', 'the market halves']
    const pushing = this.start(['push', '--all'], bad === 'a clock is wrong' ? 9 * dayMs : 0)
    if (bad === 'the database is killed') await this.postgres.kill(4_000)
    this.note(await pushing, fails.includes(bad ?? '') ? 1 : 0)
    for (const hour of [7, 8]) {
      this.setTime(nth, hour)
      const held = ['the receiver is down', 'every key is refused', 'the market halves'].includes(bad ?? '')
      this.note(await this.start(['push', '--resume']), held ? undefined : 0)
    }
  }

  /** The operator mends what went wrong, if it is one of `which`. */
  private async mend(nth: number, bad: Bad, ...which: Bad[]): Promise<void> {
    if (bad === undefined || !which.includes(bad)) return
    this.setTime(nth, 12)
    if (bad === 'one key is refused') {
      const { unlucky } = this
      if (unlucky) unlucky.receiverKey += '-new'
      await this.importUsers()
    }
    this.refuses = () => 200
    this.setTime(nth, 13)
    const args =
      bad === 'one key is refused' ? ['--failed'] : bad === 'the market halves' ? ['--all', '--accept'] : ['--resume']
    await this.expect(['push', ...args])
  }

  /** What a monitor is told each night: the night after something bad, and only then, that something is wrong. */
  private async check(week: number, day: number, bad: Bad): Promise<void> {
    const last: Bad = badWeeks[(week - 1) as keyof typeof badWeeks]
    const isExpected =
      (bad === 'a feed is cut' && day === 3) ||
      (bad === 'the receiver is down' && day === 2) ||
      (['every key is refused', 'one key is refused', 'the market halves'].includes(bad ?? '') && day === 1) ||
      (bad === 'cron is dead' && day >= 2) ||
      (last === 'cron is dead' && day === 0)
    // on the first day there is nothing yet; whether a push that gave up is told after 21 hours is left open
    if ((week === 0 && day === 0) || (bad === 'the receiver is down' && day === 1)) return
    const { code, stdout } = await this.start(['status', '--check', '--quiet'])
    if (code !== (isExpected ? 1 : 0)) this.fail(`status --check ended with ${code}: ${stdout.trim()}`)
  }

  private async importFeeds(bad?: Bad, day?: number): Promise<void> {
    const isCut = bad === 'a feed is cut' && day === 2
    const isHalved = bad === 'the market halves' && day === 0
    const share = isCut ? 0.3 : isHalved ? 0.2 : 1
    writeFileSync(join(this.folder, 'mls.csv'), this.operator.writeMls(share))
    writeFileSync(join(this.folder, 'fsbo.ndjson'), this.operator.writeFsbo(isHalved ? share : 1))
    const accept = isHalved ? ['--accept'] : []
    const mls = ['leads', 'import', '--source', 'mls', '--complete', '--map-file', 'mls.map', 'mls.csv', ...accept]
    await this.expect(mls, isCut ? 1 : 0)
    await this.expect(['leads', 'import', '--source', 'fsbo', '--complete', 'fsbo.ndjson', ...accept])
  }

  private async importUsers(): Promise<void> {
    writeFileSync(join(this.folder, 'users.csv'), this.operator.writeUsers())
    await this.expect(['users', 'import', '--complete', 'users.csv'])
  }

  private async erase(nth: number): Promise<void> {
    this.setTime(nth, 10)
    const houses = this.operator.onMarket().filter(({ name }) => !this.erased.has(name))
    const [first, second, third] = [0, 1, 2].map((n) => houses[n * 7] as House) as [House, House, House]
    await this.expect(['leads', 'forget', '--href', hrefOf(first)])
    await this.expect(['leads', 'forget', '--contact', contactOf(second)])
    writeFileSync(join(this.folder, 'erase.txt'), `${contactOf(third)}\nhttps://listings.example/never\n`)
    await this.expect(['leads', 'forget', '--list', 'erase.txt'])
    for (const { name } of [first, second, third]) this.erased.add(name)
  }

  private async prune(nth: number, week: number): Promise<void> {
    this.setTime(nth, 11)
    await this.expect(['prune', '--older-than', '60d'])
    const [row] = await this.query('select pg_database_size(current_database())::float8 as bytes')
    this.sizes.push({ week, bytes: Number(row?.bytes) })
    const settled = this.sizes.find((size) => size.week >= 15)
    const grown = Number(row?.bytes) / (settled?.bytes ?? Number.POSITIVE_INFINITY)
    if (grown > 1.5) this.fail(`the database has grown ${grown.toFixed(2)} times since week ${settled?.week}`)
  }

  private dueUsers: Operator['users'] = []
  private dueHouses: House[] = []
  private unlucky: Operator['users'][number] | undefined

  private live = () => this.operator.onMarket().filter(({ name }) => !this.erased.has(name))

  private checkWeek(week: number, bad: Bad, requests: readonly ReceivedRequest[]): void {
    const where = `week ${week + 1}`
    const taken = new Map<string, ReceivedRequest[]>()
    const keys = new Map<string, number>()
    for (const request of requests) {
      keys.set(request.key, (keys.get(request.key) ?? 0) + 1)
      for (const { href } of request.json.fsbos) {
        const name = String(href).slice('https://listings.example/'.length)
        if (this.erasedBefore.has(name)) this.fail(`${where}: the erased ${name} went out`)
      }
      if (!this.taken.has(request)) continue
      const user = String(request.headers['x-service-api-key'])
      taken.set(user, [...(taken.get(user) ?? []), request])
    }
    for (const [key, times] of keys) if (times > 2) this.fail(`${where}: ${key} came ${times} times`)
    const due = bad === 'cron is dead' ? [] : this.dueUsers
    for (const user of due) {
      const got = taken.get(user.receiverKey) ?? []
      if (got.length !== 1) this.fail(`${where}: ${user.name} has ${got.length} deliveries`)
      if (bad === undefined) this.checkBody(where, user, got[0])
      taken.delete(user.receiverKey)
    }
    for (const key of taken.keys()) this.fail(`${where}: ${key} got a delivery and should not`)
    for (const name of this.erased) this.erasedBefore.add(name)
  }

  /** Erased before this week began. */
  private readonly erasedBefore = new Set<string>()

  private checkBody(where: string, user: Operator['users'][number], request: ReceivedRequest | undefined): void {
    const own = this.dueHouses.filter(({ postalCode }) => user.codes.includes(postalCode))
    const wanted = own.map((house) => hrefOf(house)).sort()
    const got = (request?.json.fsbos ?? []).map(({ href }) => String(href)).sort()
    const lacks = wanted.filter((href) => !got.includes(href))
    const more = got.filter((href) => !wanted.includes(href))
    if (lacks.length + more.length > 0) this.fail(`${where}: ${user.name} lacks ${lacks} and has ${more}`)
  }

  private async registerHook(): Promise<void> {
    const user = this.operator.users[0]
    if (user === undefined) return
    const made = await this.expect(['integrations', 'create', '--user', emailOf(user), '--json'])
    const serve = startProgram(['serve', '--port', '0'], { cwd: this.folder, env: this.env() })
    const [, url = ''] = await serve.waitFor(/listening on (http:\S+)/)
    const answer = await fetch(`${url}/api/extern/zapier/subscribe?api_key=${made.json[0].apiKey}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ hookUrl: this.hook.url }),
    })
    if (!answer.ok) this.fail(`subscribe was answered ${answer.status}: ${await answer.text()}`)
    await until('the subscription push comes', () => this.receiver.requests.length > 0)
    serve.kill()
    await serve.done
    this.receiver.requests.length = 0
  }

  private checkTriggers(): void {
    const seen = new Set<string>()
    for (const { headers } of this.hook.requests) {
      const id = String(headers['webhook-id'])
      if (seen.has(id)) this.fail(`the trigger ${id} came twice`)
      seen.add(id)
    }
    if (seen.size === 0) this.fail('no trigger came')
    console.log(`${seen.size} triggers`)
  }

  private env(aheadMs = 0): Record<string, string> {
    return {
      ...this.clock.env(aheadMs),
      DATABASE_URL: this.postgres.url,
      LEADPUSH_RECEIVER_URL: this.receiver.url,
      LEADPUSH_RETRY_DELAY: '50ms',
      LEADPUSH_OUTAGE: '1s',
      LEADPUSH_FEED_MAX_AGE: '30h',
      LEADPUSH_ALLOW_INSECURE_HOOKS: '1',
    }
  }

  private setTime(day: number, hour: number): void {
    this.clock.set(new Date(beginMs + day * dayMs + hour * hourMs))
  }

  private start(args: string[], aheadMs = 0): Promise<ProgramResult> {
    return startProgram(args, { cwd: this.folder, env: this.env(aheadMs) }).done
  }

  private async expect(args: string[], code = 0): Promise<ProgramResult> {
    const result = await this.start(args)
    this.note(result, code, args)
    return result
  }

  private note(result: ProgramResult, code: number | undefined, args = ['push']): void {
    if (code === undefined || result.code === code) return
    this.fail(`${args.join(' ')} ended with ${result.code}: ${result.stderr.slice(-500)} ${result.stdout.slice(-500)}`)
  }

  private fail(what: string): void {
    const line = `${this.clock.now.toISOString()} ${what}`
    this.violations.push(line)
    console.log(`  VIOLATION ${line}`)
  }

  private async query(statement: string): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: this.postgres.url })
    await client.connect()
    try {
      return (await client.query(statement)).rows
    } finally {
      await client.end()
    }
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: { weeks: { type: 'string', default: '52' }, seed: { type: 'string', default: '1' } },
  })
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-soak-'))
  chmodSync(folder, 0o711)
  const clock = new MovedClock(folder)
  clock.set(new Date(beginMs))
  const postgres = await startMovedPostgres(clock, folder)
  const [receiver, hook] = [await startTestReceiver(), await startTestReceiver()]
  const soak = new Soak({ clock, postgres, receiver, hook, folder, seed: values.seed })
  const began = performance.now()
  try {
    await soak.run(Number(values.weeks))
  } finally {
    await Promise.all([receiver.close(), hook.close(), postgres.leave()])
    rmSync(folder, { recursive: true, force: true })
  }
  const minutes = ((performance.now() - began) / 60_000).toFixed(1)
  console.log(`${values.weeks} weeks in ${minutes} minutes, ${soak.violations.length} violations`)
  return soak.violations.length > 0 ? 1 : 0
}

process.exitCode = await main()
