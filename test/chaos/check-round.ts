/** The promises that must hold after any round (contract 4.5 to 4.8, 4.12, 4.15): the receiver's log against the ledger. */
import { readFileSync } from 'node:fs'
import { type Selectable, sql } from 'kysely'
import { alikeInARow } from '../../src/base/limits.ts'
import type { Database } from '../../src/db/open.ts'
import type { Tables } from '../../src/db/tables.ts'
import { isKeyOf, usersMax } from './imports.ts'
import type { Answer, Logged } from './receiver.ts'
import { type RanImport, type RanProcess, type RanRound, retryDelayMs, sharedSender } from './round.ts'

/** With its answer, if that was sent whole. */
export interface Request extends Partial<Pick<Answer, 'status' | 'retryMs' | 'refusing'>> {
  id: number
  key: string
  userKey: string
  process: number
  cameMs: number
  cameWallMs: number
  sha256?: string
  bytes?: number
  /** When it was answered, or the sender left. */
  endedMs?: number
  endedWallMs?: number
}

type Delivery = Selectable<Tables['deliveries']> & { email: string }

export interface Evidence {
  round: RanRound
  requests: Map<string, Request[]>
  deliveries: Map<string, Delivery>
  users: { id: number; email: string; subscribed: boolean }[]
  forcedRuns: number
}

export function readLog(path: string): Map<string, Request[]> {
  const byId = new Map<number, Request>()
  const requests = new Map<string, Request[]>()
  let text = ''
  try {
    text = readFileSync(path, 'utf8')
  } catch {} // nothing came
  // what follows the last line end is still being written
  for (const line of text.split('\n').slice(0, -1)) {
    const logged = JSON.parse(line) as Logged
    if (logged.event === 'came') {
      const { id, key, userKey, process, atMs, wallMs } = logged
      const request: Request = { id, key, userKey, process, cameMs: atMs, cameWallMs: wallMs }
      byId.set(id, request)
      requests.set(key, [...(requests.get(key) ?? []), request])
      continue
    }
    const request = byId.get(logged.id)
    if (!request) continue
    if (logged.event === 'read') Object.assign(request, { sha256: logged.sha256, bytes: logged.bytes })
    else {
      Object.assign(request, { endedMs: logged.atMs, endedWallMs: logged.wallMs })
      if (logged.event !== 'answered' || logged.how !== 'whole') continue
      const { status, retryMs, refusing } = logged
      Object.assign(request, { status, retryMs, refusing })
    }
  }
  return requests
}

export async function readEvidence(db: Database, round: RanRound, logPath: string): Promise<Evidence> {
  const deliveries = await db
    .selectFrom('deliveries')
    .innerJoin('users', 'users.id', 'deliveries.user_id')
    .selectAll('deliveries')
    .select('users.email')
    .execute()
  const users = await db.selectFrom('users').select(['id', 'email', 'subscribed']).execute()
  const { rows } = await sql<{ n: number }>`select count(*) as n from runs where command = 'force'`.execute(db)
  return {
    round,
    requests: readLog(logPath),
    deliveries: new Map(deliveries.map((delivery) => [delivery.idempotency_key, delivery])),
    users,
    forcedRuns: rows[0]?.n ?? 0,
  }
}

const isSuccess = ({ status }: Request) => status !== undefined && status >= 200 && status < 300
/** The sender may have got no complete answer. A 409 says nothing of the delivery either. */
const isOpen = ({ status }: Request) => status === undefined || status === 409

const userNumber = ({ email }: Delivery) => Number(/\d+/.exec(email)?.[0])

