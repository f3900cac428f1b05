/** The promises of every push, in all circumstances (contract 4.4, 4.5, 4.7, 4.12, 4.14), checked on the result of a simulated run. */

import { LeadpushError } from '../../src/base/errors.ts'
import {
  alikeInARow,
  alikeMin,
  comparedLeadsMin,
  outageLookMs,
  outagePauseMs,
  retryAfterMsMax,
  userFall,
} from '../../src/base/limits.ts'
import { asksForLess } from '../../src/push/receiver/pace.ts'
import { emailOf, epochMs, type Outcome, period, periodBefore, receiverUrl } from './carry-out.ts'
import { checkIsolation, checkPatience } from './isolation.ts'
import { claimKey, type DeliveryRow, type RunRow } from './ledger-state.ts'
import type { SimulatedProcess } from './process.ts'
import type { OnWire } from './receiver.ts'
import { checkSummary, checkTold } from './said-is-so.ts'

/** The promises that were broken, as sentences; none: all is well. */
export function findBroken(outcome: Outcome): string[] {
  const broken: string[] = []
  const say = (text: string) => {
    if (broken.length < 20) broken.push(text)
  }
  const unended = outcome.processes.filter(({ isOver }) => !isOver)
  if (outcome.isEndless) {
    say(`a push never ends: ${unended.map(({ nth, request }) => `${nth} ${request.what}`).join(', ')}`)
    return broken
  }
  const facts = new Facts(outcome)
  checkWire(facts, say)
  for (const process of outcome.processes) {
    checkEnd(facts, process, say)
    checkSummary(facts, process, say)
    if (heeds(process)) checkReceiver(facts, process, say)
    if (heeds(process)) checkPatience(facts, process, say)
    checkPace(facts, process, say)
    checkPunctuality(facts, process, say)
    checkDoubtful(facts, process, say)
  }
  checkCompression(facts, say)
  checkKnownTrouble(facts, say)
  checkTries(facts, say)
  if (!outcome.lost) checkLedger(facts, say)
  checkCalm(facts, say)
  checkIsolation(facts, say)
  checkTold(facts, say)
  return broken
}

export type Say = (text: string) => void

/** A push that takes trouble of the receiver for its own. */
const heeds = ({ request, accept }: SimulatedProcess) => request.what !== 'user' && !accept

export class Facts {
  readonly outcome: Outcome
  readonly byKey = new Map<string, OnWire[]>()
  readonly byPush = new Map<number, OnWire[]>()
  /** Nothing but the receiver was in trouble. */
  readonly isSmooth: boolean

  constructor(outcome: Outcome) {
    this.outcome = outcome
    for (const attempt of outcome.receiver.attempts) {
      put(this.byKey, attempt.key, attempt)
      put(this.byPush, attempt.push, attempt)
    }
    this.isSmooth = !outcome.scenario.events.some(({ is }) => is === 'away' || is === 'lose' || is === 'freeze')
  }
}

function put<Key, Value>(groups: Map<Key, Value[]>, key: Key, value: Value): void {
  const group = groups.get(key)
  if (group) group.push(value)
  else groups.set(key, [value])
}

