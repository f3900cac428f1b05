/**
 * Paces the attempts at each host (contract 6.5), over all processes that send triggers: each asks the database for turns, which are
 * `hostTurnSpacingMs` apart, and begins an attempt in the `hostTurnLateMsMax` after its turn. Hence no second has more than 30.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { type RawBuilder, sql } from 'kysely'
import { hostTurnLateMsMax, hostTurnSpacingMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'

/** Whoever would have to wait longer meets a clock that was wrong. */
const waitMsMax = 60_000
const lateMsMax = 10_000
/** A question that takes longer asks for a turn that is not over when the answer comes. */
const slowMs = hostTurnLateMsMax / 2
/** A process asks for the time alone so often at most: a database that is always slow stays in doubt. */
const clockQuestionsMax = 3
/** A host whose last turn is so long past may be forgotten. */
const forgottenAfterHours = 1

/** The host of a URL: a name or an address, without its port. */
export const hostOf = (url: string): string =>
  URL.canParse(url) ? new URL(url).hostname.replace(/\.$/, '').toLowerCase() : ''

/** Turns at one host that take `lengthMs` in all. */
interface Asked {
  host: string
  lengthMs: number
}

/** The first turn at a host, and the time by the database's clock, in milliseconds since 1970. */
interface Taken {
  host: string
  startMs: number
  nowMs: number
}

const inMs = (moment: RawBuilder<unknown>) => sql<number>`extract(epoch from ${moment})::double precision * 1000`

/** The time by the database's clock, in milliseconds since 1970. */
async function readClock(db: Database): Promise<number> {
  const { rows } = await sql<{ nowMs: number }>`select ${inMs(sql`clock_timestamp()`)} as "nowMs"`.execute(db)
  return rows[0]?.nowMs ?? 0
}

/** Takes turns, none within `leadMs` from now. Hosts are locked in the order of their names. */
async function takeTurns(db: Database, asked: readonly Asked[], leadMs: number): Promise<Taken[]> {
  const soonest = sql`clock_timestamp() + ${leadMs} * interval '1 millisecond'`
  const { rows } = await sql<Taken>`
    with asked as materialized (
      select host, ms * interval '1 millisecond' as length from unnest(${asked.map(({ host }) => host)}::text[],
        ${asked.map(({ lengthMs }) => lengthMs)}::double precision[]) as a (host, ms)
    ),
    taken as (
      insert into hook_hosts as h (host, next_at) select host, ${soonest} + length from asked order by host
      on conflict (host) do update set next_at = (select a.length from asked a where a.host = h.host)
        + case when h.next_at < clock_timestamp() + ${waitMsMax} * interval '1 millisecond'
          then greatest(h.next_at, ${soonest}) else ${soonest} end
      returning host, next_at
    )
    select t.host, ${inMs(sql`t.next_at - a.length`)} as "startMs", ${inMs(sql`clock_timestamp()`)} as "nowMs"
    from taken t join asked a on a.host = t.host
  `.execute(db)
  return rows
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

/** From a turn to the next one at its host. */
const gapOf = ({ lateMs }: Waiting) => hostTurnSpacingMs + lateMs - hostTurnLateMsMax

/** How far the database's clock is ahead of `performance.now()`: between these. Each question narrows it down. */
class ClockOffset {
  private lowMs = Number.NEGATIVE_INFINITY
  private highMs = Number.POSITIVE_INFINITY

  /** The database told `nowMs` at a moment between these two. */
  note(nowMs: number, sentAtMs: number, answeredAtMs: number): void {
    const [lowMs, highMs] = [nowMs - answeredAtMs, nowMs - sentAtMs]
    const isChanged = lowMs > this.highMs || highMs < this.lowMs
    this.lowMs = isChanged ? lowMs : Math.max(lowMs, this.lowMs)
    this.highMs = isChanged ? highMs : Math.min(highMs, this.highMs)
  }

  get doubtMs(): number {
    return this.highMs - this.lowMs
  }

  /** The turn at `turnMs` by the database's clock, whose attempt begins at most `lateMs` after it. */
  turn(turnMs: number, lateMs: number): Turn {
    return { fromMs: turnMs - this.lowMs, untilMs: turnMs - this.highMs + lateMs }
  }
}

/** The pace of this process's attempts. */
export class HostPace {
  private readonly db: Database
  private readonly onAway: (error: unknown) => void
  private readonly clock = new ClockOffset()
  private leadMs = 0
  private clockQuestions = clockQuestionsMax
  private readingClock: Promise<void> | undefined
  private waiting: Waiting[] = []
  private asking = false

  constructor(db: Database, onAway: (error: unknown) => void) {
    this.db = db
    this.onAway = onAway
  }

  /** Waits until an attempt at `host` may begin; it must begin at once. Throws `database` when the database stays away. */
  async waitForTurn(host: string): Promise<void> {
    await this.readClock()
    // a turn for which this process was too slow is lost; the next one may be later, and keeps others off for longer
    for (let lateMs = Math.max(hostTurnLateMsMax, 1.5 * this.clock.doubtMs); ; lateMs = 2 * lateMs) {
      const turn = await this.ask(host, lateMs)
      const waitMs = turn.fromMs - performance.now()
      if (waitMs > 0) await delay(Math.ceil(waitMs))
      if (performance.now() <= turn.untilMs) return
    }
  }

  /** Narrows the doubt about the clock down, which makes each turn longer: one slow answer must not hold a host up. */
  private async readClock(): Promise<void> {
    while (this.clock.doubtMs > hostTurnLateMsMax / 2 && (this.clockQuestions > 0 || this.readingClock)) {
      this.readingClock ??= this.askClock().finally(() => {
        this.readingClock = undefined
      })
      await this.readingClock
    }
  }

  private async askClock(): Promise<void> {
    this.clockQuestions--
    let sentAtMs = 0
    const nowMs = await rideOut(() => {
      sentAtMs = performance.now()
      return readClock(this.db)
    }, this.onAway)
    this.clock.note(nowMs, sentAtMs, performance.now())
  }

  private ask(host: string, lateMs: number): Promise<Turn> {
    return new Promise((onTurn, onFailure) => {
      this.waiting.push({ host, lateMs: Math.min(lateMs, lateMsMax), onTurn, onFailure })
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
      return { host, lengthMs: group.reduce((sum, each) => sum + gapOf(each), 0) }
    })
    let sentAtMs = 0
    const taken = await rideOut(() => {
      sentAtMs = performance.now()
      return takeTurns(this.db, asked, this.leadMs)
    }, this.onAway)
    const tookMs = performance.now() - sentAtMs
    this.leadMs = tookMs > slowMs ? Math.min(2 * tookMs, lateMsMax) : 0
    this.clock.note(taken[0]?.nowMs ?? 0, sentAtMs, sentAtMs + tookMs)
    const starts = new Map(taken.map(({ host, startMs }) => [host, startMs]))
    for (const [host, group] of groups) {
      let turnMs = starts.get(host) ?? 0
      for (const each of group) {
        each.onTurn(this.clock.turn(turnMs, each.lateMs))
        turnMs += gapOf(each)
      }
    }
  }
}
