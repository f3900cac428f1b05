/** Each number that a push tells is the number of lines, of rows of the ledger, and of requests at the receiver that it counts. */
import { period } from './carry-out.ts'
import { claimKey, type LedgerState } from './ledger-state.ts'
import type { SimulatedProcess } from './process.ts'
import type { Facts, Say } from './promises.ts'

export function checkSummary({ outcome }: Facts, { nth, end, lines, request }: SimulatedProcess, say: Say): void {
  if (end?.is !== 'ended') return
  const { summary } = end.end
  const counts = { deliveries: 0, delivered: 0, failed: 0, unknown: 0, skipped: 0 }
  const users = new Set<string>()
  for (const line of lines) {
    if ('user' in line && line.user && line.type !== 'warning') users.add(line.user)
    if (line.type === 'skip' && line.user !== undefined) counts.skipped++
    if (line.type !== 'delivery') continue
    counts.deliveries++
    if (line.status === 'delivered' || line.status === 'failed' || line.status === 'unknown') counts[line.status]++
  }
  for (const [name, count] of Object.entries(counts))
    if (summary[name as keyof typeof counts] !== count)
      say(`push ${nth} counts ${name} as ${summary[name as keyof typeof counts]} instead of ${count}`)
  for (const name of ['users', 'already', 'elsewhere', 'owed'] as const)
    if (summary[name] < 0) say(`push ${nth} counts ${summary[name]} ${name}`)
  if (summary.users < users.size) say(`push ${nth} counts ${summary.users} users, and names ${users.size}`)
  if (request.what === 'all' && request.limit === undefined && summary.owed === 0 && summary.users > 400)
    say(`push ${nth} counts ${summary.users} users`)
  const keys = lines.flatMap((line) =>
    line.type === 'delivery' && line.status !== 'pending' ? [line.idempotencyKey] : [],
  )
  // an end without an attempt is not counted by the run's row: lost with a failover, it comes and is told once more
  if (new Set(keys).size < keys.length && !outcome.lost) say(`push ${nth} tells the end of a delivery twice`)
}

/** The weekly deliveries of all users, as the ledger has them. */
export interface Census {
  /** Had their delivery, and all of it is over. */
  already: number
  /** By their e-mails: they have queries, and none of their deliveries has had an attempt. */
  owed: ReadonlySet<string>
}

export function takeCensus({ users, claims, deliveries }: LedgerState): Census {
  const [pending, tried] = [new Set<number>(), new Set<number>()]
  for (const { userId, status, attempts, kind, period: of } of deliveries.values()) {
    if (kind !== 'weekly' || of !== period) continue
    if (status === 'pending') pending.add(userId)
    if (status !== 'pending' || attempts > 0) tried.add(userId)
  }
  const owed = new Set<string>()
  let already = 0
  for (const { id, email, subscribed, places } of users.values()) {
    if (!subscribed) continue
    const isClaimed = claims.has(claimKey(`weekly:${period}`, email))
    if (isClaimed && !pending.has(id)) already++
    if (places.length > 0 && (!isClaimed || (pending.has(id) && !tried.has(id)))) owed.add(email)
  }
  return { already, owed }
}

/** Nothing but the receiver and other pushes, which all ended, has a part in what these pushes tell. */
export function checkTold({ outcome, byKey, isSmooth }: Facts, say: Say): void {
  const { processes, happened, lost, model, scenario } = outcome
  if (!isSmooth || lost || processes.some(({ end }) => end?.is !== 'ended')) return
  const isSpan = ({ startMs, endMs = startMs }: SimulatedProcess, from: number, to: number) =>
    startMs <= to && endMs >= from
  for (const process of processes) {
    const { startMs, endMs = startMs, request } = process
    const isAlone = processes.every((it) => it === process || !isSpan(it, startMs, endMs))
    const isQuiet = happened.every(({ atMs, event }) => atMs < startMs || atMs > endMs || event.is === 'stop')
    // of a forced push that was interrupted others are owed too
    const isWeekly = scenario.pushes.every((push) => push.what !== 'all' || !push.force)
    const isWhole = request.what === 'all' && isWeekly && request.limit === undefined
    if (isAlone && isQuiet && isWhole) checkAlone(process, say)
  }
  if (scenario.events.some(({ is }) => is !== 'stop')) return
  const told = new Map<string, string[]>()
  for (const { lines } of processes)
    for (const line of lines) {
      if (line.type !== 'delivery' || line.status === 'pending') continue
      const { idempotencyKey: key = '', status, attempts } = line
      told.set(key ?? '', [...(told.get(key ?? '') ?? []), status])
      const made = byKey.get(key ?? '')?.length ?? 0
      if (attempts !== made) say(`${key} is told with ${attempts} attempts, and was ${made} times on the wire`)
    }
  for (const { key, status } of model.state.deliveries.values()) {
    const ends = told.get(key)?.join() ?? ''
    if (ends !== (status === 'pending' ? '' : status)) say(`${key} is ${status}, and told as: ${ends}`)
  }
}

function checkAlone({ end, lines, censusBefore, censusAfter, nth }: SimulatedProcess, say: Say): void {
  if (end?.is !== 'ended' || censusAfter === undefined) return
  const { owed } = censusAfter
  const users = new Set(owed)
  // a user who was removed has no name, so nobody knows which parts are theirs
  let hasNameless = false
  for (const line of lines) {
    if (line.type !== 'delivery' && line.type !== 'skip') continue
    if (line.user) users.add(line.user)
    else hasNameless = true
  }
  const { summary } = end.end
  const expected = {
    already: censusBefore.already,
    elsewhere: 0,
    users: hasNameless ? summary.users : users.size,
    owed: owed.size,
  }
  for (const [name, count] of Object.entries(expected)) {
    const told = summary[name as keyof typeof expected]
    if (told !== count) say(`push ${nth}, alone, counts ${told} ${name} instead of ${count}`)
  }
}