/** At most two attempts a key, with one body; one weekly delivery a user. */
function checkWire({ outcome, byKey }: Facts, say: Say): void {
  if (outcome.lost) return
  for (const [key, [first, second, ...more]] of byKey) {
    if (more.length > 0) say(`${key} was ${2 + more.length} times on the wire`)
    if (first === undefined || second === undefined) continue
    if (first.body !== second.body) say(`${key} went out with two bodies`)
    const was415 = first.told?.kind === 'answer' && first.told.status === 415
    // of a 415 that was not recorded by then the second attempt knows nothing
    const isKnown = was415 && !outcome.model.takenUnheard.has(key)
    if (second.gzip !== (first.gzip && !isKnown)) say(`${key} changed its encoding`)
    if (first.toldMs === undefined && outcome.processes[first.push]?.end?.is === 'ended')
      say(`${key} was tried again before its first attempt had ended`)
  }
  const groups = new Map<string, DeliveryRow[]>()
  for (const delivery of outcome.model.state.deliveries.values())
    if (delivery.part === 1) put(groups, `${delivery.kind} ${delivery.userId}`, delivery)
  const pushes = outcome.processes.map(({ request }) => request)
  const failed = pushes.filter((it) => it.what === 'failed').length
  const runs = [...outcome.model.state.runs.values()]
  const forces = runs.filter(({ command }) => command === 'force').sort((a, b) => a.startedAt - b.startedAt)
  // one that begins before another came to its end goes on with that
  const isAnew = ({ startedAt, resumable }: RunRow, before: RunRow | undefined) =>
    !resumable ||
    before === undefined ||
    runs.some((run) => run.cameToEnd && (run.endedAt ?? 0) >= before.startedAt && (run.endedAt ?? 0) <= startedAt)
  const forced =
    failed +
    forces.filter((run, at) =>
      isAnew(
        run,
        forces.slice(0, at).findLast((it) => it.resumable),
      ),
    ).length
  const { events } = outcome.scenario
  for (const [group, deliveries] of groups) {
    const [kind, userId] = group.split(' ')
    const single = pushes.filter((it) => it.what === 'user' && it.user.id === Number(userId) && !it.owedOnly).length
    const owed = events.filter((it) => it.is === 'subscribe' && it.user + 1 === Number(userId)).length
    const most = { weekly: 1, forced, single, subscription: owed }[kind as DeliveryRow['kind']]
    if (deliveries.length > most) say(`user ${userId} got ${deliveries.length} ${kind} deliveries instead of ${most}`)
  }
}

function checkEnd({ outcome, byPush, isSmooth }: Facts, process: SimulatedProcess, say: Say): void {
  const { nth, end, request, lines, settings, wasStopped } = process
  const isCalm = nth >= outcome.pushes
  if (end?.is === 'failed') {
    const { error } = end
    if (!(error instanceof LeadpushError && error.code === 'database')) {
      say(`push ${nth} fails: ${error instanceof Error ? error.stack : error}`)
      return
    }
    const isAway = outcome.scenario.events.some(
      (event) => (event.is === 'away' || event.is === 'lose') && event.forMs >= settings.awayMs / 2,
    )
    if (!outcome.lost && !isAway) say(`push ${nth} fails although the database was there: ${error.message}`)
    if (isCalm && !outcome.lost) say('a calm push fails')
  }
  if (end?.is !== 'ended') return
  if (!process.hasRecordedEnd) say(`push ${nth} is over, and its end is not recorded`)
  const { ok, toldBefore, summary, cameToEnd } = end.end
  if (process.leftUnderWay.length > 0 && !outcome.lost)
    say(`push ${nth} ends and leaves ${process.leftUnderWay.join()} under way`)
  const statuses = lines.flatMap((line) => (line.type === 'delivery' ? [line.status] : []))
  const bad = statuses.filter((status) => status !== 'delivered').length
  const skips = lines.filter((line) => line.type === 'skip')
  if (ok && !toldBefore && bad > 0 && request.what !== 'resume')
    say(`push ${nth} is well although deliveries are not delivered`)
  if (ok && wasStopped && !cameToEnd && request.what === 'all') say(`push ${nth} is well although it was stopped`)
  // alone and without trouble, it looks for new users until nobody is left
  const isAlone =
    outcome.pushes === 1 &&
    isSmooth &&
    !outcome.happened.some(({ atMs, event }) => event.is !== 'erase' && atMs > (process.endMs ?? 0) - 500)
  const isReasoned =
    bad > 0 ||
    wasStopped ||
    skips.length > 0 ||
    (summary.owed > 0 && !isAlone) ||
    process.notes.some((note) => /giving up|slowing/.test(note))
  if (!ok && !isReasoned) say(`push ${nth} is not well, and says nothing of why`)
  const first = byPush.get(nth)?.length ?? 0
  if (request.what === 'user' && ok && first === 0 && skips.length === 0 && !request.owedOnly)
    say(`push ${nth} of one user says nothing`)
}

