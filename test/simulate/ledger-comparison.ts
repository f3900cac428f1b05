/**
 * Random sequences of calls for both sides of the ledger, which must answer alike and have the same rows in the end. A sequence is a
 * list of numbers: each chooses its call by what is there, so the others go on as they are where some are left out.
 */
import { inspect, isDeepStrictEqual } from 'node:util'
import type { AttemptKind, DueFrom } from '../../src/deliveries/due.ts'
import type { DeliveryKind, RecordedAttempt, Takeover } from '../../src/deliveries/ledger.ts'
import type { PlannedPush, RecordedOutcome } from '../../src/deliveries/record.ts'
import type { OpenRun, Run, RunCommand, RunToStart } from '../../src/deliveries/runs.ts'
import type { Ledger, ReceiverNews } from '../../src/push/ledger.ts'
import type { Trouble } from '../../src/push/receiver/trouble.ts'
import {
  type Cursor,
  failedPass,
  forcedPass,
  type Pass,
  resumedForcedPass,
  type UserToServe,
  weeklyPass,
} from '../../src/push/whom/pass.ts'
import { Random } from '../chaos/random.ts'
import type { LedgerModel } from './ledger-model.ts'
import type { DatabaseSide, ModelSide, NewUser, Side } from './ledger-sides.ts'
import type { LedgerState } from './ledger-state.ts'

export const receiverUrls = ['https://one.example/', 'https://other.example/']

function weighted<T>(random: Random, choices: readonly (readonly [number, T])[]): T {
  let at = random.from(
    1,
    choices.reduce((sum, [weight]) => sum + weight, 0),
  )
  for (const [weight, choice] of choices) {
    at -= weight
    if (at <= 0) return choice
  }
  throw new Error('nothing to choose from')
}

/** What both sides are asked. */
interface Call {
  what: string
  args: unknown
  on(side: Side): Promise<unknown>
  /** Takes from an answer what later calls need. */
  then?(answer: never): void
}

interface BegunRun {
  run: Run
  start: RunToStart
}

const begins = Date.UTC(2026, 2, 2, 12)
const timeZones = ['UTC', 'UTC', 'UTC', 'Asia/Tokyo', 'Pacific/Honolulu']
/** How long a call comes after the one before: leases run, run out, and periods end; a clock may be set back. */
const steps: readonly (readonly [number, readonly number[]])[] = [
  [60, [0]],
  [40, [1, 50, 400, 1_000]],
  [25, [2_500, 5_000, 9_000]],
  [10, [61_000, 300_000]],
  [4, [3_600_000, 86_400_000, 7 * 86_400_000]],
  [1, [-5_000]],
]
const errors = [null, 'HTTP 500', 'timeout']

/** What a sequence has come to: the rows of the model, and what processes keep of the answers that they got. */
class Hand {
  readonly workers: { id: number; server: string }[] = []
  readonly runs: BegunRun[] = []
  readonly attempts: RecordedAttempt[] = []
  readonly cursors: Cursor[] = []
  interrupted: readonly OpenRun[] = []
  from: DueFrom | undefined
  pushes: { by: Parameters<Ledger['attempts']['recordPushes']>[0]; pushes: readonly PlannedPush[] } | undefined
  lastKey = 0
  lastUser = 0
  lastServer = 0
  now = begins

  readonly random: Random
  private readonly model: LedgerModel

  constructor(random: Random, before: Hand | undefined, model: LedgerModel) {
    Object.assign(this, before)
    this.random = random
    this.model = model
  }

  get state(): LedgerState {
    return this.model.state
  }

