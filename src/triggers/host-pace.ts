/**
 * Paces the attempts at each host (contract 6.5), over all processes that send triggers: each asks the database for turns, which are
 * `hostTurnSpacingMs` apart, and begins an attempt in the `hostTurnLateMsMax` after its turn. Hence no second has more than 30.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'kysely'
import { hostTurnLateMsMax, hostTurnSpacingMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'

/** Whoever would have to wait longer meets a clock that was wrong. */
const waitMsMax = 60_000
const lateMsMax = 10_000
/** A host whose last turn is so long past may be forgotten. */
const forgottenAfterHours = 1

/** The host of a URL: a name or an address, without its port. */
export const hostOf = (url: string): string =>
  URL.canParse(url) ? new URL(url).hostname.replace(/\.$/, '').toLowerCase() : ''

/** Turns at one host, `gapMs` apart. */
interface Asked {
  host: string
  count: number
  gapMs: number
}

/** Takes turns; returns in how many milliseconds the first of each host comes. Hosts are locked in the order of their names. */
async function takeTurns(db: Database, asked: readonly Asked[]): Promise<Map<string, number>> {
  const { rows } = await sql<{ host: string; startMs: number }>`
    with asked as materialized (
      select host, length from unnest(${asked.map(({ host }) => host)}::text[],
        ${asked.map(({ count, gapMs }) => count * gapMs)}::double precision[]) as a (host, ms)
        cross join lateral (select ms * interval '1 millisecond' as length) l
      order by host
    ),
    taken as (
      insert into hook_hosts as h (host, next_at) select host, clock_timestamp() + length from asked order by host
      on conflict (host) do update set next_at = (select a.length from asked a where a.host = h.host)
        + case when h.next_at < clock_timestamp() + ${waitMsMax} * interval '1 millisecond'
          then greatest(h.next_at, clock_timestamp()) else clock_timestamp() end
      returning host, next_at
    )
    select t.host, extract(epoch from t.next_at - a.length - clock_timestamp())::double precision * 1000 as "startMs"
    from taken t join asked a on a.host = t.host
  `.execute(db)
  return new Map(rows.map(({ host, startMs }) => [host, startMs]))
}

/** Forgets hosts that nobody calls any more. */
export async function forgetHosts(db: Database): Promise<void> {
  await sql`delete from hook_hosts where next_at < now() - ${forgottenAfterHours} * interval '1 hour'`.execute(db)
}

/** When an attempt may begin, by `performance.now()`. */
interface Turn {
  fromMs: number
  untilMs: number
}

interface Waiting {
  host: string
  /** How long after its turn the attempt may begin. */
  lateMs: number
  onTurn(turn: Turn): void
  onFailure(error: unknown): void
}

/** The pace of this process's attempts. */
export class HostPace {
  private readonly db: Database
  private readonly onAway: (error: unknown) => void
  private waiting: Waiting[] = []
  private asking = false

  constructor(db: Database, onAway: (error: unknown) => void) {
    this.db = db
    this.onAway = onAway
  }

  /** Waits until an attempt at `host` may begin; it must begin at once. Throws `database` when the database stays away. */
  async waitForTurn(host: string): Promise<void> {
    // a turn that this process was too slow for is lost; the next one may be later, and keeps others off for longer
    for (let lateMs = hostTurnLateMsMax; ; lateMs = Math.min(2 * lateMs, lateMsMax)) {
      const turn = await this.ask(host, lateMs)
      const waitMs = turn.fromMs - performance.now()
      if (waitMs > 0) await delay(waitMs)
      if (performance.now() <= turn.untilMs) return
    }
  }

  private ask(host: string, lateMs: number): Promise<Turn> {
    return new Promise((onTurn, onFailure) => {
      this.waiting.push({ host, lateMs, onTurn, onFailure })
      void this.askForAll()
    })
  }

  /** One statement at a time, for all that wait by then. */
  private async askForAll(): Promise<void> {
    if (this.asking) return
    this.asking = true
    while (this.waiting.length > 0) {
      const waiting = this.waiting
      this.waiting = []
      await this.askFor(waiting).catch((error) => {
        for (const { onFailure } of waiting) onFailure(error)
      })
    }
    this.asking = false
  }

  private async askFor(waiting: readonly Waiting[]): Promise<void> {
    const groups = new Map<string, Waiting[]>()
    for (const each of waiting) groups.set(each.host, [...(groups.get(each.host) ?? []), each])
    const asked = [...groups].map(([host, group]) => {
      const lateMs = Math.max(...group.map((each) => each.lateMs))
      return { host, count: group.length, lateMs, gapMs: hostTurnSpacingMs + lateMs - hostTurnLateMsMax }
    })
    let sentAtMs = 0
    const starts = await rideOut(() => {
      sentAtMs = performance.now()
      return takeTurns(this.db, asked)
    }, this.onAway)
    const answeredAtMs = performance.now()
    for (const { host, lateMs, gapMs } of asked) {
      for (const [at, { onTurn }] of (groups.get(host) ?? []).entries()) {
        const afterMs = (starts.get(host) ?? 0) + at * gapMs
        // the database told the time somewhere between the question and its answer
        onTurn({ fromMs: answeredAtMs + afterMs, untilMs: sentAtMs + afterMs + lateMs })
      }
    }
  }
}
