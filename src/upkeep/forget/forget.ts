/**
 * `leads forget`: refuses later records, finds the listings, erases them batch by batch, waits for attempts under way with them, and
 * clears up. An interrupted run is started again with the same arguments; erased listings stay erased.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { eraseWaitMsMax, listingsPerErasureMax } from '../../base/limits.ts'
import { isLive } from '../../db/leases.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { rideOut } from '../../db/patience.ts'
import { tidyTables, type Untidied, vacuumTables } from '../../db/tidy.ts'
import { type Connection, kyselyOn, withTransaction } from '../../db/transaction.ts'
import { eraseAnswersWith } from '../../deliveries/answers.ts'
import { countEnded, endDeliveries, findUnderWay } from '../../deliveries/erased-deliveries.ts'
import type { DropFile } from '../../leads/drop-files.ts'
import { type Erasure, recordErasure } from '../../leads/erasures.ts'
import { type ListCounts, recordLines, recordWorkItems } from '../../leads/lists.ts'
import { findKey, type MarkTable } from '../../leads/marks.ts'
import { inTurn } from '../in-turn.ts'
import { countSent, type SentCount } from './count-sent.ts'
import { countMeant } from './dry-run.ts'
import { eraseListings } from './erase.ts'
import { findSince, findVersions } from './find-listings.ts'
import type { MeantVersion, Target } from './target.ts'
import { ListTarget, OneTarget } from './target.ts'
import { Totals } from './totals.ts'

/** The current step, for people who watch. */
export type ForgetPhase =
  | 'reading'
  | 'waiting for an import'
  | 'looking'
  | 'erasing'
  | 'waiting for attempts'
  | 'clearing up'

/** What is erased. `lines` opens a list, whose reading a stop ends; it may be called again, unless it is read `once`. */
export type Wanted =
  | Erasure
  | { lines: (stop: AbortSignal) => AsyncIterable<string>; once: boolean }
  | { files: readonly DropFile[] }

/** The options, the stop signal and the listeners. */
export interface ForgetOptions {
  /** Keeps the listings, and drops their contacts. */
  redacts?: boolean
  /** Writes nothing, and counts what it would erase. */
  dryRun?: boolean
  /** Aborted: stops at once; erased listings stay erased. */
  stop: AbortSignal
  onPhase?: (phase: ForgetPhase) => void
  /** A line of a list that is neither a URL nor a contact. */
  onRejected?: (line: number) => void
}

/** The counts of an erasure. */
export interface Forgotten {
  /** False if such records were refused before. */
  newlyRefused: boolean
  /** Undefined without a list. */
  list: ListCounts | undefined
  listings: number
  /** Listings that stay, without their contacts. */
  redacted: number
  /** Versions of these listings, and of listings that had the contact earlier. */
  versions: number
  triggers: number
  /** Deliveries that get no further attempt because of the erasure. */
  ended: number
  /** Deliveries without an attempt: they are sent without the listings. */
  anew: number
  /** Attempts with the listings that are still under way after the wait. */
  underWay: number
  /** Tables that could not be vacuumed: their deleted rows can still be read on disk. */
  untidied: Untidied
  sent: SentCount
}

const attemptLookMs = 200

interface Refused {
  newlyRefused: boolean
  list: ListCounts | undefined
  target: Target
}

class Forgetting {
  private readonly opened: OpenDatabase
  private readonly wanted: Wanted
  private readonly options: ForgetOptions

  constructor(opened: OpenDatabase, wanted: Wanted, options: ForgetOptions) {
    this.opened = opened
    this.wanted = wanted
    this.options = options
  }

  async run(): Promise<Forgotten> {
    const { opened, options } = this
    const { stop } = options
    const { newlyRefused, list, target } = await this.refuseAll()
    await tidyTables(opened, ['erasures', 'work_items'], (list?.added ?? 0) + (list?.removed ?? 0))
    // an import that merges after this turn knows what is refused; one before it has committed
    const since = await this.inTurn((connection) => findSince(kyselyOn(connection)))
    const totals = new Totals()
    options.onPhase?.('looking')
    await findVersions(opened.db, target, since, { stop }, (found) => this.erase(target, found, totals))
    if (totals.versions === 0) return toForgotten({ newlyRefused, list }, totals)
    const underWay = await this.waitForAttempts(totals)
    totals.ended += await countEnded(opened.db, totals.underWay)
    options.onPhase?.('clearing up')
    // of deliveries that ended between the look for answers and the end of the erasure
    await rideOut(opened.db, () => eraseAnswersWith(opened.db, (id) => totals.versionIds.has(id)))
    const untidied = await vacuumTables(opened, ['leads', 'lead_seen', 'lead_sources', 'lead_versions', 'triggers'])
    const sent = await this.countSent(totals)
    return { ...toForgotten({ newlyRefused, list }, totals, underWay, sent), untidied }
  }