  get server(): string {
    return this.random.chance(0.95) ? this.state.server : 'another'
  }
  get live(): { id: number; server: string }[] {
    return this.workers.filter(({ id }) => (this.state.workers.get(id)?.leaseUntil ?? 0) > this.now)
  }
  get worker(): { id: number; server: string } {
    const { live } = this
    const { id = 999 } = this.random.one(live.length > 0 && this.random.chance(0.8) ? live : this.workers) ?? {}
    return { id, server: this.server }
  }
  get workerIds(): number[] {
    const ids = this.workers.map(({ id }) => id)
    return this.random.chance(0.7) ? [this.worker.id] : ids.filter(() => this.random.chance(0.5))
  }
  get begun(): BegunRun | undefined {
    return this.random.one(this.runs)
  }
  get user(): UserToServe {
    const { id = 999, email = 'nobody@example.com' } = this.random.one([...this.state.users.values()]) ?? {}
    return { id, email }
  }
  get users(): UserToServe[] {
    return Array.from({ length: this.random.from(1, 3) }, () => this.user)
  }
  get key(): string {
    return this.random.one([...this.state.deliveries.keys()]) ?? 'none'
  }
  get known(): string[] {
    return this.random.chance(0.5) ? [] : [this.key, this.key]
  }
  get takeover(): Takeover {
    return this.random.one(['own', 'all', 'all', 'subscriptions', { subscriptionOf: this.user.id }] as const)
  }
  get only(): AttemptKind | undefined {
    return this.random.one([undefined, 'first', 'second'] as const)
  }
  get period(): string {
    return this.begun?.run.period ?? '2026-W10'
  }
  get pass(): Pass {
    const { period } = this
    const { id = 999 } = this.begun?.run ?? {}
    switch (this.random.from(0, 5)) {
      case 0:
        return forcedPass(period, id, true)
      case 1:
        return failedPass(
          period,
          id,
          this.random.one([['failed'], ['failed', 'unknown'], ['failed', 'doubtful']] as const),
        )
      case 2:
        return resumedForcedPass(period, this.interrupted) ?? weeklyPass(period)
      default:
        return weeklyPass(period)
    }
  }

  /** An attempt that was recorded, or one that the ledger may not know. */
  get someAttempt(): Pick<RecordedAttempt, 'idempotencyKey' | 'attempt'> {
    const { random } = this
    const underWay = this.attempts.filter(({ idempotencyKey: key }) => this.state.deliveries.get(key)?.underWay)
    const attempts = underWay.length > 0 && random.chance(0.8) ? underWay : this.attempts
    const { idempotencyKey, attempt } = random.one(attempts) ?? { idempotencyKey: this.key, attempt: 1 as const }
    return { idempotencyKey, attempt: random.chance(0.9) ? attempt : random.one([1, 2] as const) }
  }

  /** Of attempts with different keys. */
  get outcomes(): RecordedOutcome[] {
    const { random } = this
    const some = Array.from({ length: random.from(0, 3) }, () => this.someAttempt)
    const byKey = new Map(some.map((attempt) => [attempt.idempotencyKey, attempt]))
    return [...byKey.values()].map((attempt) => {
      const error = random.one(errors)
      const httpStatus = error === null ? 200 : error === 'timeout' ? null : random.one([500, 415, 401])
      const retryDelayMs = random.one([0, 900, 5_000, 400_000])
      return {
        ...attempt,
        ok: error === null,
        maybeArrived: error === 'timeout',
        httpStatus,
        error,
        durationMs: 5,
        retryDelayMs,
      }
    })
  }

  get newPushes(): PlannedPush[] {
    const { random, state } = this
    const kind: DeliveryKind = random.one(['weekly', 'weekly', 'forced', 'single', 'subscription'])
    const scope = kind === 'weekly' ? `weekly:${this.period}` : kind === 'forced' ? this.pass.scope : null
    const erasures = random.chance(0.9) ? state.erasures : state.erasures - 1
    const byId = new Map(this.users.map((user) => [user.id, user]))
    return [...byId.values()].map(({ id, email }) => {
      const parts = random.one([1, 1, 2, 3])
      return {
        ...{ userId: id, email: random.chance(0.95) ? email : 'gone@example.com', kind, scope, erasures },
        ...{ server: this.server, queriesMark: random.one([1, 2]) },
        deliveries: Array.from({ length: parts }, (_, at) => {
          const versionIds = [...state.versions.keys()].filter(() => random.chance(0.3)).sort((a, b) => b - a)
          return {
            ...{
              idempotencyKey: `key-${++this.lastKey}`,
              part: at + 1,
              parts,
              queries: 1,
              leads: versionIds.length,
              bytes: 100,
            },
            ...{ queryList: '{}', contents: versionIds.map((versionId) => ({ versionId })) },
          }
        }),
      }
    })
  }
}