type Sign = { is: 'well' | 'down' | 'empty' | 'refuses'; status: number | undefined }

function signOf({ told, gzip }: OnWire): Sign {
  if (told?.kind !== 'answer' || told.status >= 500) return { is: 'down', status: undefined }
  if (told.status < 300) return { is: told.contentType ? 'empty' : 'well', status: undefined }
  return [408, 409, 425, 429].includes(told.status) || (gzip && told.status === 415)
    ? { is: 'well', status: undefined }
    : { is: 'refuses', status: told.status }
}

const inOrderTold = (attempts: readonly OnWire[]) =>
  attempts.filter(({ toldMs }) => toldMs !== undefined).sort((a, b) => (a.toldMs as number) - (b.toldMs as number))

const isTaken = (told: OnWire['told']) => told?.kind === 'answer' && told.status < 300 && !told.contentType

/** Until another answer at most 20 first attempts; in an outage one attempt at a time. */
function checkReceiver(facts: Facts, process: SimulatedProcess, say: Say): void {
  const { byPush, outcome } = facts
  const { nth, settings } = process
  const own = byPush.get(nth) ?? []
  const told = inOrderTold(own)
  // a success of another push is an answer of another kind too, if it came since the last one that counted; the statements that tell and
  // read it take some milliseconds
  const ofStatementsMs = 15
  const isWellElsewhere = (sinceMs: number, atMs: number) =>
    outcome.receiver.attempts.some(
      ({ push, told: answer, toldMs = Infinity }) =>
        push !== nth && isTaken(answer) && toldMs + ofStatementsMs > sinceMs && toldMs < atMs,
    )
  let [begun, begunMax, sinceMs] = [0, alikeInARow, told[0]?.toldMs ?? Infinity]
  for (const attempt of own) {
    const known = told.filter(({ toldMs }) => (toldMs as number) < attempt.atMs).map(signOf)
    const [kind] = known
    const isLookedFor =
      kind === undefined ||
      kind.is === 'refuses' ||
      kind.is === 'empty' ||
      (kind.is === 'down' && settings.outageMs > 0)
    const isAlike = known.every(({ is, status }) => is === kind?.is && status === kind.status)
    if (!isAlike || !isLookedFor) break
    // then tries come one by one
    if (kind?.is === 'down' && known.length >= alikeInARow) break
    if (attempt.nth === 1) begun++
    if (begun > begunMax) {
      if (!isWellElsewhere(sinceMs, attempt.atMs)) {
        say(`push ${nth} makes ${begun} first attempts before another answer`)
        return
      }
      begunMax += alikeInARow
      sinceMs = attempt.atMs
    }
    const provenMs = told.filter((it) => it.nth === 1)[alikeMin - 1]?.toldMs ?? Number.POSITIVE_INFINITY
    if (kind?.is !== 'down' || provenMs >= attempt.atMs || outcome.lost) continue
    const seconds = own.filter((it) => it.atMs > provenMs && it.atMs <= attempt.atMs && it.nth === 2).length
    const hours = (attempt.atMs - process.startMs) / 3_600_000
    // where another push sees the end of the outage, this one finds out by an attempt of its own
    const isEnd = (it: OnWire) => it.push !== nth && (it.toldMs ?? 0) > provenMs && signOf(it).is !== 'down'
    const ends = () => outcome.receiver.attempts.filter((it) => isEnd(it) && it.atMs < attempt.atMs).length
    if (seconds > 1 + hours && seconds > 1 + hours + ends()) {
      say(`push ${nth} makes second attempts in an outage`)
      return
    }
  }
  // where the others are served, those who are left fail alike
  // an answer to another push ends the outage for all
  const ends = outcome.receiver.attempts.filter((it) => it.push !== nth && signOf(it).is !== 'down')
  if (outcome.scenario.receiver.every(({ manner }) => manner.is !== 'fails for'))
    checkOutage(own, inOrderTold([...own, ...ends]), process, say)
}