function* checkWire({ requests, deliveries }: Evidence): Generator<string> {
  for (const [key, came] of requests) {
    const delivery = deliveries.get(key)
    if (!delivery) {
      yield `a key on the wire is not in the ledger: ${key}`
      continue
    }
    const about = `${delivery.kind} ${key} of ${delivery.email}`
    if (came.length > 2) yield `${came.length} requests with one key: ${about}`
    if (came.length > delivery.attempts)
      yield `${came.length} requests, ${delivery.attempts} attempts recorded: ${about}`
    const bodies = new Set(came.flatMap(({ sha256 = [] }) => sha256))
    if (bodies.size > 1) yield `${bodies.size} bodies under one key: ${about}`
    if (came.some(({ bytes = delivery.bytes }) => bytes !== delivery.bytes)) yield `a body of another length: ${about}`
    if (came.some(({ userKey }) => !isKeyOf(userKey, userNumber(delivery)))) yield `another user's key: ${about}`
    const [first, second] = came
    if (
      first &&
      second &&
      first.process === second.process &&
      first.process !== sharedSender &&
      second.cameMs < (first.endedMs ?? Number.POSITIVE_INFINITY)
    )
      yield `a process made both attempts at once: ${about}`
  }
}

/** Where nobody was stopped or frozen, a failed attempt is followed by the pause. */
function* checkPauses({ round, requests, deliveries }: Evidence): Generator<string> {
  const { processes, plan } = round
  const calm = ['kill', 'import', 'close receiver', 'refuse', 'throttle']
  if (processes.some(({ befell }) => befell.some((what) => !calm.includes(what)))) return
  if (plan.troubles.some(({ what }) => !calm.includes(what))) return
  for (const [key, [first, second]] of requests) {
    // on a busy machine a process may lose its lease for a moment, and another goes on with what it had
    if (first?.status === undefined || first.endedMs === undefined || first.endedWallMs === undefined) continue
    if (second?.process !== first.process || first.process === sharedSender) continue
    // by the database's clock, which a machine may set forward meanwhile
    const pauseMs = Math.max(second.cameMs - first.endedMs, second.cameWallMs - first.endedWallMs)
    if (pauseMs < Math.max(retryDelayMs, first.retryMs ?? 0) - 2)
      yield `the second attempt came after ${pauseMs.toFixed(0)} ms: ${key} ${JSON.stringify([first, second])}`
    const recorded = deliveries.get(key)?.first_status ?? 0
    if (recorded >= 200 && recorded < 300) yield `sent again after a success: ${key}`
  }
}

function* checkOutcomes({ round, requests, deliveries }: Evidence): Generator<string> {
  for (const [key, delivery] of deliveries) {
    const came = requests.get(key) ?? []
    const about = `${delivery.kind} ${key} of ${delivery.email}`
    const { status, first_maybe_arrived, second_maybe_arrived, attempts } = delivery
    if (status === 'pending') yield `still pending: ${about}`
    if (attempts > 2) yield `${attempts} attempts recorded: ${about}`
    if (status === 'delivered' && !came.some(isSuccess)) yield `delivered, and never answered 2xx: ${about}`
    if (status === 'failed') {
      if (came.some(isSuccess)) yield `failed, and answered 2xx: ${about}`
      if (first_maybe_arrived || second_maybe_arrived || came.some(isOpen))
        yield `failed, and an attempt was left open: ${about}`
      if (attempts < 2) yield `failed after ${attempts} attempts: ${about}`
    }
    if (status === 'unknown') {
      if (!first_maybe_arrived && !second_maybe_arrived) yield `unknown, and no attempt was left open: ${about}`
      if (attempts < 2) yield `unknown after ${attempts} attempts: ${about}`
    }
  }
  // what a server confirmed before it was on disk may be gone: then less is known
  if (round.plan.confirmsEarly && round.kills.postgres > 0) return
  for (const { result, args } of [...round.processes, ...round.settling]) {
    const told = new Map<string, string>()
    for (const line of result.json.filter(({ type, status }) => type === 'delivery' && status !== 'pending')) {
      const delivery = deliveries.get(line.idempotencyKey)
      const final = line.status !== 'unknown' ? line.status : (delivery?.status ?? 'gone')
      if (delivery?.status !== final) yield `told ${line.status}, is ${delivery?.status}: ${line.idempotencyKey}`
      if (told.has(line.idempotencyKey))
        yield `push ${args.join(' ')} told ${told.get(line.idempotencyKey)}, then ${line.status}: ${line.idempotencyKey}`
      told.set(line.idempotencyKey, line.status)
    }
  }
}

