/**
 * Finds hooks that need attention: triggers of theirs failed and will be tried again, or were abandoned or dropped lately, or they are
 * switched off.
 */
import { sql } from 'kysely'
import { abandonedShownDays } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'

/** A hook with its counts of failed triggers. */
export interface HookInTrouble {
  id: string
  url: string
  integrationId: number
  /** The user's e-mail. */
  user: string
  /** Triggers that failed and will be tried again. */
  failing: number
  abandoned: number
  /** Listings beyond the newest of a run. */
  dropped: number
  /** Since when it is switched off. */
  offSince: Date | null
  /** The error of its last attempt that failed. */
  error: string | null
  /** The hook's words with that error. */
  answer: string | null
  lastAt: Date | null
  /** Whether the last attempt was a success. */
  isDelivered: boolean
}

/** The outcome of the last attempt, in a few words. */
export function describeLast({ isDelivered, error }: Pick<HookInTrouble, 'isDelivered' | 'error'>): string {
  if (!isDelivered) return error ?? 'none yet'
  return error === null ? 'it was delivered' : `it was delivered, an earlier one was not: ${error}`
}

const inTrouble = sql`(
  select hook_id as id from triggers where attempts > 0 and due_at < 'infinity'
  union
  select id from hooks where abandoned_at > now() - ${abandonedShownDays} * interval '1 day'
  union
  select id from hooks where dropped_at > now() - ${abandonedShownDays} * interval '1 day'
  union
  select id from hooks where off_since is not null
)`

/** How many hooks are in trouble. */
export async function countHooksInTrouble(db: Database): Promise<number> {
  const { rows } = await sql<{ n: number }>`select count(*) as n from ${inTrouble} t`.execute(db)
  return rows[0]?.n ?? 0
}

/** The hooks in trouble, those with the latest attempts first. */
export async function findHooksInTrouble(
  db: Database,
  limit: number,
  keepAnswers: 'on' | 'off',
): Promise<HookInTrouble[]> {
  const { rows } = await sql<HookInTrouble>`
    select h.id, h.url, i.id as "integrationId", u.email as user, h.abandoned, h.dropped, h.off_since as "offSince", h.last_at as "lastAt",
      h.last_at is not null and h.last_error is null as "isDelivered",
      (select count(*) from triggers t where t.hook_id = h.id and t.attempts > 0 and t.due_at < 'infinity') as failing,
      coalesce(h.last_error, h.abandoned_error,
        (select min(t.last_error) from triggers t where t.hook_id = h.id and t.attempts > 0)) as error,
      (select a.answer from hook_answers a where a.hook_id = h.id and a.said_at >= h.last_at) as answer
    from ${inTrouble} t join hooks h on h.id = t.id join integrations i on i.id = h.integration_id
      join users u on u.id = i.user_id
    order by h.last_at desc nulls last, h.id limit ${limit}
  `.execute(db)
  return keepAnswers === 'on' ? rows : rows.map((row) => ({ ...row, answer: null }))
}
