/**
 * The row in which all processes share what they know of a receiver (contract 4.12, 4.17), by the database's clock: the only SQL on
 * the table `receivers`. Each process reads and writes it in turn, so that trouble and recovery cannot overtake each other.
 */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import {
  gzipRefusalMs,
  outagePauseMsMax,
  outageSecondMs,
  paceDays,
  refusalSecondMs,
  refusalTryMs,
  retryAfterMsMax,
} from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import { type KnownTrouble, pauseAfter, type Write } from './health.ts'
import type { KnownPace } from './pace.ts'

export interface Known {
  /** Undefined: the receiver is in no trouble as far as anybody knows. */
  trouble: KnownTrouble | undefined
  pace: KnownPace
  /** Whether it takes compressed deliveries, and whether it has refused one lately. */
  gzip: { takes: boolean; isRefused: boolean }
}

/** The receiver that refuses every delivery alike, if there is one: pushes to it are held. */
export async function findRefused(db: Database): Promise<{ status: number; since: Date } | undefined> {
  const { rows } = await rideOut(() =>
    sql<{ status: number; since: Date }>`
      select refused_status as status, trouble_since as since from receivers where refused_status is not null
      order by trouble_since desc limit 1
    `.execute(db),
  )
  return rows[0]
}

const ms = (milliseconds: number) => sql`${milliseconds} * interval '1 millisecond'`

/** SQL: the pause between two second attempts. */
const secondPause = sql`case when refused_status is null then ${ms(outageSecondMs)} else ${ms(refusalSecondMs)} end`
const tryPauseMax = sql`case when refused_status is null then ${ms(outagePauseMsMax)} else ${ms(refusalTryMs)} end`

/** SQL: milliseconds until `time`. A time too far ahead comes from a wrong clock, and is over. */
const until = (time: RawBuilder<unknown>, max: RawBuilder<unknown>) => sql<number>`
  coalesce(extract(epoch from case when ${time} - now() between interval '0' and ${max} then ${time} - now() end) * 1000, 0)::double precision`

/** A receiver's key in the table; its URL may hold a secret. */
export const hashReceiver = (receiverUrl: string) => createHash('sha256').update(receiverUrl).digest()

export class ReceiverRow {
  private readonly db: Database
  private readonly id: Buffer
  private last: Promise<unknown> = Promise.resolve()
  private writes = 0

  constructor(db: Database, receiverUrl: string) {
    this.db = db
    this.id = hashReceiver(receiverUrl)
  }

  /** What the row says; undefined where this process writes meanwhile, so that the answer may be stale. An absent database is thrown. */
  async read(): Promise<Known | undefined> {
    const { writes } = this
    const known = await this.inTurn(() => this.find())
    return writes === this.writes ? known : undefined
  }

  /** Reads for a push that begins. With `isOnlyOne` a refusal of another URL is over: nobody pushes there any more. */
  async begin(isOnlyOne: boolean): Promise<Known> {
    return await this.write(async () => {
      if (isOnlyOne)
        await sql`
        update receivers set trouble_since = null, refused_status = null
        where url_sha256 <> ${this.id} and refused_status is not null
      `.execute(this.db)
      return await this.find()
    })
  }

  /** Reserves the try that follows `tries` others; false: another process has it, or the receiver is well again. */
  async take(tries: number, kind: AttemptKind): Promise<boolean> {
    const { numAffectedRows } = await this.write(() =>
      sql`
        update receivers set tries = tries + 1,
          next_at = now() + case when refused_status is null then ${ms(pauseAfter(tries + 1))} else ${ms(refusalTryMs)} end,
          second_at = case when ${kind === 'second'} then now() else second_at end
        where url_sha256 = ${this.id} and trouble_since is not null and tries = ${tries}
          and (${kind === 'first'} or second_at is null or second_at > now() or second_at <= now() - (${secondPause}))
      `.execute(this.db),
    )
    return numAffectedRows === 1n
  }

  async tell(what: Write): Promise<void> {
    await this.write(() => this.statementFor(what).execute(this.db))
  }

