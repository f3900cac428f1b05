/** What processes tell each other of a receiver that is down (contract 4.12): a row a receiver. Every time is the database's. */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { outagePauseMsMax, outageSecondMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import { type KnownOutage, pauseAfter } from './outage.ts'

const ms = (milliseconds: number) => sql`${milliseconds} * interval '1 millisecond'`

export class KnownOutages {
  private readonly db: Database
  private readonly id: Buffer

  constructor(db: Database, receiverUrl: string) {
    this.db = db
    this.id = createHash('sha256').update(receiverUrl).digest()
  }

  /** Undefined: it is not known to be down. A time that lies too far ahead is of a clock that was wrong. */
  async find(): Promise<KnownOutage | undefined> {
    const until = (time: RawBuilder<unknown>, msMax: number) => sql<number>`
      least(greatest(coalesce(extract(epoch from ${time} - now()) * 1000, 0), 0), ${msMax})::double precision`
    const { rows } = await sql<KnownOutage>`
      select tries, ${until(sql`next_at`, outagePauseMsMax)} as "nextMs",
        ${until(sql`case when second_at <= now() then second_at + ${ms(outageSecondMs)} end`, outageSecondMs)} as "secondMs"
      from receivers where url_sha256 = ${this.id} and down_since is not null
    `.execute(this.db)
    return rows[0]
  }

  async recordDown(): Promise<void> {
    await rideOut(() =>
      sql`
        insert into receivers as r (url_sha256, down_since, next_at) values (${this.id}, now(), now() + ${ms(pauseAfter(0))})
        on conflict (url_sha256) do update set down_since = now(), tries = 0, next_at = excluded.next_at
        where r.down_since is null
      `.execute(this.db),
    )
  }

  async recordUp(): Promise<void> {
    await rideOut(() =>
      this.db.updateTable('receivers').set({ down_since: null }).where('url_sha256', '=', this.id).execute(),
    )
  }

  /** Takes the attempt that follows `tries` others; false: another process has it, or the receiver is well by now. */
  async take(tries: number, kind: AttemptKind): Promise<boolean> {
    const { numAffectedRows } = await rideOut(() =>
      sql`
        update receivers set tries = tries + 1, next_at = now() + ${ms(pauseAfter(tries + 1))},
          second_at = case when ${kind === 'second'} then now() else second_at end
        where url_sha256 = ${this.id} and down_since is not null and tries = ${tries}
          and (${kind === 'first'} or second_at is null or second_at > now() or second_at <= now() - ${ms(outageSecondMs)})
      `.execute(this.db),
    )
    return numAffectedRows === 1n
  }
}
