/** A receiver in memory that is correct apart from the faults that a test gives it, which a probe must name. */
import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { neverValidReceiverKey } from '../../src/base/limits.ts'
import { listen } from './sockets.ts'

export interface Faults {
  erasesOnNull?: true
  /** Applies every delivery, as if there were no keys. */
  ignoresKey?: true
  /** Keeps the first body of a key, and accepts another body with the same key without applying it. */
  ignoresOtherBody?: true
  answersBeforeReading?: true
  /** Answers with counts, and keeps nothing. */
  keepsNothing?: true
  followsNoLimit?: true
  bodyBytesMax?: number
  refusesRepeats?: true
  takesAnyUserKey?: true
  knownKey?: string
  takesAnything?: true
  refusesNull?: true
  refusesEmpty?: true
  failsAtOnce?: true
  closesConnections?: true
  tellsNoCounts?: true
  tellsAllAsChanged?: true
  redirects?: true
  hangs?: true
  throttles?: true
}

type Lead = Record<string, unknown>
interface Answer {
  status: number
  msg: string
  counts?: { new: number; changed: number; unchanged: number }
}

export async function startProbedReceiver(faults: Faults = {}) {
  const leads = new Map<string, Lead>()
  const keys = new Map<string, string>()
  const bodies: string[] = []
  let underWay = 0

  const apply = (fsbos: Lead[]): Answer => {
    const counts = { new: 0, changed: 0, unchanged: 0 }
    for (const lead of fsbos) {
      const was = leads.get(String(lead.href))
      const given = Object.entries(lead).filter(([, value]) => faults.erasesOnNull || value !== null)
      const now = { ...(faults.erasesOnNull ? {} : was), ...Object.fromEntries(given) }
      if (!faults.keepsNothing) leads.set(String(lead.href), now)
      const order = (one: object) => JSON.stringify(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      const isChanged = was !== undefined && (faults.tellsAllAsChanged || order(was) !== order(now))
      counts[was === undefined ? 'new' : isChanged ? 'changed' : 'unchanged']++
    }
    return { status: 200, msg: 'Taken.', counts }
  }

  const judge = (headers: http.IncomingHttpHeaders, text: string): Answer => {
    if (faults.takesAnything) return { status: 200, msg: 'Taken.' }
    if (headers['content-encoding'] !== undefined) return { status: 415, msg: 'No encodings.' }
    const key = headers['x-service-api-key']
    const isWrong = faults.knownKey === undefined ? key === neverValidReceiverKey : key !== faults.knownKey
    if (!faults.takesAnyUserKey && (key === undefined || isWrong)) return { status: 401, msg: `No user has ${key}.` }
    if (!headers['x-idempotency-key']) return { status: 400, msg: 'No key.' }
    if (!faults.followsNoLimit && text.length > (faults.bodyBytesMax ?? 5_000_000))
      return { status: 413, msg: 'Too long.' }
    let body: { fsbos: Lead[] }
    try {
      body = JSON.parse(text)
    } catch {
      return { status: 400, msg: 'No JSON.' }
    }
    const { fsbos } = body
    if (fsbos.some(({ href }) => href === undefined)) return { status: 422, msg: 'No href.' }
    if (faults.refusesNull && fsbos.some((lead) => Object.values(lead).includes(null)))
      return { status: 422, msg: 'Null.' }
    if (faults.refusesEmpty && fsbos.length === 0) return { status: 422, msg: 'Empty.' }
    const id = String(headers['x-idempotency-key'])
    const before = faults.ignoresKey ? undefined : keys.get(id)
    if (before === undefined) {
      keys.set(id, text)
      return apply(fsbos)
    }
    if (faults.refusesRepeats) return { status: 409, msg: 'Seen.' }
    if (before !== text && !faults.ignoresOtherBody) return { status: 422, msg: 'Another body.' }
    return { status: 200, msg: 'Seen.', counts: { new: 0, changed: 0, unchanged: fsbos.length } }
  }

  const server = http.createServer(async (request, response) => {
    const send = ({ status, msg, counts }: Answer) => {
      const text = JSON.stringify({ ok: status === 200, msg, ...(faults.tellsNoCounts ? {} : counts) })
      if (faults.closesConnections) response.setHeader('Connection', 'close')
      if (faults.redirects) response.setHeader('Location', '/elsewhere')
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(text)
    }
    if (faults.hangs) return
    if (faults.answersBeforeReading) send({ status: 200, msg: 'Taken.' })
    const isBusy = ++underWay > 4 && faults.failsAtOnce
    if (faults.failsAtOnce) await sleep(20)
    const chunks: Buffer[] = []
    try {
      for await (const chunk of request) chunks.push(chunk)
    } catch {
      return
    } finally {
      underWay--
    }
    const text = Buffer.concat(chunks).toString()
    bodies.push(text.slice(0, 2_000))
    if (faults.answersBeforeReading) return
    if (faults.redirects) send({ status: 308, msg: 'Elsewhere.' })
    else if (isBusy) send({ status: 500, msg: 'Out of connections.' })
    else if (faults.throttles && bodies.length % 3 === 0) send({ status: 429, msg: 'Slow down.' })
    else send(judge(request.headers, text))
  })
  const listening = await listen(server)
  return { url: `http://127.0.0.1:${listening.port}/leads`, bodies, close: () => listening.close() }
}