const answer = (what: string, args: unknown, on: Call['on'], then?: Call['then']): Call => ({
  what,
  args,
  on,
  ...(then && { then }),
})

/** A call by a random choice; undefined: nothing is there for it. */
type Choice = (hand: Hand) => Call | undefined

function startRun(hand: Hand, command: RunCommand): Call {
  const { random } = hand
  // which of two that began at one moment is the last is nobody's
  hand.now++
  const start = { command, resumable: random.chance(0.7), timeZone: random.one(timeZones), maxLeadAgeMs: 1_000 }
  const run = { ...start, workerIds: hand.workers.length > 0 ? [hand.worker.id] : [] }
  return answer(
    'runs.start',
    run,
    ({ ledger }) => ledger.runs.start(run),
    (run: Run) => hand.runs.push({ run, start }),
  )
}

const register = (hand: Hand, leaseMs: number): Call =>
  answer(
    'registerWorker',
    leaseMs,
    ({ ledger }) => ledger.registerWorker(leaseMs),
    (worker: { id: number; server: string }) => hand.workers.push(worker),
  )

const addListing = (versionId: number): Call =>
  answer('addListing', versionId, (side) => side.addListing(versionId, `{"n":${versionId}}`))

function addUser(hand: Hand, places: readonly string[]): Call {
  const id = ++hand.lastUser
  const [homeKey, subscribed] = [hand.random.one(['1', '2', '3']), hand.random.chance(0.8)]
  const user: NewUser = { id, email: `${id}@example.com`, receiverKey: 'key', homeKey, subscribed, places }
  return answer('addUser', user, (side) => side.addUser(user))
}

const runsOf: Choice = (hand) => {
  const { random, begun } = hand
  const choice = random.from(0, 9)
  if (choice <= 1 || begun === undefined) {
    return startRun(hand, random.one(['all', 'force', 'resume', 'failed', 'user', 'owed']))
  }
  const { run, start } = begun
  const { period } = run
  switch (choice) {
    case 3: {
      const outcome = random.one(['complete', 'failures', 'stopped'] as const)
      const doubtfulKeys = random.chance(0.3) ? hand.known : []
      const heldByAnswers = doubtfulKeys.length > 0 && random.chance(0.5) ? 'a page' : undefined
      const acceptsAnswers = doubtfulKeys.length === 0 && random.chance(0.2)
      const of = { outcome, cameToEnd: random.chance(0.5), heldUsers: random.one([0, 0, 2]) }
      const endsForcedBy = random.chance(0.5) ? run.forcedBy : undefined
      const end = { ...of, heldByAnswers, doubtfulKeys, acceptsAnswers, endsForcedBy }
      const { server } = hand
      return answer('runs.end', { id: run.id, server, end }, ({ ledger }) => ledger.runs.end(run.id, server, end))
    }
    case 4: {
      const from = { workerId: hand.worker.id, ageMs: 5_000 }
      return answer('runs.recordLoss', { id: run.id, from }, ({ ledger }) => ledger.runs.recordLoss(run, start, from))
    }
    case 5:
      return answer(
        'runs.findInterrupted',
        period,
        ({ ledger }) => ledger.runs.findInterrupted(period),
        (found: OpenRun[]) => {
          hand.interrupted = found
        },
      )
    case 6: {
      const ids = hand.interrupted.map(({ id }) => id).filter(() => random.chance(0.7))
      const held = random.one([0, 0, 1])
      return answer('runs.closeInterrupted', { ids, held }, ({ ledger }) => ledger.runs.closeInterrupted(ids, held))
    }
    case 7: {
      const importVolume = { listings: 7, filledFields: random.one([70, null]) }
      const held = random.chance(0.3) ? ({ by: 'zone', reason: 'so' } as const) : undefined
      const verdict = { importVolume, sources: [], held, accepted: random.chance(0.3) }
      const of = { runId: run.id, server: hand.server }
      return answer('runs.recordVerdict', { of, verdict }, ({ ledger }) => ledger.runs.recordVerdict(of, verdict))
    }
    case 8:
      return answer('runs.wasHeldBefore', run, ({ ledger }) => ledger.runs.wasHeldBefore(period, run.id))
    default:
      return answer('runs.findStatements', run.id, ({ ledger }) => ledger.runs.findStatements(run.id))
  }
}