  async tellPace({ pausedMs, allowedRate }: KnownPace, isFree: boolean): Promise<void> {
    await this.write(() =>
      sql`
        insert into receivers as r (url_sha256, paused_until, rate, rate_at)
        values (${this.id}, now() + ${ms(pausedMs)}, ${allowedRate}, case when ${allowedRate}::float8 is not null then now() end)
        on conflict (url_sha256) do update set
          paused_until = case when r.paused_until > now() + ${ms(retryAfterMsMax)} then excluded.paused_until
            else greatest(r.paused_until, excluded.paused_until) end,
          rate = case when ${isFree} then null else coalesce(excluded.rate, r.rate) end,
          rate_at = case when ${isFree} then null else coalesce(excluded.rate_at, r.rate_at) end
      `.execute(this.db),
    )
  }

  /** A refusal outlives what other answers say, whichever process had it. */
  async tellGzip(takes: boolean): Promise<void> {
    await this.write(() =>
      sql`
        insert into receivers as r (url_sha256, takes_gzip, refused_gzip_at)
        values (${this.id}, ${takes}, case when not ${takes} then now() end)
        on conflict (url_sha256) do update set
          takes_gzip = excluded.takes_gzip and coalesce(r.refused_gzip_at <= now() - ${ms(gzipRefusalMs)}, true),
          refused_gzip_at = coalesce(excluded.refused_gzip_at, r.refused_gzip_at)
      `.execute(this.db),
    )
  }

  private async find(): Promise<Known> {
    type Row = KnownTrouble & KnownPace & Known['gzip'] & { isInTrouble: boolean }
    const { rows } = await sql<Row>`
      select trouble_since is not null as "isInTrouble", refused_status as status, tries,
        ${until(sql`next_at`, tryPauseMax)} as "nextMs", ${until(sql`(second_at + ${secondPause})`, secondPause)} as "secondMs",
        ${until(sql`paused_until`, ms(retryAfterMsMax))} as "pausedMs",
        case when rate_at between now() - ${paceDays} * interval '1 day' and now() then rate end as "allowedRate",
        takes_gzip as takes, coalesce(refused_gzip_at > now() - ${ms(gzipRefusalMs)}, false) as "isRefused"
      from receivers where url_sha256 = ${this.id}
    `.execute(this.db)
    const [found] = rows
    if (found === undefined)
      return { trouble: undefined, pace: { pausedMs: 0, allowedRate: null }, gzip: { takes: false, isRefused: false } }
    const { isInTrouble, status, tries, nextMs, secondMs, pausedMs, allowedRate, takes, isRefused } = found
    const trouble = isInTrouble ? { status, tries, nextMs, secondMs } : undefined
    return { trouble, pace: { pausedMs, allowedRate }, gzip: { takes, isRefused } }
  }

  private statementFor(what: Write) {
    switch (what.says) {
      case 'well':
        return sql`update receivers set trouble_since = null, refused_status = null where url_sha256 = ${this.id}`
      case 'down':
        return sql`
          insert into receivers as r (url_sha256, trouble_since, next_at) values (${this.id}, now(), now() + ${ms(pauseAfter(0))})
          on conflict (url_sha256) do update set
            trouble_since = now(), refused_status = null, tries = 0, next_at = excluded.next_at
          where r.trouble_since is null or (${what.instead} and r.refused_status is not null)
        `
      case 'refuses':
        // the next push may try at once
        return sql`
          insert into receivers as r (url_sha256, trouble_since, refused_status, next_at)
          values (${this.id}, now(), ${what.status}, now())
          on conflict (url_sha256) do update set
            trouble_since = now(), refused_status = excluded.refused_status, tries = 0, next_at = now(), second_at = null
          where r.trouble_since is null or r.refused_status is distinct from excluded.refused_status
        `
      case 'not made':
        return sql`
          update receivers set tries = tries - 1, next_at = now(),
            second_at = case when ${what.kind === 'second'} then null else second_at end
          where url_sha256 = ${this.id} and trouble_since is not null and tries = ${what.tries}
        `
    }
  }

  private write<T>(work: () => Promise<T>): Promise<T> {
    this.writes++
    return this.inTurn(() => rideOut(work))
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.last.then(work)
    this.last = turn.catch(() => {})
    return turn
  }
}