/** If nothing but answers that show nothing came, however the push ended, its deliveries are doubtful until they are made anew. */
function checkDoubtful({ byPush, outcome }: Facts, { nth, end, accept }: SimulatedProcess, say: Say): void {
  const { model, processes, lost } = outcome
  const told = inOrderTold(byPush.get(nth) ?? [])
  const isPaged = told.length >= alikeMin && told.every((attempt) => signOf(attempt).is === 'empty')
  if (!isPaged || end?.is !== 'ended' || lost || accept || processes.some((it) => it.accept)) return
  for (const { key } of told)
    if (model.state.deliveries.get(key)?.doubtful === false) say(`push ${nth} leaves ${key} delivered without doubt`)
}

/** Once 20 first attempts in a row got no answer below 500, the next ones come one by one, 10 s apart at least. */
function checkOutage(
  own: readonly OnWire[],
  told: readonly OnWire[],
  { nth, settings }: SimulatedProcess,
  say: Say,
): void {
  if (settings.outageMs === 0) return
  const known: { atMs: number; since: number | undefined }[] = []
  let [alike, firsts] = [0, 0]
  let since: number | undefined
  for (const attempt of told) {
    const isDown = signOf(attempt).is === 'down'
    alike = isDown ? alike + 1 : 0
    firsts = isDown ? firsts + Number(attempt.nth === 1) : 0
    // second attempts show less: twice as many are surely enough, with so many first ones
    if (alike >= 2 * alikeInARow && firsts >= alikeInARow) since ??= attempt.toldMs
    if (alike === 0) since = undefined
    known.push({ atMs: attempt.toldMs as number, since })
  }
  let last: number | undefined
  for (const attempt of own) {
    const down = known.findLast(({ atMs }) => atMs < attempt.atMs)?.since
    if (down === undefined || attempt.atMs < down + 1_000) {
      last = undefined
      continue
    }
    if (last !== undefined && attempt.atMs - last < outagePauseMs / 2) {
      say(`push ${nth} makes attempts ${attempt.atMs - last} ms apart in an outage`)
      return
    }
    last = attempt.atMs
  }
}

/** No attempt begins within a pause that the receiver asked for. */
function checkPace({ byPush, isSmooth }: Facts, { nth, request, settings }: SimulatedProcess, say: Say): void {
  if (request.what === 'user' || !isSmooth) return
  const own = byPush.get(nth) ?? []
  for (const { told, toldMs } of own) {
    if (told?.kind !== 'answer' || toldMs === undefined) continue
    const retryAfterMs = told.retryAfter === undefined ? null : Number(told.retryAfter) * 1_000
    if (!asksForLess({ httpStatus: told.status, retryAfterMs })) continue
    const untilMs = toldMs + Math.min(retryAfterMs ?? settings.retryDelayMs, retryAfterMsMax)
    const early = own.find(({ atMs }) => atMs > toldMs + 50 && atMs < untilMs - 1)
    if (early) {
      say(`push ${nth} begins an attempt ${untilMs - early.atMs} ms before a pause is over`)
      return
    }
  }
}

/** From when on second attempts may go out, as the last answers before `atMs` say; undefined: they may not. */
function findFree(told: readonly OnWire[], atMs: number): number | undefined {
  let since: number | undefined = 0
  for (const attempt of told) {
    if ((attempt.toldMs as number) > atMs) break
    since = signOf(attempt).is === 'well' ? (since ?? attempt.toldMs) : undefined
  }
  return since
}