function* checkUsers({ users, deliveries, forcedRuns }: Evidence): Generator<string> {
  for (const user of users) {
    const own = [...deliveries.values()].filter(({ user_id }) => user_id === user.id)
    const weekly = own.filter(({ kind }) => kind === 'weekly')
    if (!user.subscribed) {
      if (own.length > 0) yield `deliveries for ${user.email}, who is not subscribed`
      continue
    }
    if (weekly.length === 0) yield `lost: ${user.email} has no weekly delivery`
    // a round that begins on a Sunday may end in the week after
    for (const period of new Set(weekly.map((delivery) => delivery.period))) {
      const week = weekly.filter((delivery) => delivery.period === period)
      const parts = week.map(({ part }) => part).sort()
      const wanted = Array.from({ length: week[0]?.parts ?? 0 }, (_, at) => at + 1)
      if (parts.join() !== wanted.join())
        yield `weekly parts ${parts} of ${wanted.length} of ${user.email} in ${period}`
    }
    const forced = own.filter(({ kind, part }) => kind === 'forced' && part === 1)
    if (forced.length > forcedRuns)
      yield `${forced.length} forced deliveries of ${user.email}, ${forcedRuns} forced runs`
  }
}

const allowedEnds: Record<string, (number | string)[]> = {
  kill: ['SIGKILL'],
  // by the signal itself where it comes before a command listens for it: nothing is begun by then
  stop: [0, 1, 143, 'SIGTERM'],
  'stop twice': [0, 1, 143, 'SIGTERM'],
}

function* checkProcess({ result, befell, args }: RanProcess, databaseTrouble: boolean): Generator<string> {
  const ends = new Set([0, 1, ...befell.flatMap((what) => allowedEnds[what] ?? [])])
  // a database that is away when a command begins is not waited for
  if (databaseTrouble && !/Database:/.test(result.stderr)) ends.add(3)
  const end = result.code ?? result.signal ?? ''
  if (!ends.has(end)) yield `push ${args.join(' ')} ended with ${end}: ${result.stderr.slice(-400)}`
}

/** contract 3: a summary says what its lines say, and the exit code what the summary says. */
function* checkSummary({ result, befell, args }: RanProcess, databaseTrouble: boolean): Generator<string> {
  const summary = result.json.find(({ type }) => type === 'summary')
  const about = `push ${args.join(' ')}`
  if (!summary) {
    if (befell.length === 0 && !databaseTrouble) yield `${about} told no summary: ${result.stderr.slice(-400)}`
    return
  }
  const lines = result.json.filter(({ type }) => type === 'delivery')
  const count = (status: string) => lines.filter((line) => line.status === status).length
  const sum = (name: string) => lines.reduce((all, line) => all + line[name], 0)
  const named = new Set(result.json.flatMap(({ user }) => user ?? [])).size
  const wanted = {
    ...{ deliveries: lines.length, delivered: count('delivered'), failed: count('failed'), unknown: count('unknown') },
    ...{ leads: sum('leads'), bytes: sum('bytes') },
  }
  for (const [name, value] of Object.entries(wanted))
    if (summary[name] !== value) yield `${about}: ${name} is ${summary[name]} in the summary, ${value} in its lines`
  if (summary.users < named) yield `${about}: users is ${summary.users}, and ${named} are named`
  const failures = summary.failed + summary.unknown
  const left = count('pending') + summary.owed + summary.elsewhere
  if (result.code === 0 && failures > 0) yield `${about} ended with 0, and ${failures} failed`
  if (result.code === 0 && args[0] === '--all' && count('pending') + summary.owed > 0)
    yield `${about} ended with 0, and ${count('pending')} are pending: ${JSON.stringify(summary)}`
  if (result.code === 1 && failures + left === 0 && !/receiver is down/.test(result.stderr))
    yield `${about} ended with 1, and nothing failed: ${result.stderr.slice(-400)}`
}

