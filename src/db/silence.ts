/**
 * Watches connections on which nothing comes: their server may be gone without a word, it may still be at work, or its commits
 * may hang, since `synchronous_standby_names` has it wait for a standby that is not there.
 */
import type pg from 'pg'
import { LeadpushError } from '../base/errors.ts'
import { formatAwayMax, giveUp, SilentDatabase } from './away.ts'
import { streamOf } from './client.ts'
import type { Route } from './route.ts'

/** So often connections are looked at. */
const tickMs = 1_000
/** After so long without a word the server is asked what it does, and again after as long. */
const askMs = 5_000
/** A commit that waits for a standby for less is no trouble. */
const hangMsMin = 3_000
/** A connection with a long statement leads nowhere when the server answers others and knows nothing of it. */
const longSilentMsMax = 25_000

/** Connections with a statement that may be at work for long. */
const atLongWork = new WeakSet<object>()

/** Lets a statement of `client` take its time as long as the server is at work on it; returns how to take that back. */
export function allowLongWork(client: object): () => void {
  atLongWork.add(client)
  return () => void atLongWork.delete(client)
}

const hangListeners = new Set<(hangs: boolean) => void>()

/** Calls `listener` when commits begin to hang, and when they do no more; returns how to take that back. */
export function onCommitsHang(listener: (hangs: boolean) => void): () => void {
  hangListeners.add(listener)
  return () => void hangListeners.delete(listener)
}

/** What the server says of itself on another connection. */
interface Answer {
  askedMs: number
  /** Another process answers in the server's place, so that ids of its processes say nothing. */
  pooled: boolean
  /** The processes that are at work for this role. */
  atWork: ReadonlySet<number>
  /** What its commits wait for; undefined: they do not hang. */
  hang: string | undefined
}

interface Row {
  own: number
  pid: number
  hangs: boolean
  names: string
  standbys: number
}

// every role sees what its own sessions wait for, and how many standbys there are
const question = `
  select pg_backend_pid() as own, pid,
    wait_event is not distinct from 'SyncRep' and state_change < clock_timestamp() - interval '${hangMsMin} ms' as hangs,
    current_setting('synchronous_standby_names') as names, (select count(*)::integer from pg_stat_replication) as standbys
  from pg_stat_activity where usename = session_user and datname = current_database() and state = 'active'`

function describeHang({ names, standbys }: Row): string {
  const present = standbys === 0 ? 'no standby is attached' : 'none of those that are attached confirms them'
  return `its commits wait for a synchronous standby, and ${present} (synchronous_standby_names is '${names}')`
}

const adviseOnHang =
  'Bring the standby back, or take it out of synchronous_standby_names and reload the server; then run the command again: it continues where it stopped. What waits is committed then; cancelled, it would count as committed though no standby has it.'

interface SilenceOptions {
  /** Without it every statement may take long. */
  silentMsMax: number | undefined
  /** Commits may hang for so long. */
  hangMsMax: number
  /** Told when commits begin to hang, and when they do no more. */
  onAway: ((text: string) => void) | undefined
  /** Has the server end the statement of a connection that is given up. */
  cancel(client: pg.PoolClient): void
}

/** Gives up connections that lead nowhere; one for each pool. */
export class SilenceWatch {
  private readonly route: Route
  private readonly options: SilenceOptions
  private readonly inUse = new Map<pg.PoolClient, { bytes: number; sinceMs: number }>()
  private readonly timer: NodeJS.Timeout
  private isAsking = false
  private askedMs = 0
  private answer: Answer | undefined
  private isTold = false

  constructor(route: Route, options: SilenceOptions) {
    this.route = route
    this.options = options
    this.timer = setInterval(() => this.look(), tickMs).unref()
  }

  begin(client: pg.PoolClient): void {
    this.inUse.set(client, { bytes: countBytes(client), sinceMs: performance.now() })
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
      if (bytes !== seen.bytes) Object.assign(seen, { bytes, sinceMs: nowMs })
      const silentMs = nowMs - seen.sinceMs
      longestMs = Math.max(longestMs, silentMs)
      this.judge(client, silentMs, nowMs)
    }
    const everyMs = Math.min(askMs, (this.options.silentMsMax ?? askMs) / 2)
    if (longestMs >= everyMs && nowMs - this.askedMs >= everyMs) void this.ask(nowMs)
    else if (longestMs < everyMs) this.tell(undefined)
  }

  /** Gives the connection up where nothing can be expected of it after `silentMs`. */
  private judge(client: pg.PoolClient, silentMs: number, nowMs: number): void {
    const { silentMsMax, hangMsMax, cancel } = this.options
    const isLong = silentMsMax === undefined || atLongWork.has(client)
    const answer = this.answer && this.answer.askedMs > nowMs - silentMs ? this.answer : undefined
    const isAtWork = answer?.pooled || answer?.atWork.has((client as unknown as { processID: number }).processID)
    if (answer?.hang !== undefined && isAtWork) {
      // not cancelled: the server would then confirm, to everybody, what no standby has
      if (silentMs < hangMsMax) return
      const error = new LeadpushError('database', `The database cannot be used: ${answer.hang}`, { hint: adviseOnHang })
      giveUp(error)
      streamOf(client).destroy(error)
      return
    }
    const limitMs = isLong ? longSilentMsMax : silentMsMax
    if (silentMs < limitMs || (isLong && isAtWork)) return
    cancel(client)
    streamOf(client).destroy(new SilentDatabase(limitMs))
  }

  /** The last answer is forgotten where the server gives none. */
  private async ask(askedMs: number): Promise<void> {
    if (this.isAsking) return
    this.isAsking = true
    this.askedMs = askedMs
    try {
      const rows = await this.route.ask<Row>(question)
      const pid = rows.processId
      const [first] = rows.rows
      const hanging = rows.rows.find(({ hangs }) => hangs)
      this.answer = {
        askedMs,
        pooled: first?.own !== pid,
        atWork: new Set(rows.rows.map((row) => row.pid)),
        hang: hanging && describeHang(hanging),
      }
    } catch {
      this.answer = undefined
    } finally {
      this.isAsking = false
    }
    if (this.answer?.hang !== undefined) this.tell(this.answer.hang)
  }

  private tell(hang: string | undefined): void {
    if (this.isTold === (hang !== undefined)) return
    this.isTold = hang !== undefined
    const text =
      hang === undefined
        ? 'The database confirms commits again: going on.'
        : `The database confirms nothing: ${hang}. Waiting for it, for ${formatAwayMax()} at most.`
    this.options.onAway?.(text)
    for (const listener of hangListeners) listener(this.isTold)
  }
}

function countBytes(client: pg.PoolClient): number {
  const { bytesRead, bytesWritten } = streamOf(client)
  return bytesRead + bytesWritten
}
