/**
 * Watches silent connections: their server may be gone, it may still be at work, or its commits may wait for a standby in
 * `synchronous_standby_names` that is not there.
 */
import type pg from 'pg'
import { LeadpushError } from '../base/errors.ts'
import { databaseSilentMsMax } from '../base/limits.ts'
import { SilentDatabase } from './away.ts'
import { cancelStatement, isReady, processIdOf, streamOf } from './client.ts'
import type { Patience } from './patience.ts'
import type { Route } from './route.ts'

/** So often connections are looked at. */
const tickMs = 1_000
/** After so much silence the server is asked for its state, and again after the same time. */
const askMs = 5_000
/** A shorter wait of a commit for a standby is not reported. */
const hangMsMin = 3_000

/** Connections with a statement that may be at work for long. */
const atLongWork = new WeakSet<object>()

/** Allows a statement of `client` any time as long as the server is at work on it. Returns a function that ends this. */
export function allowLongWork(client: object): () => void {
  atLongWork.add(client)
  return () => void atLongWork.delete(client)
}

/** Connections whose copy waits for its source: the server rightly waits for them. */
const waitingForSource = new WeakSet<object>()

/** Notes whether the copy on `client` waits for its source, and so sends nothing. */
export function noteSource(client: object, waits: boolean): void {
  if (waits) waitingForSource.add(client)
  else waitingForSource.delete(client)
}

const hangListeners = new Set<(hangs: boolean) => void>()

/** Calls `listener` when commits begin to hang, and when they no longer do. Returns a function that ends this. */
export function onCommitsHang(listener: (hangs: boolean) => void): () => void {
  hangListeners.add(listener)
  return () => void hangListeners.delete(listener)
}

/** The state of the server, from another connection. */
interface Answer {
  askedMs: number
  /** A pooler answers instead of the server, so ids of processes say nothing. */
  pooled: boolean
  /** The processes that are at work for this role, and whether each waits for its client: then bytes were lost, or none were sent. */
  atWork: ReadonlyMap<number, 'works' | 'listens'>
  /** The standby that a commit waits for, and the time so far. */
  hang: { what: string; ms: number } | undefined
}

interface Row {
  own: number
  pid: number
  listens: boolean
  hangMs: number | null
  names: string
  standbys: number
}

// every role sees the waits of its own sessions, and the number of standbys
const question = `
  select pg_backend_pid() as own, pid, wait_event is not distinct from 'ClientRead' as listens,
    case wait_event when 'SyncRep' then extract(epoch from clock_timestamp() - state_change)::double precision * 1000 end
      as "hangMs",
    current_setting('synchronous_standby_names') as names, (select count(*)::integer from pg_stat_replication) as standbys
  from pg_stat_activity where usename = session_user and datname = current_database() and state not like 'idle%'`

function describeHang({ names, standbys }: Row): string {
  const present = standbys === 0 ? 'no standby is attached' : 'none of those that are attached confirms them'
  return `its commits wait for a synchronous standby, and ${present} (synchronous_standby_names is '${names}')`
}

const adviseOnHang =
  'Bring the standby back, or take it out of synchronous_standby_names and reload the server; then run the command again: it continues where it stopped. Waiting commits are done then; a cancelled one would count as done although no standby has it.'

interface SilenceOptions {
  /** Without it every statement may take long. */
  silentMsMax: number | undefined
  /** Commits may hang for so long. */
  hangMsMax: number
  /** Called when commits begin to hang, and when they no longer do. */
  onHang: ((text: string) => void) | undefined
}

/** A connection in use. */
interface Seen {
  /** Bytes read and written, at the last look. */
  bytes: number
  /** Since when it has been silent. */
  sinceMs: number
  /** When the server last confirmed that it is at work for this connection. */
  atWorkMs: number
}

/** Gives up dead connections; one watcher for each pool. */
export class SilenceWatch {
  private readonly route: Route
  private readonly patience: Patience
  private readonly options: SilenceOptions
  private readonly inUse = new Map<pg.PoolClient, Seen>()
  private readonly timer: NodeJS.Timeout
  private isAsking = false
  private askedMs = 0
  private answer: Answer | undefined
  private isTold = false

