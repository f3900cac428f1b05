/**
 * The row in which all processes share their knowledge of a receiver (contract 4.12, 4.17), by the database's clock: the only SQL on the
 * table `receivers`.
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
} from '../../base/limits.ts'
import { rideOut } from '../../db/away.ts'
import type { Database } from '../../db/open.ts'
import type { Known, ReceiverNews, ReceiverStore } from '../ledger.ts'
import { pauseAfter } from '../receiver/health.ts'

/** The trouble that a push found last, if a receiver is in trouble; `status` null: it is down. */
export async function findTrouble(db: Database): Promise<{ status: number | null; since: Date } | undefined> {
  const { rows } = await rideOut(() =>
    sql<{ status: number | null; since: Date }>`
      select refused_status as status, trouble_since as since from receivers where trouble_since is not null
      order by trouble_since desc limit 1
    `.execute(db),
  )
  return rows[0]
}

/** A receiver's key in the table; its URL may hold a secret. */
export const hashReceiver = (receiverUrl: string) => createHash('sha256').update(receiverUrl).digest()

const ms = (milliseconds: number) => sql`${milliseconds} * interval '1 millisecond'`
const byTrouble = (downMs: number, refusesMs: number) =>
  sql`case when refused_status is null then ${ms(downMs)} else ${ms(refusesMs)} end`
/** SQL: the pause between two second attempts. */
const secondPause = byTrouble(outageSecondMs, refusalSecondMs)

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

async function find(db: Database, id: Buffer): Promise<Known> {
  const { rows } = await sql<Known>`
    select case when trouble_since is not null then json_build_object('status', refused_status, 'tries', tries,
        'nextMs', ${until(sql`next_at`, byTrouble(outagePauseMsMax, refusalTryMs))}, 'secondMs', ${secondMs}) end as trouble,
      json_build_object('pausedMs', ${until(sql`paused_until`, ms(retryAfterMsMax))}, 'allowedRate',
        case when rate_at between now() - ${paceDays} * interval '1 day' and now() then rate end) as pace,
      case when refused_gzip_at > now() - ${ms(gzipRefusalMs)} then 'refused' when takes_gzip then 'takes' end as gzip
    from receivers where url_sha256 = ${id}
  `.execute(db)
  return rows[0] ?? { trouble: null, pace: { pausedMs: 0, allowedRate: null }, gzip: null }
}

function statementFor(id: Buffer, news: ReceiverNews) {
  switch (news.says) {
    case 'well':
      return sql`update receivers set trouble_since = null, refused_status = null where url_sha256 = ${id}`
    case 'trouble':
      // if it refuses, the next push may try at once
      return sql`
        update receivers set trouble_since = now(), refused_status = ${news.status}, tries = 0, second_at = null,
          next_at = now() + ${ms(news.status === null ? pauseAfter(0) : 0)}
        where url_sha256 = ${id} and (trouble_since is null or refused_status is distinct from ${news.status})
      `
    case 'try':
      return sql`
        update receivers set tries = tries + 1, next_at = now() + ${byTrouble(pauseAfter(news.tries + 1), refusalTryMs)},
          second_at = case when ${news.kind === 'second'} then now() else second_at end
        where url_sha256 = ${id} and trouble_since is not null and tries = ${news.tries}
          and refused_status is not distinct from ${news.status} and (${news.kind === 'first'} or ${secondMs} = 0)
      `
    case 'not made':
      return sql`
        update receivers set tries = tries - 1, next_at = now(),
          second_at = case when ${news.kind === 'second'} then null else second_at end
        where url_sha256 = ${id} and trouble_since is not null and tries = ${news.tries}
          and refused_status is not distinct from ${news.status}
      `
    case 'pace':
      return sql`
        update receivers set rate = ${news.allowedRate}, rate_at = now(),
          paused_until = greatest(
            now() + ${ms(news.pausedMs)}, case when paused_until <= clock_timestamp() + ${ms(retryAfterMsMax)} then paused_until end)
        where url_sha256 = ${id}
      `
    case 'gzip':
      return sql`
        update receivers set takes_gzip = ${news.takes} and coalesce(refused_gzip_at <= now() - ${ms(gzipRefusalMs)}, true),
          refused_gzip_at = case when ${news.takes} then refused_gzip_at else now() end
        where url_sha256 = ${id}
      `
  }
}

export const databaseReceiver = (db: Database, receiverUrl: string): ReceiverStore => {
  const id = hashReceiver(receiverUrl)
  return {
    read: () => find(db, id),
    begin: (isOnlyOne) =>
      rideOut(async () => {
        await sql`insert into receivers (url_sha256) values (${id}) on conflict do nothing`.execute(db)
        if (isOnlyOne)
          await sql`
            update receivers set trouble_since = null, refused_status = null
            where url_sha256 <> ${id} and trouble_since is not null
          `.execute(db)
        return await find(db, id)
      }),
    async tell(news) {
      const { numAffectedRows } = await rideOut(() => statementFor(id, news).execute(db))
      return numAffectedRows === 1n
    },
  }
}
