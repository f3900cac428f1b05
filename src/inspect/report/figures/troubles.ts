/** Deliveries of this week and the one before that did not arrive: their causes and their users. */
import { sql } from 'kysely'
import { answerOf } from '../../../deliveries/answers.ts'
import { isTheLastWord } from '../../../push/database/users-to-serve.ts'
import { countHooksInTrouble, findHooksInTrouble, type HookInTrouble } from '../../status/hooks-in-trouble.ts'
import { findByCause, isStuck, why } from '../../status/not-delivered.ts'
import type { Snapshot } from './reading.ts'

/** The first entries of a list, and how many it had. */
export interface Cut<T> {
  total: number
  first: T[]
}

export interface UserInTrouble {
  email: string
  /** Deliveries without a later one that arrived or is pending. */
  failed: number
  unknown: number
  /** Deliveries with an attempt left that no living process is working on. */
  stuck: number
  last: Date
  /** The error of the newest of these deliveries. */
  error: string | null
  /** What the receiver said with that error. */
  answer: string | null
}

export const usersShown = 200
const hooksShown = 100
const causesWithAnswers = 20

const cut = <T>(rows: (T & { total: number })[]): Cut<T> => ({
  total: rows[0]?.total ?? 0,
  first: rows.map(({ total: _, ...row }) => row as unknown as T),
})

/** The most frequent first. `periods`: the weeks looked at; the last of them is this one. */
export const findCauses = (snapshot: Snapshot, periods: readonly string[], keepAnswers: 'on' | 'off') =>
  findByCause(snapshot, sql<boolean>`d.status in ('failed', 'unknown') and d.period = any (${periods})`, {
    ...{ period: periods.at(-1) ?? '', keepAnswers, causesDetailed: causesWithAnswers, usersShown: 0 },
  })

/** Later deliveries are looked up by user in an index: the ledger may be too long to be read as a whole. */
export async function findUsersInTrouble(
  snapshot: Snapshot,
  periods: readonly string[],
  keepAnswers: 'on' | 'off',
): Promise<Cut<UserInTrouble>> {
  const answer = keepAnswers === 'on' ? answerOf : sql`null`
  const { rows } = await sql<UserInTrouble & { total: number }>`
    with trouble as (
      select d.user_id, d.status, d.created_at, ${why} as error, ${answer} as answer from deliveries d
      where d.status in ('failed', 'unknown') and d.period = any (${periods}) and ${isTheLastWord}
      union all
      select d.user_id, d.status, d.created_at, ${why}, ${answer} from deliveries d
      where ${isStuck}
    )
    select u.email, count(*) filter (where t.status = 'failed') as failed, count(*) filter (where t.status = 'unknown') as unknown,
      count(*) filter (where t.status = 'pending') as stuck, max(t.created_at) as last,
      (array_agg(t.error order by t.created_at desc))[1] as error,
      (array_agg(t.answer order by t.created_at desc))[1] as answer, count(*) over () as total
    from trouble t join users u on u.id = t.user_id group by u.id, u.email
    order by count(*) desc, last desc, u.email limit ${usersShown}
  `.execute(snapshot)
  return cut(rows)
}

/** The hooks in trouble now. */
export async function findHooks(snapshot: Snapshot, keepAnswers: 'on' | 'off'): Promise<Cut<HookInTrouble>> {
  return {
    total: await countHooksInTrouble(snapshot),
    first: await findHooksInTrouble(snapshot, hooksShown, keepAnswers),
  }
}
