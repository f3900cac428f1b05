/**
 * Watches connections on which nothing comes: their server may be gone without a word, it may still be at work, or its commits
 * may hang, since `synchronous_standby_names` has it wait for a standby that is not there.
 */
import type pg from 'pg'
import { LeadpushError } from '../base/errors.ts'
import { databaseSilentMsMax } from '../base/limits.ts'
import { formatAwayMax, giveUp, SilentDatabase } from './away.ts'
import { cancelStatement, isReady, processIdOf, streamOf } from './client.ts'
import type { Route } from './route.ts'

/** So often connections are looked at. */
const tickMs = 1_000
/** After so long without a word the server is asked what it does, and again after as long. */
const askMs = 5_000
/** A commit that waits for a standby for less is not told of. */
const hangMsMin = 3_000

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
  /** What a commit waits for, and for how long already. */
  hang: { what: string; ms: number } | undefined
}

interface Row {
  own: number
  pid: number
  hangMs: number | null
  names: string
  standbys: number
}

// every role sees what its own sessions wait for, and how many standbys there are
const question = `
  select pg_backend_pid() as own, pid,
    case wait_event when 'SyncRep' then extract(epoch from clock_timestamp() - state_change)::double precision * 1000 end
      as "hangMs",
    current_setting('synchronous_standby_names') as names, (select count(*)::integer from pg_stat_replication) as standbys
  from pg_stat_activity where usename = session_user and datname = current_database() and state not like 'idle%'`

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
  onHang: ((text: string) => void) | undefined
}

/** A connection in use. */
interface Seen {
  /** Read and written, when it was last looked at. */
  bytes: number
  /** Since when it has been silent. */
  sinceMs: number
  /** When the server last said that it is at work for it. */
  atWorkMs: number
}

/** Gives up connections that lead nowhere; one for each pool. */
export class SilenceWatch {
  private readonly route: Route
  private readonly options: SilenceOptions
  private readonly inUse = new Map<pg.PoolClient, Seen>()
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

  /** Gives the connection up where nothing can be expected of it. */
  private judge(client: pg.PoolClient, seen: Seen, nowMs: number): void {
    const { silentMsMax, hangMsMax } = this.options
    const silentMs = nowMs - seen.sinceMs
    const answer = this.answer && this.answer.askedMs >= nowMs - Math.min(silentMs, 3 * askMs) ? this.answer : undefined
    const isAtWork = answer !== undefined && (answer.pooled || answer.atWork.has(processIdOf(client)))
    if (isAtWork && answer.hang) {
      // not cancelled: the server would then show, as committed, what no standby has
      if (silentMs < hangMsMax || answer.hang.ms < hangMsMin) return
      const message = `The database cannot be used: ${answer.hang.what}`
      const error = new LeadpushError('database', message, { hint: adviseOnHang })
      giveUp(error)
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
        atWork: new Set(rows.map(({ pid }) => pid)),
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
    const limit = Number.isFinite(this.options.hangMsMax) ? ` Waiting for it, for ${formatAwayMax()} at most.` : ''
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
