/**
 * `leads forget`: refuses later records, finds the listings, erases them batch by batch, waits for attempts under way with
 * them, and clears up. An interrupted run is started again with the same words; what it has erased stays erased.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { eraseWaitMsMax, listingsPerErasureMax } from '../../base/limits.ts'
import { rideOut } from '../../db/away.ts'
import { isLive } from '../../db/leases.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { vacuumTables } from '../../db/tidy.ts'
import type { Connection } from '../../db/transaction.ts'
import { countEnded, endDeliveries, findUnderWay } from '../../deliveries/erased-deliveries.ts'
import { type Erasure, recordErasure } from '../../leads/erasures.ts'
import { countSent, type Sent } from './count-sent.ts'
import { type Erased, eraseListings, inTurn } from './erase.ts'
import { findVersions } from './find-listings.ts'

/** What it is doing, for people who watch. */
export type ForgetPhase = 'waiting for an import' | 'looking' | 'erasing' | 'waiting for attempts' | 'clearing up'

/** How it is stopped, and whom it tells. */
export interface ForgetOptions {
  /** Aborted: ends where it is; what was erased stays erased. */
  stop: AbortSignal
  onPhase?: (phase: ForgetPhase) => void
  onAway?: (error: unknown) => void
}

/** What was erased; counts. */
export interface Forgotten {
  /** False where such records were refused before. */
  newlyRefused: boolean
  listings: number
  /** Versions of these listings, and of listings that had the contact earlier. */
  versions: number
  triggers: number
  /** Deliveries that get no further attempt because of the erasure. */
  ended: number
  /** Deliveries that had no attempt yet: they go out without the listings. */
  anew: number
  /** Attempts with the listings that are still under way after all the waiting. */
  underWay: number
  sent: Sent
}

const turnLookMs = 200
const attemptLookMs = 200

type Refused = { newlyRefused: boolean; at: string; lastVersionId: number }

async function refuse(connection: Connection, erasure: Erasure): Promise<Refused> {
  const newlyRefused = await recordErasure(connection, erasure)
  const { rows } = await connection.query<Omit<Refused, 'newlyRefused'>>(
    `select now()::text as at, last_value - (not is_called)::integer as "lastVersionId" from lead_version_ids`,
  )
  return { newlyRefused, ...(rows[0] as Omit<Refused, 'newlyRefused'>) }
}

class Forgetting {
  private readonly opened: OpenDatabase
  private readonly erasure: Erasure
  private readonly options: ForgetOptions

  constructor(opened: OpenDatabase, erasure: Erasure, options: ForgetOptions) {
    this.opened = opened
    this.erasure = erasure
    this.options = options
  }

  async run(): Promise<Forgotten> {
    const { opened, erasure, options } = this
    const { stop, onAway = () => {} } = options
    const refused = await this.inTurn((connection) => refuse(connection, erasure))
    const { newlyRefused } = refused
    const all: Erased = { leadIds: [], versionIds: [], triggers: 0, ended: 0, anew: 0, underWay: [] }
    for (let more = true; more; ) {
      options.onPhase?.('looking')
      const looked = await findVersions(opened.db, erasure, refused, { stop, onAway })
      more = looked.more
      await this.erase(looked.ofLead, all)
    }
    const counts = {
      newlyRefused,
      listings: all.leadIds.length,
      versions: all.versionIds.length,
      triggers: all.triggers,
      anew: all.anew,
    }
    if (counts.versions === 0) return { ...counts, ended: 0, underWay: 0, sent: { count: 0, complete: true } }
    const underWay = await this.waitForAttempts(all)
    const ended = all.ended + (await rideOut(() => countEnded(opened.db, all.underWay), onAway))
    options.onPhase?.('clearing up')
    await vacuumTables(opened, ['leads', 'lead_seen', 'lead_sources', 'lead_versions', 'triggers'])
    const sent = await rideOut(() => countSent(opened.db, all.versionIds, stop), onAway)
    return { ...counts, ended, underWay, sent }
  }

  private async erase(ofLead: ReadonlyMap<number, ReadonlySet<number>>, all: Erased): Promise<void> {
    const found = [...ofLead]
    for (let at = 0; at < found.length; at += listingsPerErasureMax) {
      this.options.onPhase?.('erasing')
      const batch = new Map(found.slice(at, at + listingsPerErasureMax))
      const erased = await this.inTurn((connection) => eraseListings(connection, this.erasure, batch))
      for (const id of erased.leadIds) all.leadIds.push(id)
      for (const id of erased.versionIds) all.versionIds.push(id)
      for (const key of erased.underWay) all.underWay.push(key)
      all.triggers += erased.triggers
      all.ended += erased.ended
      all.anew += erased.anew
    }
  }

  /** Takes turns with imports and prunes. */
  private async inTurn<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const { stop, onPhase, onAway } = this.options
    for (;;) {
      const done = await rideOut(() => inTurn(this.opened, stop, work), onAway)
      if (done) return done.result
      onPhase?.('waiting for an import')
      await sleep(turnLookMs, undefined, { signal: stop }).catch(() => {})
    }
  }

  /**
   * Waits until no living process has an attempt under way with what was erased; returns how many remain when the time is up.
   */
  private async waitForAttempts(all: Erased): Promise<number> {
    const { stop, onPhase, onAway } = this.options
    const { db } = this.opened
    const sinceMs = performance.now()
    for (let keys = all.underWay; ; ) {
      keys = await rideOut(() => findUnderWay(db, keys), onAway)
      const triggers = await rideOut(() => this.countTriggersInHand(all), onAway)
      const left = keys.length + triggers
      if (left === 0 || stop.aborted || performance.now() - sinceMs > eraseWaitMsMax) {
        // deliveries whose process died meanwhile
        await rideOut(() => endDeliveries(db, all.underWay, true), onAway)
        return left
      }
      onPhase?.('waiting for attempts')
      await sleep(attemptLookMs, undefined, { signal: stop }).catch(() => {})
    }
  }

  private async countTriggersInHand({ leadIds, versionIds }: Erased): Promise<number> {
    const { rows } = await sql<{ n: number }>`
      select count(*) as n from triggers t where (t.lead_id = any (${leadIds}) or t.version_id = any (${versionIds})) and ${isLive(sql`t.worker_id`)}
    `.execute(this.opened.db)
    return rows[0]?.n ?? 0
  }
}

/**
 * Runs an erasure. Throws the reason of `stop` where it was aborted before anything was erased, `database` where the database
 * stays away.
 */
export function forgetListings(opened: OpenDatabase, erasure: Erasure, options: ForgetOptions): Promise<Forgotten> {
  return new Forgetting(opened, erasure, options).run()
}
