/** What a whole run counted: failovers, processes, requests, and how long each kind of failover was ridden out. */
import type { Evidence } from './check-round.ts'

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor((values.length - 1) / 2)] ?? 0
const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

export class Totals {
  private readonly counts = {
    rounds: 0,
    synchronous: 0,
    asynchronous: 0,
    kills: 0,
    absences: 0,
    processes: 0,
    requests: 0,
    /** Keys that came more than twice: only after asynchronous failovers. */
    tripleKeys: 0,
    /** What asynchronous failovers cost: outcomes that nobody knows, users whom the pushes left owed and said so. */
    unknown: 0,
    owedAndTold: 0,
    /** Subscription pushes that the database had forgotten, sent once more or not at all. */
    subscriptionsTwice: 0,
    subscriptionsLost: 0,
    violations: 0,
  }
  /** By kind of failover: how long nothing was sent, and how much of that after the address was back. */
  private readonly gaps = new Map<string, { wholeMs: number; afterMs: number }[]>()
  private readonly exits = new Map<string, number>()

  get violations(): number {
    return this.counts.violations
  }

  get rounds(): number {
    return this.counts.rounds
  }

  add({ ran, deliveries }: Evidence, violations: number): void {
    const { counts } = this
    const came = [...ran.requests.values()]
    const processes = [...ran.pushes, ...ran.beside, ...ran.settling]
    counts.rounds++
    counts.violations += violations
    counts.processes += processes.length + 1
    counts.requests += came.flat().length
    counts.tripleKeys += came.filter(({ length }) => length > 2).length
    counts.unknown += [...deliveries.values()].filter(({ status }) => status === 'unknown').length
    if (ran.pushes.some(({ result }) => result.code !== 0)) counts.owedAndTold += ran.left.owed
    const others = new Map<string, number>()
    for (const [key, [request]] of ran.requests)
      if (!/^\d{4}-W/.test(key)) others.set(request?.userKey ?? '', (others.get(request?.userKey ?? '') ?? 0) + 1)
    counts.subscriptionsTwice += [...others.values()].filter((keys) => keys > 1).length
    counts.subscriptionsLost += ran.subscribed.filter((at) => !others.has(`key-${at}`)).length
    for (const { args, result } of processes) {
      const name = `${args[0] === 'push' ? args.slice(0, 2).join(' ') : args[0]}: ${result.code ?? result.signal}`
      this.exits.set(name, (this.exits.get(name) ?? 0) + 1)
    }
    const wallMs = came.flat().map(({ cameWallMs }) => cameWallMs)
    for (const { failover, wentMs, backMs } of ran.ridden) {
      if (failover.how === 'none') counts.absences++
      else counts[ran.plan.kind]++
      if (failover.how === 'kill') counts.kills++
      // one after which nothing had to be sent any more was not ridden out by anybody
      const next = Math.min(...wallMs.filter((ms) => ms >= backMs))
      if (next === Number.POSITIVE_INFINITY) continue
      const kind = failover.how === 'none' ? 'no failover' : ran.plan.kind
      const name = `${kind}, ${failover.how === 'none' ? 'address' : failover.how}, ${failover.address}`
      this.gaps.set(name, [...(this.gaps.get(name) ?? []), { wholeMs: next - wentMs, afterMs: next - backMs }])
    }
  }

  /** The table for people, and as its last line one JSON object. */
  print(seed: string): void {
    for (const [name, value] of Object.entries(this.counts)) console.log(`${name.padEnd(20)} ${value}`)
    console.log('exit codes')
    for (const [name, times] of [...this.exits].sort()) console.log(`  ${name.padEnd(36)} ${times}`)
    console.log('nothing was sent for (median, worst), of that after the address was back')
    for (const [name, gaps] of [...this.gaps].sort()) {
      const [whole, after] = [gaps.map(({ wholeMs }) => wholeMs), gaps.map(({ afterMs }) => afterMs)]
      const times = [median(whole), Math.max(...whole), median(after), Math.max(...after)].map(seconds)
      console.log(`  ${name.padEnd(36)} ${gaps.length} times: ${times[0]}, ${times[1]}; ${times[2]}, ${times[3]}`)
    }
    console.log(JSON.stringify({ seed, ...this.counts }))
  }
}
