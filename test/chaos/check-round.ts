/** What must hold after a round, whatever happened in it (contract 4.5 to 4.8): the receiver's log against the ledger. */
import { readFileSync } from 'node:fs'
import { type Selectable, sql } from 'kysely'
import type { Database } from '../../src/db/open.ts'
import type { Tables } from '../../src/db/tables.ts'
import type { Logged } from './receiver.ts'
import { type RanProcess, type RanRound, retryDelayMs } from './round.ts'

export interface Request {
  id: number
  key: string
  userKey: string
  process: number
  cameMs: number
  sha256?: string
  bytes?: number
  /** When it was answered, or the sender left. */
  endedMs?: number
  /** Of an answer that was sent whole. */
  status?: number
}

type Delivery = Selectable<Tables['deliveries']> & { email: string; receiver_key: string }

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
  for (const line of text.split('\n').filter(Boolean)) {
    const logged = JSON.parse(line) as Logged
    if (logged.event === 'came') {
      const { id, key, userKey, process, atMs } = logged
      const request: Request = { id, key, userKey, process, cameMs: atMs }
      byId.set(id, request)
      requests.set(key, [...(requests.get(key) ?? []), request])
      continue
    }
    const request = byId.get(logged.id)
    if (!request) continue
    if (logged.event === 'read') Object.assign(request, { sha256: logged.sha256, bytes: logged.bytes })
    else {
      request.endedMs = logged.atMs
      if (logged.event === 'answered' && logged.how === 'whole') request.status = logged.status
    }
  }
  return requests
}

export async function readEvidence(db: Database, round: RanRound, logPath: string): Promise<Evidence> {
  const deliveries = await db
    .selectFrom('deliveries')
    .innerJoin('users', 'users.id', 'deliveries.user_id')
    .selectAll('deliveries')
    .select(['users.email', 'users.receiver_key'])
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
    if (came.some(({ userKey }) => userKey !== delivery.receiver_key)) yield `another user's key: ${about}`
    const [first, second] = came
    if (
      first &&
      second &&
      first.process === second.process &&
      second.cameMs < (first.endedMs ?? Number.POSITIVE_INFINITY)
    )
      yield `a process made both attempts at once: ${about}`
  }
}

/** Where nobody was stopped or frozen, a failed attempt is followed by the pause. */
function* checkPauses({ round, requests, deliveries }: Evidence): Generator<string> {
  const { processes, plan } = round
  const calm = ['kill', 'import', 'close receiver']
  if (processes.some(({ befell }) => befell.some((what) => !calm.includes(what)))) return
  if (plan.troubles.some(({ what }) => !calm.includes(what))) return
  for (const [key, [first, second]] of requests) {
    // on a busy machine a process may lose its lease for a moment, and another goes on with what it had
    if (first?.status === undefined || first.endedMs === undefined || second?.process !== first.process) continue
    const pauseMs = second.cameMs - first.endedMs
    if (pauseMs < retryDelayMs - 2) yield `the second attempt came after ${pauseMs.toFixed(0)} ms: ${key}`
    const recorded = deliveries.get(key)?.first_status ?? 0
    if (recorded >= 200 && recorded < 300) yield `sent again after a success: ${key}`
  }
}

function* checkOutcomes({ round, requests, deliveries }: Evidence): Generator<string> {
  for (const [key, delivery] of deliveries) {
    const came = requests.get(key) ?? []
    const about = `${delivery.kind} ${key} of ${delivery.email}`
    const { status, first_open, second_open, attempts } = delivery
    if (status === 'pending') yield `still pending: ${about}`
    if (attempts > 2) yield `${attempts} attempts recorded: ${about}`
    if (status === 'delivered' && !came.some(isSuccess)) yield `delivered, and never answered 2xx: ${about}`
    if (status === 'failed') {
      if (came.some(isSuccess)) yield `failed, and answered 2xx: ${about}`
      if (first_open || second_open || came.some(isOpen)) yield `failed, and an attempt was left open: ${about}`
      if (attempts < 2) yield `failed after ${attempts} attempts: ${about}`
    }
    if (status === 'unknown') {
      if (!first_open && !second_open) yield `unknown, and no attempt was left open: ${about}`
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
    const parts = weekly.map(({ part }) => part).sort()
    const wanted = Array.from({ length: weekly[0]?.parts ?? 0 }, (_, at) => at + 1)
    if (parts.join() !== wanted.join()) yield `weekly parts ${parts} of ${wanted.length} of ${user.email}`
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

function* checkProcesses({ round }: Evidence): Generator<string> {
  const databaseTrouble = round.plan.troubles.some(({ what }) => /postgres|session/.test(what))
  for (const ran of round.processes) yield* checkProcess(ran, databaseTrouble)
  for (const ran of round.settling) yield* checkProcess(ran, false)
  // as many as are being made, and as many again that are recorded ahead
  for (const { concurrency, underWay } of round.killed) {
    if (underWay > 2 * concurrency)
      yield `${underWay} attempts under way when killed, at a concurrency of ${concurrency}`
  }
}

/** Every violation, in a sentence. */
export function checkRound(evidence: Evidence): string[] {
  const checks = [checkWire, checkPauses, checkOutcomes, checkUsers, checkProcesses]
  return checks.flatMap((check) => [...check(evidence)])
}