  constructor(route: Route, patience: Patience, options: SilenceOptions) {
    this.route = route
    this.patience = patience
    this.options = options
    this.timer = setInterval(() => this.look(), tickMs).unref()
  }

  begin(client: pg.PoolClient): void {
    this.inUse.set(client, { bytes: countBytes(client), sinceMs: performance.now(), atWorkMs: 0 })
  }

  end(client: pg.PoolClient): void {
    this.inUse.delete(client)
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private look(): void {
    const nowMs = performance.now()
    let longestMs = 0
    for (const [client, seen] of this.inUse) {
      const bytes = countBytes(client)
      if (bytes !== seen.bytes || isReady(client)) Object.assign(seen, { bytes, sinceMs: nowMs })
      longestMs = Math.max(longestMs, nowMs - seen.sinceMs)
      this.judge(client, seen, nowMs)
    }
    const everyMs = Math.min(askMs, (this.options.silentMsMax ?? askMs) / 2)
    if (longestMs >= everyMs && nowMs - this.askedMs >= everyMs) void this.ask(nowMs)
    else if (longestMs < everyMs) this.tell(undefined)
  }

  /** Gives the connection up if no answer can be expected. */
  private judge(client: pg.PoolClient, seen: Seen, nowMs: number): void {
    const { silentMsMax, hangMsMax } = this.options
    const silentMs = nowMs - seen.sinceMs
    const answer = this.answer && this.answer.askedMs >= nowMs - Math.min(silentMs, 3 * askMs) ? this.answer : undefined
    const isAtWork = answer !== undefined && (answer.pooled || this.isAtWork(answer, client))
    if (isAtWork && answer.hang) {
      // not cancelled: the server would then show the commit as done, although no standby has it
      if (silentMs < hangMsMax || answer.hang.ms < hangMsMin) return
      const message = `The database cannot be used: ${answer.hang.what}`
      const error = new LeadpushError('database', message, { hint: adviseOnHang })
      this.patience.giveUp(error)
      streamOf(client).destroy(error)
      return
    }
    const isLong = silentMsMax === undefined || atLongWork.has(client)
    if (isLong && isAtWork) seen.atWorkMs = answer.askedMs
    const limitMs = isLong ? databaseSilentMsMax : silentMsMax
    if (nowMs - Math.max(seen.sinceMs, seen.atWorkMs) < limitMs || streamOf(client).destroyed) return
    cancelStatement(client)
    streamOf(client).destroy(new SilentDatabase(limitMs))
  }

  private isAtWork({ atWork }: Answer, client: pg.PoolClient): boolean {
    const state = atWork.get(processIdOf(client))
    return state === 'works' || (state === 'listens' && waitingForSource.has(client))
  }

  private async ask(askedMs: number): Promise<void> {
    if (this.isAsking) return
    this.isAsking = true
    this.askedMs = askedMs
    try {
      const { rows, processId } = await this.route.ask<Row>(question)
      const hangMs = (row: Row) => row.hangMs ?? -1
      const [longest] = rows.toSorted((a, b) => hangMs(b) - hangMs(a))
      this.answer = {
        askedMs,
        pooled: longest?.own !== processId,
        atWork: new Map(rows.map(({ pid, listens }) => [pid, listens ? 'listens' : 'works'])),
        hang: longest && hangMs(longest) >= 0 ? { what: describeHang(longest), ms: hangMs(longest) } : undefined,
      }
    } catch {
      // the last answer grows old
    } finally {
      this.isAsking = false
    }
    const { hang } = this.answer ?? {}
    if (hang && hang.ms >= hangMsMin) this.tell(hang.what)
  }

  private tell(hang: string | undefined): void {
    if (this.isTold === (hang !== undefined)) return
    this.isTold = hang !== undefined
    const limit = Number.isFinite(this.options.hangMsMax)
      ? ` Waiting for it, for ${this.patience.awayMax} at most.`
      : ''
    const text =
      hang === undefined
        ? 'The database confirms commits again: going on.'
        : `The database confirms nothing: ${hang}.${limit}`
    this.options.onHang?.(text)
    for (const listener of hangListeners) listener(this.isTold)
  }
}

function countBytes(client: pg.PoolClient): number {
  const { bytesRead, bytesWritten } = streamOf(client)
  return bytesRead + bytesWritten
}
