/**
 * Finds the listings that match an erasure, in every stored version, even those of pruned listings. Reads the table once, a stretch at a
 * time.
 */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { sweep } from '../prune/sweep.ts'
import type { MeantVersion, Target } from './target.ts'

/** When imports began to refuse the erased listings: a `timestamptz` as text, and the last version id at that time. */
export interface Since {
  at: string
  lastVersionId: number
}

/** Reads the time of a look; imports whose lock was free a moment ago have committed. */
export async function findSince(db: Database): Promise<Since> {
  const { rows } = await sql<Since>`
    select now()::text as at, last_value - (not is_called)::integer as "lastVersionId" from lead_version_ids
  `.execute(db)
  return rows[0] as Since
}

/** The stop signal and the listeners of the look. */
export interface FindOptions {
  stop: AbortSignal
}

/**
 * Finds the versions, and hands them on stretch by stretch; the look goes on once `onFound` has erased them. Rows that move within the
 * table while it is read, because a later record replaces them, are found by their time at the end.
 */
export async function findVersions(
  db: Database,
  target: Target,
  since: Since,
  { stop }: FindOptions,
  onFound: (found: readonly MeantVersion[]) => Promise<void>,
): Promise<void> {
  // outside of `sweep`, which repeats what it calls after an absence of the database
  const found: MeantVersion[][] = []
  const handOn = async () => {
    for (; found[0]; found.shift()) await onFound(found[0])
  }
  await sweep({ db, stop }, 'lead_versions', async (isHere) => {
    await handOn()
    found.push(await target.find(db, isHere))
    return 0
  })
  stop.throwIfAborted()
  await handOn()
  const isChanged = sql<boolean>`(t.id > ${since.lastVersionId} or t.superseded_at >= ${since.at}::timestamptz)`
  await onFound(await target.find(db, isChanged))
}