  /** Counts what a run would take. */
  async dryRun(): Promise<Forgotten> {
    const { options } = this
    options.onPhase?.('looking')
    let forgotten: Forgotten | undefined
    const work = async (connection: Connection) => {
      const db = kyselyOn(connection)
      const { target, ...refused } = await this.refuse(connection)
      const totals = await countMeant(db, target, { stop: options.stop })
      forgotten = toForgotten(refused, totals, 0, await this.countSent(totals))
      throw new RolledBack()
    }
    await withTransaction(this.opened, work, options.stop).catch((error) => {
      if (!(error instanceof RolledBack)) throw error
    })
    return forgotten as Forgotten
  }

  private async countSent(totals: Totals): Promise<SentCount> {
    const sent = await countSent(this.opened.db, totals.versionIds, this.options.stop)
    return { ...sent, complete: sent.complete && totals.isComplete }
  }

  private refuseAll(): Promise<Refused> {
    const { wanted, options } = this
    if (!('lines' in wanted || 'files' in wanted)) return this.inTurn((connection) => this.refuse(connection))
    options.onPhase?.('reading')
    const work = () => withTransaction(this.opened, (connection) => this.refuse(connection), options.stop)
    return 'lines' in wanted && wanted.once ? work() : rideOut(this.opened.db, work)
  }

  private async refuse(connection: Connection): Promise<Refused> {
    const { wanted } = this
    const { redacts = false, dryRun = false, stop: signal, onRejected } = this.options
    const db = kyselyOn(connection)
    if (!('lines' in wanted || 'files' in wanted)) {
      // rolled back in a dry run; that waits for no other erasure but one of the same
      const { isNew, mark } = await recordErasure(connection, wanted, redacts)
      return { newlyRefused: isNew, list: undefined, target: new OneTarget(wanted, redacts, [mark]) }
    }
    const how = { redacts, dryRun, signal, ...(onRejected && { onRejected }) }
    const isDrop = 'files' in wanted
    const list = isDrop
      ? await recordWorkItems(connection, wanted.files, how)
      : await recordLines(connection, wanted.lines(signal), how)
    const kinds = { href: !isDrop, contact: !isDrop, list: isDrop }
    const table: MarkTable = dryRun ? 'listed_marks' : 'erasures'
    return { newlyRefused: list.added > 0, list, target: new ListTarget(await findKey(db), table, kinds) }
  }

  private async erase(target: Target, found: readonly MeantVersion[], totals: Totals): Promise<void> {
    for (let at = 0; at < found.length; at += listingsPerErasureMax) {
      this.options.onPhase?.('erasing')
      const batch = found.slice(at, at + listingsPerErasureMax)
      totals.add(await this.inTurn((connection) => eraseListings(connection, target, batch)))
    }
  }

  /** Takes turns with imports and prunes. */
  private inTurn<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
    const { stop, onPhase } = this.options
    const onWait = () => onPhase?.('waiting for an import')
    return inTurn(this.opened, 'leadsImport', { stop, onWait }, work)
  }

  /**
   * Waits until no living process has an attempt under way with what was erased; returns how many remain when the time is up.
   */
  private async waitForAttempts(totals: Totals): Promise<number> {
    const { stop, onPhase } = this.options
    const { db } = this.opened
    const sinceMs = performance.now()
    for (let keys: readonly string[] = totals.underWay; ; ) {
      keys = await findUnderWay(db, keys)
      const triggers = await this.countTriggersInHand(totals)
      const left = keys.length + triggers
      if (left === 0 || stop.aborted || performance.now() - sinceMs > eraseWaitMsMax) {
        // deliveries whose process died meanwhile
        await rideOut(db, () => endDeliveries(db, totals.underWay, true))
        return left
      }
      onPhase?.('waiting for attempts')
      await sleep(attemptLookMs, undefined, { signal: stop }).catch(() => {})
    }
  }

  private async countTriggersInHand({ inHand }: Totals): Promise<number> {
    if (inHand.length === 0) return 0
    const { rows } = await sql<{ n: number }>`
      select count(*) as n from triggers t where t.lead_id = any (${inHand}) and ${isLive(sql`t.worker_id`)}
    `.execute(this.opened.db)
    return rows[0]?.n ?? 0
  }
}

class RolledBack extends Error {}

function toForgotten(
  refused: Pick<Forgotten, 'newlyRefused' | 'list'>,
  { listings, redacted, versions, triggers, ended, anew }: Totals,
  underWay = 0,
  sent: SentCount = { count: 0, complete: true },
): Forgotten {
  return { ...refused, listings, redacted, versions, triggers, ended, anew, underWay, untidied: new Map(), sent }
}

/**
 * Runs an erasure. Throws the reason of `stop` where it was aborted before anything was erased, `failed` where a list is broken,
 * `database` where the database stays away.
 */
export function forgetListings(opened: OpenDatabase, wanted: Wanted, options: ForgetOptions): Promise<Forgotten> {
  const forgetting = new Forgetting(opened, wanted, options)
  return options.dryRun ? forgetting.dryRun() : forgetting.run()
}
