/** What leadpush kept from users: listings that would have been sent in vain, and weeks that looked wrong. */
import { sql } from 'kysely'
import type { Live } from '../../../matching/listed.ts'
import { countLeftOut } from '../../../matching/match.ts'
import type { Snapshot } from './reading.ts'

export interface Kept {
  /** Live listings beside the one that counts of their house (contract 4.20); undefined where each is sent. */
  sameHouse: number | undefined
  /** Listings that have left all their sources, and were seen lately enough to be sent otherwise. */
  gone: number
  /** Weeks of the last `weeksLookedAt` in which a push was held as a whole, or for some users. */
  heldWeeks: number
}

export const weeksLookedAt = 12

export async function findKept(snapshot: Snapshot, live: Live): Promise<Kept> {
  const { rows } = await sql<Omit<Kept, 'sameHouse'>>`
    select (select count(*) from lead_seen where gone and seen_at >= ${live.seenSince}) as gone,
      (select count(distinct period) from runs where (held is not null and not accepted or held_users > 0)
        and started_at > now() - ${weeksLookedAt} * interval '1 week') as "heldWeeks"
  `.execute(snapshot)
  const sameHouse = live.sameHouse === 'once' ? await countLeftOut(snapshot, live) : undefined
  return { ...(rows[0] ?? { gone: 0, heldWeeks: 0 }), sameHouse }
}
