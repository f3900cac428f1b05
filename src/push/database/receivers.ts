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
import type { Known, ReceiverStore } from '../ledger.ts'
import { type KnownTrouble, pauseAfter, type Write } from '../receiver/health.ts'
import type { KnownPace } from '../receiver/pace.ts'

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

/** The receiver that was down when a push last tried it, if there is one. */
export async function findDown(db: Database): Promise<{ since: Date } | undefined> {
  const { rows } = await sql<{ since: Date }>`
    select trouble_since as since from receivers where trouble_since is not null and refused_status is null
    order by trouble_since desc limit 1
  `.execute(db)
  return rows[0]
}

const ms = (milliseconds: number) => sql`${milliseconds} * interval '1 millisecond'`

/** SQL: the pause between two second attempts. */
const secondPause = sql`case when refused_status is null then ${ms(outageSecondMs)} else ${ms(refusalSecondMs)} end`
const tryPauseMax = sql`case when refused_status is null then ${ms(outagePauseMsMax)} else ${ms(refusalTryMs)} end`

/** SQL: milliseconds until `time`. A time too far ahead comes from a wrong clock, and counts as over. */
const until = (time: RawBuilder<unknown>, max: RawBuilder<unknown>) => sql<number>`
  coalesce(extract(epoch from case when ${time} - now() between interval '0' and ${max} then ${time} - now() end) * 1000, 0)::double precision`

/** A receiver's key in the table; its URL may hold a secret. */
export const hashReceiver = (receiverUrl: string) => createHash('sha256').update(receiverUrl).digest()

async function find(db: Database, id: Buffer): Promise<Known> {
  type Row = KnownTrouble & KnownPace & Known['gzip'] & { isInTrouble: boolean }
  const { rows } = await sql<Row>`
    select trouble_since is not null as "isInTrouble", refused_status as status, tries,
      ${until(sql`next_at`, tryPauseMax)} as "nextMs", ${until(sql`(second_at + ${secondPause})`, secondPause)} as "secondMs",
      ${until(sql`paused_until`, ms(retryAfterMsMax))} as "pausedMs",
      case when rate_at between now() - ${paceDays} * interval '1 day' and now() then rate end as "allowedRate",
      takes_gzip as takes, coalesce(refused_gzip_at > now() - ${ms(gzipRefusalMs)}, false) as "isRefused"
    from receivers where url_sha256 = ${id}
  `.execute(db)
  const [found] = rows
  if (found === undefined)
    return { trouble: undefined, pace: { pausedMs: 0, allowedRate: null }, gzip: { takes: false, isRefused: false } }
  const { isInTrouble, status, tries, nextMs, secondMs, pausedMs, allowedRate, takes, isRefused } = found
  const trouble = isInTrouble ? { status, tries, nextMs, secondMs } : undefined
  return { trouble, pace: { pausedMs, allowedRate }, gzip: { takes, isRefused } }
}

function statementFor(id: Buffer, what: Write) {
  switch (what.says) {
    case 'well':
      return sql`update receivers set trouble_since = null, refused_status = null where url_sha256 = ${id}`
    case 'down':
      return sql`
        insert into receivers as r (url_sha256, trouble_since, next_at) values (${id}, now(), now() + ${ms(pauseAfter(0))})
        on conflict (url_sha256) do update set
          trouble_since = now(), refused_status = null, tries = 0, next_at = excluded.next_at
        where r.trouble_since is null or (${what.instead} and r.refused_status is not null)
      `
    case 'refuses':
      // the next push may try at once
      return sql`
        insert into receivers as r (url_sha256, trouble_since, refused_status, next_at)
        values (${id}, now(), ${what.status}, now())
        on conflict (url_sha256) do update set
          trouble_since = now(), refused_status = excluded.refused_status, tries = 0, next_at = now(), second_at = null
        where r.trouble_since is null or r.refused_status is distinct from excluded.refused_status
      `
    case 'not made':
      return sql`
        update receivers set tries = tries - 1, next_at = now(),
          second_at = case when ${what.kind === 'second'} then null else second_at end
        where url_sha256 = ${id} and trouble_since is not null and tries = ${what.tries}
      `
  }
}

export const databaseReceiver = (db: Database, receiverUrl: string): ReceiverStore => {
  const id = hashReceiver(receiverUrl)
  return {
    read: () => find(db, id),
    begin: (isOnlyOne) =>
      rideOut(async () => {
        if (isOnlyOne)
          await sql`
            update receivers set trouble_since = null, refused_status = null
            where url_sha256 <> ${id} and trouble_since is not null
          `.execute(db)
        return await find(db, id)
      }),
    async take(tries, kind) {
      const { numAffectedRows } = await rideOut(() =>
        sql`
          update receivers set tries = tries + 1,
            next_at = now() + case when refused_status is null then ${ms(pauseAfter(tries + 1))} else ${ms(refusalTryMs)} end,
            second_at = case when ${kind === 'second'} then now() else second_at end
          where url_sha256 = ${id} and trouble_since is not null and tries = ${tries}
            and (${kind === 'first'} or second_at is null or second_at > now() or second_at <= now() - (${secondPause}))
        `.execute(db),
      )
      return numAffectedRows === 1n
    },
    async tell(what) {
      await rideOut(() => statementFor(id, what).execute(db))
    },
    async tellPace({ pausedMs, allowedRate }, isFree) {
      await rideOut(() =>
        sql`
          insert into receivers as r (url_sha256, paused_until, rate, rate_at)
          values (${id}, now() + ${ms(pausedMs)}, ${allowedRate}, case when ${allowedRate}::float8 is not null then now() end)
          on conflict (url_sha256) do update set
            paused_until = case when r.paused_until > now() + ${ms(retryAfterMsMax)} then excluded.paused_until
              else greatest(r.paused_until, excluded.paused_until) end,
            rate = case when ${isFree} then null else coalesce(excluded.rate, r.rate) end,
            rate_at = case when ${isFree} then null else coalesce(excluded.rate_at, r.rate_at) end
        `.execute(db),
      )
    },
    async tellGzip(takes) {
      await rideOut(() =>
        sql`
          insert into receivers as r (url_sha256, takes_gzip, refused_gzip_at)
          values (${id}, ${takes}, case when not ${takes} then now() end)
          on conflict (url_sha256) do update set
            takes_gzip = excluded.takes_gzip and coalesce(r.refused_gzip_at <= now() - ${ms(gzipRefusalMs)}, true),
            refused_gzip_at = coalesce(excluded.refused_gzip_at, r.refused_gzip_at)
        `.execute(db),
      )
    },
  }
}