/** Where a receiver fails now and then, a second attempt is made once it is due. */
function checkPunctuality(
  { byKey, byPush, isSmooth, outcome }: Facts,
  { nth, settings, wasStopped, end, notes }: SimulatedProcess,
  say: Say,
): void {
  const [{ manner } = {}, ...later] = outcome.scenario.receiver
  const isSteady = later.length === 0 && manner?.is === 'mixed' && manner.share <= 0.3 && manner.status !== 429
  if (
    !isSteady ||
    !isSmooth ||
    wasStopped ||
    end?.is !== 'ended' ||
    nth >= outcome.pushes ||
    settings.ratePerSecond !== undefined ||
    notes.some((note) => note.startsWith('The receiver is down'))
  )
    return
  const slackMs =
    manner.other === 'status' ? 200 + 4 * manner.latencyMs : 5_000 + 2 * settings.timeoutMs + 30 * manner.latencyMs
  // attempts that hang may leave no room for others
  if (manner.hangs && settings.concurrency < 64) return
  const told = inOrderTold(byPush.get(nth) ?? [])
  for (const [first, second] of byKey.values()) {
    if (first?.push !== nth || second?.push !== nth || first.toldMs === undefined) continue
    const dueMs = first.toldMs + settings.retryDelayMs
    // what came at the same moment was not known yet
    const freeMs = findFree(told, second.atMs - 20)
    if (freeMs === undefined) continue
    const lateMs = second.atMs - Math.max(dueMs, freeMs)
    if (lateMs > slackMs) {
      say(`push ${nth} makes a second attempt ${Math.round(lateMs)} ms late`)
      return
    }
  }
}

/**
 * Once a push has found a receiver that is the same throughout in trouble, a later one makes single attempts. One that takes plain bodies
 * alone is well for the next push.
 */
function checkKnownTrouble({ byPush, isSmooth, outcome }: Facts, say: Say): void {
  const [{ manner } = {}, ...later] = outcome.scenario.receiver
  const { timeoutMs = Number.POSITIVE_INFINITY } = outcome.scenario.settings
  // one that answers now so, now so may be well for the next push too, as one that answers now in time, now too late
  const isLateAtTimes = manner && manner.latencyMs < 2 * timeoutMs && timeoutMs < 2 * manner.latencyMs
  if (later.length > 0 || manner?.is === 'plain alone' || manner?.is === 'mixed' || isLateAtTimes || !isSmooth) return
  const some = outcome.processes.slice(0, outcome.pushes)
  // `--failed` keeps to itself what few users show
  const finder = some.find(
    ({ request, end, lines, notes }) =>
      end?.is === 'ended' &&
      request.what !== 'failed' &&
      (notes.some((note) => /^The receiver is down: /.test(note)) ||
        lines.some((line) => line.type === 'skip' && line.reason.startsWith('held: the receiver refuses every'))),
  )
  if (!finder || some.some((it) => !heeds(it))) return
  for (const { nth, startMs, endMs = startMs } of some) {
    if (startMs <= (finder.endMs ?? 0)) continue
    const made = byPush.get(nth)?.length ?? 0
    if (made > 1 + Math.ceil((endMs - startMs) / outagePauseMs))
      say(`push ${nth} makes ${made} attempts although the trouble was known`)
  }
}

