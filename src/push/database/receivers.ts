/**
 * The row in which all processes share their knowledge of a receiver (contract 4.12, 4.17), by the database's clock: the only SQL on the
 * table `receivers`.
 */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { gzipRefusalMs, paceDays, retryAfterMsMax } from '../../base/limits.ts'
import { repeatable } from '../../db/dialect.ts'
import type { Database } from '../../db/open.ts'
import { rideOut } from '../../db/patience.ts'
import type { Known, ReceiverNews, ReceiverStore } from '../ledger.ts'
import { type Trouble, troubleRules } from '../receiver/trouble.ts'

/** SQL: the trouble in a row, as JSON. */
const troubleJson = sql`json_strip_nulls(json_build_object('is', trouble, 'status', refused_status))`

/** The trouble that a push found last, if a receiver is in trouble. */
export async function findTrouble(db: Database): Promise<{ trouble: Trouble; since: Date } | undefined> {
  const { rows } = await sql<{ trouble: Trouble; since: Date }>`
      select ${troubleJson} as trouble, trouble_since as since from receivers where trouble is not null
      order by trouble_since desc limit 1
    `.execute(db)
  return rows[0]
}

/** A receiver's key in the table; its URL may hold a secret. */
export const hashReceiver = (receiverUrl: string) => createHash('sha256').update(receiverUrl).digest()

const ms = (milliseconds: number) => sql`${milliseconds} * interval '1 millisecond'`
/** SQL: a pause, by the trouble in the row. */
const byTrouble = (of: (rules: (typeof troubleRules)[Trouble['is']]) => number) =>
  sql`case trouble ${sql.join(
    Object.entries(troubleRules).map(([is, rules]) => sql`when ${is} then ${ms(of(rules))}`),
    sql` `,
  )} end`
/** SQL: the pause between two second attempts. */
const secondPause = byTrouble(({ secondPauseMs }) => secondPauseMs)

/**
 * SQL: milliseconds until `time`. A time too far ahead comes from a wrong clock, and counts as over; against `now()` so would the pause
 * that another transaction has begun since this one did.
 */
const until = (time: RawBuilder<unknown>, max: RawBuilder<unknown>) => {
  const ahead = sql`${time} - clock_timestamp()`
  return sql<number>`
    coalesce(extract(epoch from case when ${ahead} between interval '0' and ${max} then ${ahead} end) * 1000, 0)::double precision`
}

/** SQL: milliseconds until a second attempt may be made. */
const secondMs = until(sql`(second_at + ${secondPause})`, secondPause)

async function find(db: Database, id: Buffer, runId: number): Promise<Known> {
  const { rows } = await sql<Known>`
    select case when trouble is not null then json_build_object('trouble', ${troubleJson}, 'tries', tries,
        'nextMs', ${until(
          sql`next_at`,
          byTrouble(({ pauseMsMax }) => pauseMsMax),
        )}, 'secondMs', ${secondMs}) end as trouble,
      json_build_object('pausedMs', ${until(sql`paused_until`, ms(retryAfterMsMax))}, 'allowedRate',
        case when rate_at between now() - ${paceDays} * interval '1 day' and now() then rate end) as pace,
      case when well_by <> ${runId} and well_at <= now() then (extract(epoch from now() - well_at) * 1000)::double precision end as "wellMs",
      case when refused_gzip_at > now() - ${ms(gzipRefusalMs)} then 'refused' when takes_gzip then 'takes' end as gzip
    from receivers where url_sha256 = ${id}
  `.execute(db)
  return rows[0] ?? { trouble: null, pace: { pausedMs: 0, allowedRate: null }, wellMs: null, gzip: null }
}

/** SQL that ends a trouble. */
const isWell = sql`trouble = null, trouble_since = null, refused_status = null`
const statusOf = (trouble: Trouble) => (trouble.is === 'refuses' ? trouble.status : null)
/** SQL: whether the row is in that trouble. */
const isIn = (trouble: Trouble) => sql<boolean>`(trouble is not distinct from ${trouble.is}
  and refused_status is not distinct from ${statusOf(trouble)}::smallint)`

/**
 * What another process has found goes before a receiver that only asks for less: that is found by the time without a success, also by a
 * process that was frozen meanwhile.
 *
 * A process keeps the `next_at` that it has read with a count of tries, so while a trouble lasts `next_at` changes only with the count. A
 * try that is taken back brings a count again: both times of that count have passed by then.
 */
function statementFor(id: Buffer, runId: number, news: ReceiverNews) {
  switch (news.says) {
    case 'well':
      return sql`update receivers set ${isWell} where url_sha256 = ${id}`
    case 'trouble':
      return sql`
        update receivers set trouble = ${news.trouble.is}, trouble_since = now(), refused_status = ${statusOf(news.trouble)},
          tries = 0, second_at = null, next_at = now() + ${ms(troubleRules[news.trouble.is].pauseMs(0))}
        where url_sha256 = ${id} and not ${isIn(news.trouble)} and (${news.trouble.is !== 'asks'} or trouble is null)
      `
    case 'try':
      return sql`
        update receivers set tries = tries + 1, next_at = now() + ${ms(troubleRules[news.trouble.is].pauseMs(news.tries + 1))},
          second_at = case when ${news.kind === 'second'} then now() else second_at end
        where url_sha256 = ${id} and ${isIn(news.trouble)} and tries = ${news.tries}
          and (${news.kind === 'first'} or ${secondMs} = 0)
      `
    case 'taken back':
      return sql`
        update receivers set tries = tries - 1, next_at = now(),
          second_at = case when ${news.kind === 'second'} then null else second_at end
        where url_sha256 = ${id} and ${isIn(news.trouble)} and tries = ${news.tries}
      `
    case 'pace':
      return sql`
        update receivers set rate = ${news.allowedRate}, rate_at = now(),
          paused_until = greatest(
            now() + ${ms(news.pausedMs)}, case when paused_until <= clock_timestamp() + ${ms(retryAfterMsMax)} then paused_until end)
        where url_sha256 = ${id}
      `
    case 'success':
      return sql`
        update receivers set well_at = now() - ${ms(news.agoMs)}, well_by = ${runId}
        where url_sha256 = ${id} and (well_at between now() - ${ms(news.agoMs)} and now()) is not true
      `
    case 'gzip':
      return sql`
        update receivers set takes_gzip = ${news.takes} and coalesce(refused_gzip_at <= now() - ${ms(gzipRefusalMs)}, true),
          refused_gzip_at = case when ${news.takes} then refused_gzip_at else now() end
        where url_sha256 = ${id}
      `
  }
}

export const databaseReceiver = (db: Database, receiverUrl: string, runId: number): ReceiverStore => {
  const id = hashReceiver(receiverUrl)
  return {
    read: () => find(db, id, runId),
    begin: (isOnlyOne) =>
      rideOut(db, async () => {
        await sql`insert into receivers (url_sha256) values (${id}) on conflict do nothing`.execute(db)
        if (isOnlyOne)
          await sql`update receivers set ${isWell} where url_sha256 <> ${id} and trouble is not null`.execute(db)
        return await find(db, id, runId)
      }),
    async tell(news) {
      const { numAffectedRows } =
        await sql`${repeatable('each counts once, or sets values')} ${statementFor(id, runId, news)}`.execute(db)
      return numAffectedRows === 1n
    },
  }
}