const leasesOf: Choice = (hand) => {
  const { random } = hand
  const choice = random.from(0, 9)
  if (choice <= 1 || hand.workers.length === 0) {
    return register(hand, random.one([5_000, 60_000, 600_000]))
  }
  const { id } = hand.worker
  switch (choice) {
    case 3:
      return answer('endLeases', [id], ({ ledger }) => ledger.endLeases([id]))
    case 4:
      return answer('forgetDeadWorkers', [], ({ ledger }) => ledger.forgetDeadWorkers())
    case 5: {
      const to = hand.worker.id
      return answer('takeRunAlong', [id, to], ({ ledger }) => ledger.takeRunAlong([id], to))
    }
    case 6:
      return answer('isWorkerThere', id, ({ ledger }) => ledger.isWorkerThere(id))
    case 7: {
      const ids = hand.workerIds
      return answer('findOthersAtWork', ids, ({ ledger }) => ledger.runs.findOthersAtWork(ids))
    }
    default:
      return answer('renewLease', id, ({ ledger }) => ledger.renewLease(id, 60_000))
  }
}

async function collect<T>(pages: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const page of pages) all.push(page)
  return all
}

const usersOf: Choice = (hand) => {
  const { random, pass, workerIds } = hand
  switch (random.from(0, 9)) {
    case 0: {
      const counted = hand.users.map(({ id }) => id)
      return answer('users.countOfPass', { pass, workerIds, counted }, ({ ledger }) =>
        ledger.users.countOfPass(pass, workerIds, counted),
      )
    }
    case 9: {
      const passes = random.one([[], [pass], [pass, hand.pass]])
      const of = {
        takeover: hand.takeover,
        passes,
        runId: hand.begun?.run.id ?? 999,
        counted: hand.users.map(({ id }) => id),
      }
      return answer('users.countUnreached', of, ({ ledger }) => ledger.users.countUnreached(of))
    }
    case 1: {
      const passes = random.one([[], [pass], [pass, hand.pass]])
      return answer('users.countElsewhere', { passes, workerIds }, ({ ledger }) =>
        ledger.users.countElsewhere(passes, workerIds),
      )
    }
    case 2:
      return answer('users.findWithoutQueries', pass.scope, ({ ledger }) =>
        collect(ledger.users.findWithoutQueries(pass.scope)),
      )
    case 3: {
      const untilNone = random.chance(0.5)
      return answer('users.findOwedSubscription', untilNone, ({ ledger }) =>
        collect(ledger.users.findOwedSubscription(untilNone)),
      )
    }
    case 4: {
      const users = [...hand.users, { id: 1, email: 'gone@example.com' }]
      return answer('users.findRemoved', users, ({ ledger }) => ledger.users.findRemoved(users))
    }
    case 5: {
      const kept = hand.cursors.filter(() => random.chance(0.5))
      return answer('users.releaseRanges', { workerIds, pass, kept }, ({ ledger }) =>
        ledger.users.releaseRanges(workerIds, pass, kept),
      )
    }
    case 6: {
      const { user } = hand
      const mark = random.one([1, 2])
      const compared = random.one([[pass.scope], [weeklyPass('2026-W09').scope, weeklyPass(hand.period).scope]])
      return answer('findLeadsBefore', { user, mark, compared }, (side) => side.findLeadsBefore(user, mark, compared))
    }
    default: {
      const cursor = random.chance(0.6) ? undefined : random.one(hand.cursors)
      const range = { worker: hand.worker, pass, cursor, size: random.from(1, 3) }
      return answer(
        'users.takeRange',
        range,
        ({ ledger }) => ledger.users.takeRange(range),
        (users: (UserToServe & Cursor)[] | undefined) => hand.cursors.push(...(users ?? [])),
      )
    }
  }
}

const keep = (hand: Hand, attempts: readonly RecordedAttempt[]) => void hand.attempts.push(...attempts)