/** After it nothing is left, and everybody has a place in its summary. */
function* checkLast({ round, users }: Evidence): Generator<string> {
  const { result, args } = round.settling.at(-1) as RanProcess
  const summary = result.json.find(({ type }) => type === 'summary')
  if (summary?.owed !== 0 || summary?.elsewhere !== 0) yield `the last push left something: ${JSON.stringify(summary)}`
  if (args[0] !== '--all') return
  const weekly = result.json.filter(({ type, kind }) => type === 'delivery' && kind === 'weekly')
  const served = summary.already + new Set(weekly.map(({ user }) => user)).size
  const subscribed = users.filter((user) => user.subscribed).length
  if (served !== subscribed)
    yield `${served} users in the last summary, ${subscribed} are subscribed: ${JSON.stringify(summary)}`
}

function* checkImport({ what, killedAfterMs, result }: RanImport, databaseTrouble: boolean): Generator<string> {
  const end = result.code ?? result.signal
  const about = `${what} import ended with ${end}: ${result.stderr.slice(-400)}`
  if (end === 'SIGKILL' && killedAfterMs !== undefined) return
  if (end !== 0) {
    if (!(databaseTrouble && end === 3 && /database/.test(result.stderr))) yield about
    return
  }
  const { read, inserted, rejected, repeated } = result.json.find(({ type }) => type === 'summary') ?? {}
  const all = what === 'users' ? usersMax : 120
  if (read !== all || inserted + rejected + repeated !== 0) yield `${about} ${result.stdout.slice(-400)}`
}

/**
 * contract 4.12: while everybody is refused a process makes at most so many first attempts as tell that it is down, and what was
 * under way; no delivery of more users than that has both its attempts in it.
 */
function* checkOutage({ round, requests }: Evidence): Generator<string> {
  if (round.plan.outage === '0s') return
  const lost = [...requests.values()].filter((came) => came.length > 1 && came.every(({ refusing }) => refusing)).length
  const allowed = round.processes.reduce((sum, { concurrency }) => sum + alikeInARow + concurrency, 0)
  if (lost > allowed) yield `${lost} deliveries had both attempts while everybody was refused, ${allowed} may`
}

/** Where nobody died and nothing broke, each recorded attempt was made. */
function* checkAttempts({ round, requests, deliveries }: Evidence): Generator<string> {
  const calm = ['import', 'refuse', 'throttle']
  if (round.plan.troubles.some(({ what }) => !calm.includes(what))) return
  for (const [key, { attempts, first_error }] of deliveries) {
    const came = requests.get(key)?.length ?? 0
    if (came !== attempts) yield `${attempts} attempts recorded, ${came} came (${first_error}): ${key}`
  }
}

function* checkProcesses({ round }: Evidence): Generator<string> {
  const databaseTrouble = round.plan.troubles.some(({ what }) => /postgres|session/.test(what))
  for (const ran of round.processes) {
    yield* checkProcess(ran, databaseTrouble)
    yield* checkSummary(ran, databaseTrouble)
  }
  for (const ran of round.settling) {
    yield* checkProcess(ran, false)
    yield* checkSummary(ran, false)
  }
  for (const ran of round.imports) yield* checkImport(ran, databaseTrouble)
  // as many as are being made, and as many again that are recorded ahead
  for (const { concurrency, underWay } of round.killed) {
    if (underWay > 2 * concurrency)
      yield `${underWay} attempts under way when killed, at a concurrency of ${concurrency}`
  }
}

/** Every violation, in a sentence. */
export function checkRound(evidence: Evidence): string[] {
  const checks = [
    ...[checkWire, checkPauses, checkAttempts, checkOutcomes, checkOutage, checkUsers, checkProcesses, checkLast],
  ]
  return checks.flatMap((check) => [...check(evidence)])
}
