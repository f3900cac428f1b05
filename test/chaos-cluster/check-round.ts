/**
 * What must hold after a round (contract 4.5 to 4.8). A synchronous failover loses nothing. An asynchronous one may lose what was
 * confirmed: then nobody gets a second weekly key or another body, no process crashes, and no push ends with 0 while somebody is owed.
 */
import { createHash } from 'node:crypto'
import { weeklyKey } from '../../src/deliveries/keys.ts'
import type { Request } from '../chaos/check-round.ts'
import type { ReceivedHookCall } from '../support/hook-receiver.ts'
import { hooked, userEmail } from './listings.ts'
import type { Ran, RanRound } from './round.ts'
import { query } from './server.ts'

interface Delivery {
  key: string
  email: string
  kind: string
  status: string
  attempts: number
  part: number
  parts: number
}

export interface Evidence {
  ran: RanRound
  deliveries: Map<string, Delivery>
  /** E-mail addresses. */
  subscribed: string[]
  /** Hashes of the hrefs of all listings, in hexadecimal. */
  listed: Set<string>
  calls: readonly ReceivedHookCall[]
}

export async function readEvidence(url: string, ran: RanRound, calls: readonly ReceivedHookCall[]): Promise<Evidence> {
  const rows = await query(
    url,
    `select idempotency_key as key, email, kind, status, attempts, part, parts
     from deliveries d join users u on u.id = d.user_id`,
  )
  const users = await query(url, 'select email from users where subscribed')
  const leads = await query(url, "select encode(href_sha256, 'hex') as hash from leads")
  return {
    ran,
    deliveries: new Map((rows as Delivery[]).map((row) => [row.key, row])),
    subscribed: users.map(({ email }) => email),
    listed: new Set(leads.map(({ hash }) => hash)),
    calls,
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const weekly = /^(\d{4}-W\d\d)-(\d+)-/
const emailOf = ([request]: Request[]) => userEmail(Number(request?.userKey.replace('key-', '')))

function* checkWire({ ran, deliveries }: Evidence): Generator<string> {
  const others = new Map<string, number>()
  for (const [key, came] of ran.requests) {
    const email = emailOf(came)
    const [, period, part] = weekly.exec(key) ?? []
    if (period === undefined) others.set(email, (others.get(email) ?? 0) + 1)
    else if (key !== weeklyKey('leadpush', email, period, Number(part))) yield `a second weekly key of ${email}: ${key}`
    const bodies = new Set(came.flatMap(({ sha256 = [] }) => sha256)).size
    if (bodies > 1) yield `${bodies} bodies under one key: ${key} of ${email}`
    if (ran.plan.kind === 'asynchronous') continue
    const delivery = deliveries.get(key)
    if (!delivery) yield `a key on the wire is not in the ledger: ${key} of ${email}`
    if (came.length > Math.min(2, delivery?.attempts ?? 2))
      yield `${came.length} requests, ${delivery?.attempts} attempts recorded: ${key} of ${email}`
  }
  if (ran.plan.kind === 'asynchronous') return
  for (const [email, keys] of others) if (keys > 1) yield `${keys} keys besides the weekly one: ${email}`
  for (const at of ran.subscribed)
    if (!others.has(userEmail(at))) yield `subscribed with 200, and no push went out: ${userEmail(at)}`
}

function* checkServed({ ran, deliveries, subscribed }: Evidence): Generator<string> {
  const byUser = new Map<string, Delivery[]>()
  const sent = new Set<string>()
  for (const [key, came] of ran.requests) if (weekly.test(key)) sent.add(emailOf(came))
  for (const delivery of deliveries.values()) {
    const { key, email, kind, status } = delivery
    if (kind === 'weekly') byUser.set(email, [...(byUser.get(email) ?? []), delivery])
    if (status === 'pending') yield `still pending: ${kind} ${key} of ${email}`
    if (status !== 'delivered' && ran.plan.kind === 'synchronous') yield `${status}: ${kind} ${key} of ${email}`
    const answered = ran.requests.get(key)?.some((request) => request.status === 200)
    if (status === 'delivered' && !answered) yield `delivered, and never answered: ${kind} ${key} of ${email}`
  }
  for (const email of subscribed) {
    const parts = byUser.get(email) ?? []
    if (parts.length === 0) yield `lost: no weekly delivery of ${email}`
    else if (parts.length !== parts[0]?.parts) yield `${parts.length} of ${parts[0]?.parts} parts of ${email}`
    else if (!sent.has(email)) yield `lost: nothing ever went out to ${email}`
  }
}

const faults = /fault of leadpush|_(fkey|pkey|key|check|idx)\b|violates|duplicate key|deadlock/i

function* checkEnds({ ran }: Evidence): Generator<string> {
  const { kind } = ran.plan
  const allowed = kind === 'synchronous' ? [0] : [0, 1, 3]
  const check = function* ({ args, by, result }: Pick<Ran, 'args' | 'by' | 'result'>, ends: number[]) {
    const about = `${args.slice(0, 2).join(' ')} by ${by}`
    const end = result.code ?? result.signal
    if (!ends.includes(result.code ?? -1)) yield `${about} ended with ${end}: ${result.stderr.slice(-800)}`
    const [fault] = faults.exec(result.stderr + result.stdout) ?? []
    if (fault) yield `${about} told of "${fault}": ${result.stderr.slice(-1_500)}`
  }
  for (const one of [...ran.pushes, ...ran.beside]) yield* check(one, allowed)
  for (const one of ran.settling) yield* check(one, kind === 'synchronous' ? [0] : [0, 1])
  yield* check({ args: ['serve'], by: 'front', result: ran.serve }, [0])
}

/** A last push that ends with 0 leaves nobody owed, unless the database lost records after that. */
function* checkLeft({ ran }: Evidence): Generator<string> {
  const last = ran.pushes.toSorted((a, b) => a.endedMs - b.endedMs).at(-1)
  if (last?.result.code !== 0 || ran.ridden.some(({ backMs }) => backMs > last.endedMs)) return
  const summary = last.result.json.find(({ type }) => type === 'summary')
  const { pending, owed } = ran.left
  if (summary?.elsewhere === 0 && pending + owed > 0)
    yield `the last push ended with 0, and ${owed} are owed, ${pending} pending: ${JSON.stringify(summary)}`
}

function* checkTold({ ran, deliveries }: Evidence): Generator<string> {
  if (ran.plan.kind === 'asynchronous') return
  for (const { args, result } of [...ran.pushes, ...ran.settling]) {
    const told = result.json.filter(({ type, status }) => type === 'delivery' && status !== 'pending')
    for (const { idempotencyKey: key, status } of told) {
      const is = deliveries.get(key)?.status
      if (is !== status) yield `${args.join(' ')} told ${status}, is ${is}: ${key}`
    }
  }
}

/** Each new listing goes to each hook once. */
function* checkBeside({ ran, listed, calls }: Evidence): Generator<string> {
  if (ran.plan.kind === 'asynchronous') return
  for (const href of ran.forgotten) if (listed.has(sha256(href))) yield `erased, and there: ${href}`
  const ids = new Map<string, Set<string>>()
  for (const { path, json, webhookId } of calls.filter(({ method }) => method === 'POST'))
    ids.set(`${path} ${json.href}`, (ids.get(`${path} ${json.href}`) ?? new Set()).add(webhookId))
  for (const href of ran.imported) {
    if (!listed.has(sha256(href))) yield `imported, and not there: ${href}`
    for (let at = 0; at < hooked; at++) {
      const times = ids.get(`/hooked-${at} ${href}`)?.size ?? 0
      if (times !== 1) yield `${times} triggers of ${href} to hook ${at}`
    }
  }
}

/** Every violation, in a sentence. */
export function checkRound(evidence: Evidence): string[] {
  const checks = [checkWire, checkServed, checkEnds, checkLeft, checkTold, checkBeside]
  return checks.flatMap((check) => [...check(evidence)])
}
