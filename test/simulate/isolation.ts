/**
 * What a receiver that always fails for some users costs the others: nothing. Whichever users they are, up to half of all, the same run
 * serves the rest, and does not stand still. And where a receiver takes nothing, a push ends.
 */
import { alikeInARow, retryAfterMsMax } from '../../src/base/limits.ts'
import type { SimulatedProcess } from './process.ts'
import type { Facts, Say } from './promises.ts'
import type { OnWire } from './receiver.ts'
import type { Manner, Scenario } from './scenario.ts'
import { findUsersOf } from './themes.ts'

/** Nothing is wrong with the others in such a world. */
const sparesSome: readonly Manner['is'][] = ['well', 'fails for', 'plain alone', 'shortage']

/** Whole weekly pushes that ran to their end while nothing but that happened; undefined: there was more. */
function findWholePushes({ outcome }: Facts): readonly SimulatedProcess[] | undefined {
  const { scenario, processes, pushes } = outcome
  if (scenario.events.some(({ is }) => is !== 'stop')) return undefined
  const all = processes.slice(0, pushes)
  const some = all.filter(({ wasStopped }) => !wasStopped)
  const isWhole = ({ request, end, foundTrouble }: SimulatedProcess) =>
    request.what === 'all' && request.limit === undefined && end?.is === 'ended' && !foundTrouble
  const startMs = Math.min(...some.map((it) => it.startMs))
  const manners = scenario.receiver.filter((_, n) => (scenario.receiver[n + 1]?.atMs ?? Infinity) > startMs)
  const isInTime = (it: Manner) => 2 * it.latencyMs < (scenario.settings.timeoutMs ?? 0)
  // a second attempt keeps the encoding of its first one (contract 4.17)
  const keepsEncoding = some.length < pushes && manners.some(({ manner }) => manner.is === 'plain alone')
  const spares = manners.every(({ manner }) => sparesSome.includes(manner.is) && isInTime(manner)) && !keepsEncoding
  // one that is stopped keeps its users until its last attempt has ended
  const isAlone = all.every(({ wasStopped, endMs = Infinity }) => !wasStopped || endMs <= startMs)
  return some.length > 0 && some.every(isWhole) && spares && isAlone ? some : undefined
}

/** A user who is owed leads, and whom the guard does not hold. */
const isToServe = ({ subscribed, places, leadsBefore }: Scenario['users'][number]) =>
  subscribed && places.length > 0 && !leadsBefore

/**
 * The users whom the receiver always fails for, if they are at most half of all, and of those whom an earlier push left without an attempt:
 * in doubt first attempts decide, and no second one is made (contract 4.12), but for answers that show nothing (4.5).
 */
function findFailing(
  { users, listings, receiver }: Scenario,
  tried: ReadonlySet<number>,
): ReadonlySet<number> | undefined {
  const failing = new Set<number>()
  for (const { manner } of receiver)
    if (manner.is === 'fails for') for (const user of findUsersOf(manner.whom, { users, listings })) failing.add(user)
  const all = users.flatMap((user, at) => (isToServe(user) ? [at] : []))
  const untried = all.filter((at) => !tried.has(at))
  const isHalfAtMost = (some: readonly number[]) => 2 * some.filter((at) => failing.has(at)).length <= some.length
  return untried.length > 0 && isHalfAtMost(untried) && isHalfAtMost(all) ? failing : undefined
}

export function checkIsolation(facts: Facts, say: Say): void {
  const { outcome, byKey } = facts
  const { scenario, before } = outcome
  const pushes = findWholePushes(facts)
  if (pushes === undefined || before === undefined) return
  const beganMs = Math.min(...pushes.map(({ startMs }) => startMs))
  const tried = before.deliveries.filter(({ key }) => byKey.get(key)?.some(({ atMs }) => atMs < beganMs))
  const failing = findFailing(scenario, new Set(tried.map(({ userId }) => userId - 1)))
  if (failing === undefined) return
  let [left, whole] = [0, 0]
  for (const [at, user] of scenario.users.entries()) {
    if (!isToServe(user) || failing.has(at)) continue
    whole++
    const own = before.deliveries.filter(({ userId, kind }) => userId === at + 1 && kind === 'weekly')
    if (own.length === 0 || own.some(({ status }) => status !== 'delivered')) left++
    for (const { key, status } of own)
      if (status === 'delivered' && byKey.get(key)?.filter(isTaken).length !== 1)
        say(`${key} is delivered, and was not taken once`)
  }
  if (left > 0) say(`${left} of ${whole} users are not served, for whom the receiver is well`)
  for (const push of pushes) checkGoingOn(facts, push, say)
}

const isTaken = ({ told }: OnWire) => told?.kind === 'answer' && told.status < 300

/** A push does not stand still while it has something to do and the receiver is well. */
function checkGoingOn(
  { byPush }: Facts,
  { nth, startMs, endMs = startMs, settings, notes }: SimulatedProcess,
  say: Say,
) {
  if (notes.some((note) => note.startsWith('The receiver is down'))) return
  const standsMsMax = settings.retryDelayMs + 5_000
  let busyUntil = startMs
  for (const [atMs, untilMs] of [
    ...(byPush.get(nth) ?? []).map((it) => [it.atMs, it.toldMs ?? it.atMs]),
    [endMs, endMs],
  ]) {
    if ((atMs as number) - busyUntil > standsMsMax) {
      say(`push ${nth} stands still for ${Math.round((atMs as number) - busyUntil)} ms`)
      return
    }
    busyUntil = Math.max(busyUntil, untilMs as number)
  }
}

/** A push ends where a receiver is down, or only asks for less. */
export function checkPatience({ byPush, isSmooth, outcome }: Facts, process: SimulatedProcess, say: Say): void {
  const { nth, startMs, endMs = startMs, settings, end } = process
  if (!isSmooth || settings.outageMs === 0 || settings.ratePerSecond !== undefined || end?.is !== 'ended') return
  const isNothing = ({ told }: OnWire) => told?.kind !== 'answer' || told.status >= 500 || told.status === 429
  const own = byPush.get(nth) ?? []
  const last = own.findLastIndex((attempt) => !isNothing(attempt))
  if (own.length === 0 || (last >= 0 && !isTaken(own[last] as OnWire))) return
  const tookMs = endMs - Math.max(startMs, own[last]?.toldMs ?? startMs)
  // one that learns of the trouble from another waits anew
  const waits = outcome.processes.some((it) => it !== process && it.startMs <= endMs && (it.endMs ?? 0) > startMs)
    ? 2
    : 1
  const mostMs = waits * settings.outageMs + retryAfterMsMax + (alikeInARow + 2) * settings.timeoutMs
  if (tookMs > mostMs) say(`push ${nth} goes on for ${Math.round(tookMs / 1_000)} s although nothing is taken`)
}