const attemptsOf: Choice = (hand) => {
  const { random, worker, workerIds, takeover, known } = hand
  const { id: runId = 999, period = '2026-W10' } = hand.begun?.run ?? {}
  const choice = random.from(0, 22)
  if (choice <= 6) {
    const isRepeat = hand.pushes !== undefined && random.chance(0.15)
    const by = {
      workerId: worker.id,
      server: worker.server,
      runId,
      period,
      attemptsMax: random.from(0, 4),
      gzip: random.chance(0.4),
    }
    const of = isRepeat && hand.pushes ? hand.pushes : { by, pushes: hand.newPushes }
    const { outcomes } = hand
    hand.pushes = of
    return answer(
      'attempts.recordPushes',
      { ...of, outcomes },
      ({ ledger }) => ledger.attempts.recordPushes(of.by, of.pushes, outcomes),
      ({ attempts }: { attempts: RecordedAttempt[] }) => keep(hand, attempts),
    )
  }
  if (choice <= 9) {
    const { outcomes } = hand
    const run = { runId, server: hand.server }
    return answer('attempts.recordOutcomes', { run, outcomes }, ({ ledger }) =>
      ledger.attempts.recordOutcomes(run, outcomes),
    )
  }
  const from = random.chance(0.4) ? hand.from : undefined
  const { only } = hand
  if (choice <= 12) {
    const ids = [...workerIds, worker.id]
    const look = { workerIds: ids, server: hand.server, runId, takeover, known, from, only }
    const due = { ...look, limit: random.from(1, 4), gzip: random.chance(0.5) }
    return answer(
      'attempts.recordDue',
      due,
      ({ ledger }) => ledger.attempts.recordDue(due),
      ({ attempts, next }: { attempts: RecordedAttempt[]; next: DueFrom | undefined }) => {
        keep(hand, attempts)
        hand.from = next ?? hand.from
      },
    )
  }
  switch (choice) {
    case 13: {
      const look = { workerIds, takeover, from, only }
      return answer('attempts.findNextDue', look, ({ ledger }) => ledger.attempts.findNextDue(look))
    }
    case 14:
    case 20:
    case 21: {
      const of = { workerIds, takeover, known }
      return answer('attempts.endAbandoned', of, ({ ledger }) => ledger.attempts.endAbandoned(of))
    }
    case 15: {
      const of = { ids: workerIds, server: hand.server }
      return answer('attempts.findUnheard', { of, known }, ({ ledger }) => ledger.attempts.findUnheard(of, known))
    }
    case 16: {
      const byKey = new Map([hand.someAttempt, hand.someAttempt].map((attempt) => [attempt.idempotencyKey, attempt]))
      const some = [...byKey.values()]
      return answer('attempts.takeBack', { workerIds, some }, ({ ledger }) => ledger.attempts.takeBack(workerIds, some))
    }
    case 17: {
      const { someAttempt: attempt } = hand
      return answer('attempts.takeBack', { workerIds, attempt, isErased: true }, ({ ledger }) =>
        ledger.attempts.takeBack(workerIds, [attempt], true),
      )
    }
    case 18: {
      const due = random.one(['now', 'then'] as const)
      return answer('attempts.releaseDeliveries', { workerIds, due }, ({ ledger }) =>
        collect(ledger.attempts.releaseDeliveries(workerIds, due)),
      )
    }
    default:
      return random.chance(0.5)
        ? answer('attempts.isAnythingAbandoned', [], ({ ledger }) => ledger.attempts.isAnythingAbandoned())
        : answer('attempts.endFarPauses', [], ({ ledger }) => ledger.attempts.endFarPauses())
  }
}

