/** The table in which processes share that a receiver is in trouble as a whole (contract 4.12): one row per receiver, by the database's clock. */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { outagePauseMsMax, outageSecondMs, refusalSecondMs, refusalTryMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import { type KnownOutage, pauseAfter } from './outage.ts'
import type { KnownRefusal } from './refusal.ts'

/** At most one of the two. */
export interface Known {
  outage?: KnownOutage
  refusal?: KnownRefusal
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

export class KnownTrouble {
  private readonly db: Database
  private readonly id: Buffer

  constructor(db: Database, receiverUrl: string) {
    this.db = db
    this.id = hashReceiver(receiverUrl)
  }

  async find(): Promise<Known> {
    const { rows } = await sql<KnownRefusal & { status: number | null }>`
      select refused_status as status, tries, trying as "isTrying", ${until(sql`next_at`, tryPauseMax)} as "nextMs",
        ${until(sql`(second_at + ${secondPause})`, secondPause)} as "secondMs"
      from receivers where url_sha256 = ${this.id} and trouble_since is not null
    `.execute(this.db)
    const [found] = rows
    if (found === undefined) return {}
    const { status, tries, nextMs, secondMs, isTrying } = found
    return status === null
      ? { outage: { tries, nextMs, secondMs } }
      : { refusal: { status, tries, nextMs, secondMs, isTrying } }
  }

  /**
   * Finds the trouble for a push that begins. A refusal moves from an old URL to a new one: the new URL too gets one attempt first, at
   * once.
   */
  async findAtBeginning(): Promise<Known> {
    await sql`
      with moved as (
        update receivers set trouble_since = null, refused_status = null, trying = false
        where url_sha256 <> ${this.id} and refused_status is not null returning 1
      ),
      before as (select max(refused_status) as status from receivers where url_sha256 <> ${this.id})
      insert into receivers as r (url_sha256, trouble_since, refused_status, next_at)
      select ${this.id}, now(), before.status, now() from before where exists (select from moved)
      on conflict (url_sha256) do update set
        trouble_since = now(), refused_status = excluded.refused_status, tries = 0, next_at = now(), second_at = null, trying = false
      where r.trouble_since is null
    `.execute(this.db)
    return await this.find()
  }

  /** `isOther`: this process has found that a refusal is none any more. */
  async recordDown(isOther = false): Promise<void> {
    await rideOut(() =>
      sql`
        insert into receivers as r (url_sha256, trouble_since, next_at) values (${this.id}, now(), now() + ${ms(pauseAfter(0))})
        on conflict (url_sha256) do update set
          trouble_since = now(), refused_status = null, tries = 0, next_at = excluded.next_at, trying = false
        where r.trouble_since is null or (${isOther} and r.refused_status is not null)
      `.execute(this.db),
    )
  }

  /** The next push may try at once. */
  async recordRefusing(status: number): Promise<void> {
    await rideOut(() =>
      sql`
        insert into receivers as r (url_sha256, trouble_since, refused_status, next_at) values (${this.id}, now(), ${status}, now())
        on conflict (url_sha256) do update set
          trouble_since = now(), refused_status = excluded.refused_status, tries = 0, next_at = now(), second_at = null, trying = false
        where r.trouble_since is null or r.refused_status is distinct from excluded.refused_status
      `.execute(this.db),
    )
  }

  async recordWell(): Promise<void> {
    await rideOut(() =>
      this.db
        .updateTable('receivers')
        .set({ trouble_since: null, refused_status: null, trying: false })
        .where('url_sha256', '=', this.id)
        .execute(),
    )
  }

  /** The try is over, and the trouble is not. */
  async recordTried(): Promise<void> {
    await rideOut(() =>
      this.db.updateTable('receivers').set({ trying: false }).where('url_sha256', '=', this.id).execute(),
    )
  }

  /** Reserves the attempt that follows `tries` others; false: another process has it, or the receiver is well again. */
  async take(tries: number, kind: AttemptKind): Promise<boolean> {
    const { numAffectedRows } = await rideOut(() =>
      sql`
        update receivers set tries = tries + 1, trying = refused_status is not null,
          next_at = now() + case when refused_status is null then ${ms(pauseAfter(tries + 1))} else ${ms(refusalTryMs)} end,
          second_at = case when ${kind === 'second'} then now() else second_at end
        where url_sha256 = ${this.id} and trouble_since is not null and tries = ${tries}
          and (${kind === 'first'} or second_at is null or second_at > now() or second_at <= now() - (${secondPause}))
      `.execute(this.db),
    )
    return numAffectedRows === 1n
  }
}
