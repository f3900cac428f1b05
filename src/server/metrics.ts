/** The metrics of `serve` for Prometheus: requests, child processes, owed pushes, triggers, and the process itself. */
import { Durations, Exposition, type Gauge, type Labels } from '../base/exposition.ts'
import { packageVersion } from '../base/package-root.ts'
import { untrustedProxyMetric } from '../http/listen.ts'
import type { TriggerFigures } from './trigger-figures.ts'

/** Counts events, and renders the counts for a scrape. */
export interface Metrics {
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
  /** Undefined if the database cannot tell. */
  pushesOwed(): Promise<number | undefined>
  /** Whether the database takes writes; false if it cannot tell. */
  isWritable(): Promise<boolean>
  /** Undefined if the database cannot tell. */
  triggers(): Promise<TriggerFigures | undefined>
}

const knownMethods = new Set(['GET', 'HEAD', 'POST', 'PUT'])
const bucketsSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

const triggerGauges: readonly Gauge<TriggerFigures | undefined>[] = [
  ['triggers_due', 'Triggers that a run of `trigger` would send now; 100,000: or more.', (figures) => figures?.due],
  ['triggers_oldest_due_seconds', 'How long the first of them has been due, not counting pauses of its hook.', (figures) => figures?.oldestDueSeconds],
  ['triggers_failing', 'Triggers that failed and will be tried again; 100,000: or more.', (figures) => figures?.failing],
  ['triggers_abandoned', 'Triggers that were ever given up, of the hooks that there are.', (figures) => figures?.abandoned],
  ['triggers_dropped', 'Listings beyond the newest that were ever dropped, of the hooks that there are.', (figures) => figures?.dropped],
  ['hooks_due', 'Hooks for which triggers are due, without those that have a pause.', (figures) => figures?.hooksDue],
  ['hooks_failing', 'Hooks of which every attempt since the last success failed.', (figures) => figures?.hooksFailing],
  ['hooks_off', 'Hooks that are switched off.', (figures) => figures?.hooksOff],
  ['hooks_with_abandoned', 'Hooks for which a trigger was given up in the last day.', (figures) => figures?.hooksAbandoned],
  ['hooks_with_dropped', 'Hooks for which listings were dropped in the last day.', (figures) => figures?.hooksDropped],
] // biome-ignore format: a table

/** Callers who ask meanwhile get the same answer: figures of triggers read many rows, and are read once at a time. */
function askTogether<T>(ask: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined
  return () => {
    asked ??= ask().finally(() => {
      asked = undefined
    })
    return asked
  }
}

/** Adds the figures of a process, under the usual names of Prometheus' clients. */
function addProcess(all: Exposition): void {
  const { user, system } = process.cpuUsage()
  all.counter('process_cpu_seconds_total', 'Processor time.', (user + system) / 1e6)
  all.gauge('process_start_time_seconds', 'When the process began.', performance.timeOrigin / 1_000)
  all.gauge('process_resident_memory_bytes', 'Memory of the process.', process.memoryUsage.rss())
}

/** Makes the metrics of one `serve`. */
export function createMetrics(sources: MetricSources): Metrics {
  const requests = new Map<string, readonly [Labels, Durations]>()
  // begin at 0: a series that appears with its first event shows no rise
  const ended = new Map([['0', 0]])
  const limited = { address: 0, key: 0 }
  let untrusted = 0

  const render = async () => {
    const all = new Exposition()
    addProcess(all)
    const [owed, isWritable, figures] = await Promise.all([
      sources.pushesOwed(),
      sources.isWritable(),
      sources.triggers(),
    ])
    all.gauge('leadpush_build_info', 'The version of leadpush, as a label.', [[{ version: packageVersion }, 1]])
    all.histogram(
      'leadpush_http_request_duration_seconds',
      'Inbound requests, from their head to the end of the answer.',
      [...requests.values()],
    )
    all.counter(
      'leadpush_http_requests_limited_total',
      'Requests refused with 429: too many bad ones of their address, or too many with their key.',
      Object.entries(limited).map(([limit, n]) => [{ limit }, n]),
    )
    all.counter(
      untrustedProxyMetric,
      'Requests with an X-Forwarded-For from a loopback or private address that is not in LEADPUSH_TRUST_PROXY.',
      untrusted,
    )
    all.counter(
      'leadpush_push_processes_ended_total',
      'Child processes that ended, by their exit code; `signal`: killed.',
      [...ended].map(([exit_code, n]) => [{ exit_code }, n]),
    )
    all.gauge('leadpush_push_processes', 'Child processes that send subscription pushes now.', sources.pushesUnderWay())
    all.gauge('leadpush_push_processes_waiting', 'Users who wait for such a child process.', sources.pushesWaiting())
    all.gauge('leadpush_subscription_pushes_owed', 'Subscription pushes that are owed and not begun.', owed)
    all.gauge(
      'leadpush_database_up',
      '1 where the database answers and takes writes, else 0.',
      Number(owed !== undefined && isWritable),
    )
    all.gauges('leadpush', triggerGauges, figures)
    return all.toString()
  }

  return {
    noteRequest: ({ method, route, status, durationMs }) => {
      const labels = { method: knownMethods.has(method) ? method : 'other', route, status: String(status) }
      const key = Object.values(labels).join(' ')
      const [, durations] = requests.get(key) ?? [labels, new Durations(bucketsSeconds)]
      durations.add(durationMs / 1_000)
      requests.set(key, [labels, durations])
    },
    notePushEnded: (exitCode) => {
      const key = exitCode === null ? 'signal' : String(exitCode)
      ended.set(key, (ended.get(key) ?? 0) + 1)
    },
    noteLimited: (limit) => {
      limited[limit]++
    },
    noteUntrusted: () => {
      untrusted++
    },
    render: askTogether(render),
  }
}