/** A try that was granted was made, unless its process died; and no other one. */
function checkTries({ outcome, isSmooth }: Facts, say: Say): void {
  const row = outcome.before?.receivers.get(receiverUrl)
  if (row?.troubleSince == null || outcome.lost) return
  const since = row.troubleSince - epochMs
  const after = outcome.receiver.attempts.filter(({ atMs, push }) => push < outcome.pushes && atMs >= since)
  const made = after.length
  const dead = outcome.processes.filter(({ end }) => end?.is !== 'ended').length
  const unmade = outcome.processes.reduce((sum, { unmadeTries }) => sum + unmadeTries, 0)
  if (row.tries > made + dead + unmade) say(`of ${row.tries} tries ${made} were made`)
  // by then all processes know of the trouble, and make what they were granted, but for one whose try had another answer before
  const knownMs = since + outageLookMs + 100
  const goesOn = ({ notes }: SimulatedProcess) => notes.some((note) => note.includes('came, so other second attempts'))
  const tried = after.filter(({ push, atMs }) => {
    const process = outcome.processes[push] as SimulatedProcess
    return atMs > knownMs && heeds(process) && !goesOn(process)
  })
  // an answer of another kind ends the trouble for the process that got it, even if that dies before others see it
  const isAlike = (attempt: OnWire) => {
    const { is, status } = signOf(attempt)
    return row.trouble?.is === 'refuses' ? is === 'refuses' && status === row.trouble.status : is === 'down'
  }
  const told = inOrderTold(outcome.receiver.attempts).filter(({ toldMs }) => (toldMs as number) >= since)
  const endMs = told.find((attempt) => !isAlike(attempt))?.toldMs ?? Number.POSITIVE_INFINITY
  const counts = new Map<number, number>()
  for (const { push, atMs } of tried) if (atMs <= endMs) counts.set(push, (counts.get(push) ?? 0) + 1)
  let tries = 0
  for (const [push, count] of counts) {
    // one that hears of a refusal makes attempts of its own, as many as prove it
    const hears = row.trouble?.is === 'refuses' && (outcome.processes[push]?.startMs ?? 0) <= since
    tries += hears ? Math.max(0, count - 2 * alikeInARow) : count
  }
  if (isSmooth && tries > row.tries) say(`of ${row.tries} tries ${tries} were made`)
}

/** Its process has had the time to tell others of the answer: one that was killed as it came may have told nobody. */
function wasRead({ push, toldMs }: OnWire, { processes }: Outcome): boolean {
  const { end, endMs = Number.POSITIVE_INFINITY } = processes[push] as SimulatedProcess
  return toldMs !== undefined && (end?.is === 'ended' || toldMs + 100 < endMs)
}

/** After a 415 no process records compressed deliveries for a day, but with the setting; those at hand go out at the receiver's pace. */
function checkCompression({ outcome, isSmooth, byKey }: Facts, say: Say): void {
  if (outcome.scenario.settings.compress !== 'auto' || !isSmooth) return
  const refused = outcome.receiver.attempts.find(
    (it) => it.gzip && it.told?.kind === 'answer' && it.told.status === 415 && wasRead(it, outcome),
  )
  if (refused === undefined) return
  const { deliveries } = outcome.model.state
  const refusedMs = refused.toldMs as number
  for (const attempt of outcome.receiver.attempts) {
    const recordedMs = (deliveries.get(attempt.key)?.first.at ?? Number.NEGATIVE_INFINITY) - epochMs
    if (!attempt.gzip || recordedMs < refusedMs + 5_000 || byKey.get(attempt.key)?.[0] !== attempt) continue
    if (attempt.atMs < refusedMs + 23 * 3_600_000) {
      say(`push ${attempt.push} sends ${attempt.key} compressed after a 415`)
      return
    }
  }
}