const receiversOf: Choice = ({ random }) => {
  const [url, runId] = [random.one(receiverUrls), random.from(1, 2)]
  switch (random.from(0, 6)) {
    case 0: {
      const isOnlyOne = random.chance(0.5)
      return answer('receiver.begin', { url, runId, isOnlyOne }, ({ ledger }) =>
        ledger.receiver(url, runId).begin(isOnlyOne),
      )
    }
    case 1:
      return answer('receiver.read', { url, runId }, ({ ledger }) => ledger.receiver(url, runId).read())
    default: {
      const trouble = random.one<Trouble>([
        { is: 'down' },
        { is: 'asks' },
        { is: 'refuses', status: 401 },
        { is: 'refuses', status: 403 },
      ])
      const given = { trouble, tries: random.from(0, 2), kind: random.one(['first', 'second'] as const) }
      const pace = { pausedMs: random.one([0, 2_000, 400_000]), allowedRate: random.one([null, 2.5, 10]) }
      const news: ReceiverNews = random.one([
        { says: 'well' },
        { says: 'trouble', trouble, inARow: 20, error: null },
        { says: 'try', ...given },
        { says: 'taken back', ...given },
        { says: 'pace', ...pace },
        { says: 'success', agoMs: random.one([0, 30_000]) },
        { says: 'gzip', takes: random.chance(0.6) },
      ] as const)
      return answer('receiver.tell', { url, runId, news }, ({ ledger }) => ledger.receiver(url, runId).tell(news))
    }
  }
}

const othersOf: Choice = (hand) => {
  const { random, user } = hand
  const places = random.one([[], ['1'], ['1', '2']])
  switch (random.from(0, 9)) {
    case 0:
      return answer('removeUser', user.id, (side) => side.removeUser(user.id))
    case 1:
      return answer('setPlaces', { id: user.id, places }, (side) => side.setPlaces(user.id, places))
    case 2:
    case 3:
      return answer('subscribe', user.id, (side) => side.subscribe(user.id))
    case 4:
      return answer('unsubscribe', user.id, (side) => side.unsubscribe(user.id))
    case 5: {
      const versionId = random.one([...hand.state.versions.keys()]) ?? 999
      return answer('erase', versionId, (side) => side.erase(versionId))
    }
    case 6: {
      if (random.chance(0.5)) return undefined
      const server = `server-${++hand.lastServer}`
      return answer('failOver', server, (side) => side.failOver(server))
    }
    case 7:
      return addListing(hand.state.lastVersion + random.from(1, 3))
    default:
      return addUser(hand, places)
  }
}

/** Each sequence has a theme: what is chosen how often. */
const themes: readonly (readonly (readonly [number, Choice])[])[] = [
  [
    ...([[12, attemptsOf], [5, usersOf], [4, othersOf]] as const),
    ...([[3, runsOf], [3, leasesOf], [1, receiversOf]] as const),
  ],
  [[20, attemptsOf], [3, othersOf], [2, leasesOf]],
  [[10, usersOf], [5, runsOf], [5, attemptsOf], [4, othersOf], [3, leasesOf]],
  [[1, receiversOf]],
] // biome-ignore format: a table

/** What a sequence begins with: leads, users, processes and a run. */
function* begin(hand: Hand): Generator<Call> {
  for (const id of [1, 2, 3]) yield addListing(id)
  for (let users = 0; users < 4; users++) yield addUser(hand, ['1', '2'].slice(0, hand.random.from(0, 3)))
  for (const leaseMs of [4_000, 60_000, 600_000]) yield register(hand, leaseMs)
  yield startRun(hand, hand.random.one(['all', 'force'] as const))
}

/** In one order, and in words that both sides have. */
function plain(value: unknown): unknown {
  if (value instanceof Date) return value.getTime()
  if (value instanceof Set) return [...value].sort()
  if (Array.isArray(value)) {
    const all = value.map(plain)
    const keyOf = (it: unknown) =>
      it !== null && typeof it === 'object' && 'idempotencyKey' in it ? it.idempotencyKey : ''
    return all.length > 1 && keyOf(all[0]) !== '' ? all.sort((a, b) => (`${keyOf(a)}` < `${keyOf(b)}` ? -1 : 1)) : all
  }
  if (value === null || typeof value !== 'object') return value
  const entries = Object.entries(value).filter(([, it]) => it !== undefined)
  return Object.fromEntries(entries.sort(([a], [b]) => (a < b ? -1 : 1)).map(([name, it]) => [name, plain(it)]))
}

const sorted = (rows: readonly unknown[]) => rows.map((row) => JSON.stringify(plain(row))).sort()

