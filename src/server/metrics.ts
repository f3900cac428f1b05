/** The metrics of `serve` for Prometheus: requests, child processes, owed pushes, triggers, and the process itself. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { packageVersion } from '../base/package-root.ts'
import { untrustedProxyMetric } from '../http/listen.ts'
import type { TriggerFigures } from '../triggers/trigger-figures.ts'

/** Takes what happens, and renders it for a scrape. */
export interface Metrics {
  contentType: string
  noteRequest(request: { method: string; route: string; status: number; durationMs: number }): void
  notePushEnded(exitCode: number | null): void
  /** Counts a request refused by the limit of its address or of its key. */
  noteLimited(limit: 'address' | 'key'): void
  /** Counts a request that an untrusted proxy passed on. */
  noteUntrusted(): void
  /** The text of a scrape. */
  render(): Promise<string>
}

/** Values that are read at each scrape. */
export interface MetricSources {
  pushesUnderWay(): number
  pushesWaiting(): number
  /** Undefined where the database cannot tell. */
  pushesOwed(): Promise<number | undefined>
  /** Whether the database takes writes; false where it cannot tell. */
  isWritable(): Promise<boolean>
  /** Undefined where the database cannot tell. Asked at most every 15 seconds. */
  triggers(): Promise<TriggerFigures | undefined>
}

const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT'])
/** Figures that read many rows are kept for so long, however often somebody scrapes. */
const keptMs = 15_000
const bucketsSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

const triggerGauges = [
  ['leadpush_triggers_due', 'Triggers that a run of `trigger` would send now; 100,000: or more.', 'due'],
  ['leadpush_triggers_oldest_due_seconds', 'How long the first of them has been due, not counting pauses of its hook.', 'oldestDueSeconds'],
  ['leadpush_triggers_failing', 'Triggers that failed and will be tried again; 100,000: or more.', 'failing'],
  ['leadpush_triggers_abandoned', 'Triggers that were ever given up, of the hooks that there are.', 'abandoned'],
  ['leadpush_triggers_dropped', 'Listings beyond the newest that were ever dropped, of the hooks that there are.', 'dropped'],
  ['leadpush_hooks_due', 'Hooks for which triggers are due, without those that have a pause.', 'hooksDue'],
  ['leadpush_hooks_failing', 'Hooks of which every attempt since the last success failed.', 'hooksFailing'],
  ['leadpush_hooks_off', 'Hooks that are switched off.', 'hooksOff'],
  ['leadpush_hooks_with_abandoned', 'Hooks for which a trigger was given up in the last day.', 'hooksAbandoned'],
  ['leadpush_hooks_with_dropped', 'Hooks for which listings were dropped in the last day.', 'hooksDropped'],
] as const // biome-ignore format: a table

/** Asks, or gives the answer that it got at most `keptMs` ago. */
function askSeldom<T>(ask: () => Promise<T>): () => Promise<T> {
  let last: { atMs: number; answer: Promise<T> } | undefined
  return () => {
    if (last === undefined || performance.now() - last.atMs >= keptMs) last = { atMs: performance.now(), answer: ask() }
    return last.answer
  }
}

/** Callers who ask while an answer is awaited get that answer too. */
function askTogether<T>(ask: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined
  return () => {
    asked ??= ask().finally(() => {
      asked = undefined
    })
    return asked
  }
}

/** Makes the metrics of one `serve` in a registry of its own. */
export function createMetrics(sources: MetricSources): Metrics {
  const register = new Registry()
  const registers = [register]
  collectDefaultMetrics({ register })
  const requests = new Histogram({
    name: 'leadpush_http_request_duration_seconds',
    help: 'Inbound requests, from their head to the end of the answer.',
    labelNames: ['method', 'route', 'status'],
    buckets: bucketsSeconds,
    registers,
  })
  const ended = new Counter({
    name: 'leadpush_push_processes_ended_total',
    help: 'Child processes that ended, by their exit code; `signal`: killed.',
    labelNames: ['exit_code'],
    registers,
  })
  const limited = new Counter({
    name: 'leadpush_http_requests_limited_total',
    help: 'Requests refused with 429: too many bad ones of their address, or too many with their key.',
    labelNames: ['limit'],
    registers,
  })
  const untrusted = new Counter({
    name: untrustedProxyMetric,
    help: 'Requests with an X-Forwarded-For from a loopback or private address that is not in LEADPUSH_TRUST_PROXY.',
    registers,
  })
  // starts at 0: a series that appears with its first event shows no rise
  ended.inc({ exit_code: '0' }, 0)
  for (const limit of ['address', 'key']) limited.inc({ limit }, 0)
  const askOwed = askTogether(sources.pushesOwed)
  const askWritable = askTogether(sources.isWritable)
  const gauge = (name: string, help: string, read: () => number | undefined | Promise<number | undefined>) =>
    new Gauge({
      name,
      help,
      registers,
      async collect() {
        const value = await read()
        if (value === undefined) this.remove()
        else this.set(value)
      },
    })
  const askTriggers = askSeldom(sources.triggers)
  gauge('leadpush_push_processes', 'Child processes that send subscription pushes now.', sources.pushesUnderWay)
  gauge('leadpush_push_processes_waiting', 'Users who wait for such a child process.', sources.pushesWaiting)
  gauge('leadpush_subscription_pushes_owed', 'Subscription pushes that are owed and not begun.', askOwed)
  gauge('leadpush_database_up', '1 where the database answers and takes writes, else 0.', async () => {
    const [owed, isWritable] = await Promise.all([askOwed(), askWritable()])
    return Number(owed !== undefined && isWritable)
  })
  for (const [name, help, figure] of triggerGauges) {
    gauge(name, help, async () => (await askTriggers())?.[figure])
  }
  new Gauge({
    name: 'leadpush_build_info',
    help: 'The version of leadpush, as a label.',
    labelNames: ['version'],
    registers,
  }).set({ version: packageVersion }, 1)

  return {
    contentType: register.contentType,
    noteRequest: ({ method, route, status, durationMs }) =>
      requests.observe(
        { method: knownMethods.has(method) ? method : 'other', route, status: String(status) },
        durationMs / 1_000,
      ),
    notePushEnded: (exitCode) => ended.inc({ exit_code: exitCode === null ? 'signal' : String(exitCode) }),
    noteLimited: (limit) => limited.inc({ limit }),
    noteUntrusted: () => untrusted.inc(),
    render: () => register.metrics(),
  }
}