/** The ledger says of each delivery what happened. */
function checkLedger({ outcome, byKey }: Facts, say: Say): void {
  const { deliveries, claims, runs } = outcome.model.state
  for (const [key, attempts] of byKey) {
    const row = deliveries.get(key)
    if (row === undefined) {
      say(`the ledger has nothing of ${key}, which went out`)
      continue
    }
    if (row.attempts < attempts.length)
      say(`the ledger has ${row.attempts} attempts of ${key} instead of ${attempts.length}`)
    const isSuccess = ({ told }: OnWire) => told?.kind === 'answer' && told.status < 300
    if (row.status === 'delivered' && !attempts.some(isSuccess)) say(`${key} is delivered, and nobody took it`)
    if (row.status === 'failed' && attempts.some(({ arrived }) => arrived))
      say(`${key} is failed, and may have arrived`)
    const wasHeard = attempts.some(
      (it) => isSuccess(it) && it.toldMs !== undefined && outcome.processes[it.push]?.end?.is === 'ended',
    )
    if (wasHeard && row.status !== 'delivered') say(`${key} was taken, and is ${row.status}`)
  }
  for (const { id, resumable, command } of runs.values()) {
    if (resumable || (command !== 'all' && command !== 'force')) continue
    const served = new Set(
      [...deliveries.values()]
        .filter((it) => it.runId === id && it.kind !== 'subscription')
        .map(({ userId }) => userId),
    )
    const limit = Math.max(
      ...outcome.processes.map(({ request }) => (request.what === 'all' ? (request.limit ?? 0) : 0)),
    )
    if (served.size > limit) say(`a push of ${limit} users serves ${served.size}`)
  }
  if (
    outcome.scenario.settings.guard === 'on' &&
    !outcome.processes.some(({ accept }, nth) => accept && nth < outcome.pushes)
  )
    for (const [at] of outcome.scenario.users.entries()) {
      const now = outcome.before?.claims.get(claimKey(`weekly:${period}`, emailOf(at)))
      const then = claims.get(claimKey(`weekly:${periodBefore}`, emailOf(at)))
      if (!now || !then || now.queriesMark !== then.queriesMark || now.leads === null || then.leads === null) continue
      if (then.leads >= comparedLeadsMin && now.leads * userFall <= then.leads)
        say(`user ${at + 1} gets ${now.leads} leads after ${then.leads}, unheld`)
    }
}

/** In the end everybody is served, and users who were not served before were reported. */
function checkCalm({ outcome }: Facts, say: Say): void {
  const { model, processes, pushes, scenario, before, lost } = outcome
  const { users, deliveries, claims, receivers } = model.state
  const isServed = (email: string) => claims.has(claimKey(`weekly:${period}`, email))
  for (const user of users.values()) {
    if (user.subscribed && user.places.length > 0 && !isServed(user.email)) say(`user ${user.id} is never served`)
    if (model.is.isOwedSubscription(user)) say(`user ${user.id} is owed a subscription push for ever`)
  }
  for (const { key, status } of deliveries.values()) if (status === 'pending') say(`${key} stays pending`)
  const last = processes[pushes] && processes.at(-1)
  if (last?.end?.is === 'ended' && !lost) {
    const isBad = last.lines.some((line) => line.type === 'delivery' && line.status !== 'delivered')
    if (!last.end.end.ok && !isBad) say('the last push is not well')
    const made = outcome.receiver.attempts.some(({ push }) => push === last.nth)
    if (made && receivers.get(receiverUrl)?.troubleSince != null)
      say('the receiver counts as in trouble although it is well')
  }
  if (before === undefined || lost) return
  const some = processes.slice(0, pushes)
  const isEvery = some.every(({ end }) => end?.is === 'ended' && end.end.ok)
  for (const process of some) {
    const { request, end, nth } = process
    if (end?.is !== 'ended' || !end.end.ok || end.end.toldBefore) continue
    for (const { id, owedAt } of process.owedAtEnd) {
      const isAsked = request.what === 'user' && request.owed && request.user.id === id
      // a push with a limit leaves owed subscription pushes to another
      const isForAll = request.what === 'all' && request.limit === undefined
      const looks = isForAll || request.what === 'owed' || request.what === 'resume' || isAsked
      if (looks && owedAt < epochMs + process.startMs)
        say(`push ${nth} is well, says nothing, and leaves user ${id} owed`)
    }
    if (request.what !== 'all' || request.limit !== undefined || ('only' in request && request.only)) continue
    for (const [at, { places, subscribed }] of scenario.users.entries()) {
      const isChanged = scenario.events.some((event) => 'user' in event && event.user === at)
      if (isChanged || !subscribed || places.length === 0) continue
      const isClaimed = before.claims.has(claimKey(`weekly:${period}`, emailOf(at)))
      if (!isClaimed && (end.end.summary.elsewhere === 0 || isEvery))
        say(`push ${nth} is well although user ${at + 1} was never served`)
    }
  }
}