/** Of a set of rows the order is nobody's. */
function plainAnswer(what: string, value: unknown): unknown {
  const it = plain(value) as Record<string, unknown[]>
  if (what === 'findOthersAtWork') return (it as unknown as { id: number }[]).sort((a, b) => a.id - b.id)
  if (what === 'erase') return { ...it, underWay: it.underWay?.toSorted() }
  if (what === 'attempts.recordPushes' && Array.isArray(it.begun)) {
    const byUser = (pushes: unknown[] = []) => (pushes as { userId: number }[]).sort((a, b) => a.userId - b.userId)
    return { ...it, begun: byUser(it.begun) }
  }
  return it
}

const ask = async (call: Call, side: Side) => {
  try {
    return { is: await call.on(side) }
  } catch (error) {
    return { fails: error }
  }
}

const keysIn = (value: unknown): string[] => {
  const { attempts = [] } = (value ?? {}) as { attempts?: RecordedAttempt[] }
  return Array.isArray(value) ? value.map((it) => it?.idempotencyKey) : attempts.map((it) => it.idempotencyKey)
}

export interface Difference {
  calls: { what: string; args: unknown; now: number }[]
  database: unknown
  model: unknown
}

/** Carries out the calls that the numbers choose; the first difference, or undefined. */
export async function compareOnce(
  database: DatabaseSide,
  model: ModelSide,
  seed: number,
  numbers: readonly number[],
): Promise<Difference | undefined> {
  const calls: Difference['calls'] = []
  await database.reset()
  const play = async (call: Call, now: number): Promise<Difference | undefined> => {
    if (calls.at(-1)?.now !== now) for (const side of [database, model]) await side.setTime(now)
    calls.push({ what: call.what, args: call.args, now })
    const real = await ask(call, database)
    model.model.preferred = new Set(keysIn('is' in real ? real.is : undefined))
    const modelled = await ask(call, model)
    const [a, b] = [real, modelled].map((it) => ('fails' in it ? 'fails' : plainAnswer(call.what, it.is)))
    if (!isDeepStrictEqual(a, b)) {
      const tell = (it: typeof real, answer: unknown) => ('fails' in it ? it.fails : answer)
      return { calls, database: tell(real, a), model: tell(modelled, b) }
    }
    if ('is' in real) call.then?.(real.is as never)
    return undefined
  }
  const theme = themes[seed % themes.length] ?? []
  let hand = new Hand(new Random('beginning', seed), undefined, model.model)
  for (const call of begin(hand)) {
    const found = await play(call, hand.now)
    if (found) return found
  }
  for (const number of numbers) {
    const random = new Random(number)
    hand = new Hand(random, hand, model.model)
    hand.now += random.one(weighted(random, steps))
    const isDeserted = hand.live.length === 0 && random.chance(0.7)
    const call = isDeserted ? register(hand, 600_000) : weighted(random, theme)(hand)
    const found = call && (await play(call, hand.now))
    if (found) return found
  }
  const [rows, others] = [await database.findRows(), await model.findRows()]
  for (const table of Object.keys(others) as (keyof typeof others)[]) {
    const [a, b] = [sorted(rows[table] ?? []), sorted(others[table])]
    if (!isDeepStrictEqual(a, b)) return { calls, database: a, model: b }
  }
  return undefined
}

export function chooseNumbers(seed: number, length: number): number[] {
  const random = new Random('calls', seed)
  return Array.from({ length }, () => random.from(0, 2 ** 31))
}

/** Compares both sides for one sequence; a difference comes with few of its calls. */
export async function compareLedgers(
  database: DatabaseSide,
  newModel: () => ModelSide,
  seed: number,
  length: number,
): Promise<Difference | undefined> {
  let numbers = chooseNumbers(seed, length)
  let found = await compareOnce(database, newModel(), seed, numbers)
  if (found === undefined) return undefined
  for (let size = Math.ceil(numbers.length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2))
    for (let at = numbers.length - size; at >= 0; at -= size) {
      const fewer = numbers.toSpliced(at, size)
      const still = await compareOnce(database, newModel(), seed, fewer)
      if (still === undefined) continue
      found = still
      numbers = fewer
    }
  return found
}

/** A difference for people; the seed makes it happen again. */
export function describeDifference(seed: number, { calls, database, model }: Difference): string {
  const show = (value: unknown) => inspect(value, { depth: 9, breakLength: 140, maxArrayLength: null })
  return [`seed ${seed}:`, ...calls.map(show), show({ database, model })].join('\n')
}
