/** What did not arrive in this week and the one before: why, and with whom. */
import { sql } from 'kysely'
import { isLive } from '../../../db/leases.ts'
import { type AnswerCount, answerOf, findAnswers } from '../../../deliveries/answers.ts'
import { isTheLastWord } from '../../../push/users-to-serve.ts'
import { countHooksInTrouble, findHooksInTrouble, type HookInTrouble } from '../../../triggers/hooks-in-trouble.ts'
import { causeOf } from '../../status/causes.ts'
import type { Snapshot } from './reading.ts'

/** The first entries of a list, and how many it had. */
export interface Cut<T> {
  total: number
  first: T[]
}

/** A cause, with its deliveries of this week and the one before. */
export interface CauseShown {
  cause: string
  remedy: string
  /** Deliveries. */
  failed: number
  unknown: number
  /** Of both, in this week. */
  thisWeek: number
  last: Date
  /** What the receiver said, the most frequent first. */
  answers: AnswerCount[]
}

export interface UserInTrouble {
  email: string
  /** Deliveries with no later one that is delivered or to come. */
  failed: number
  unknown: number
  /** Deliveries with an attempt to come, in the hands of no living process. */
  stuck: number
  last: Date
  /** The error of the newest of these deliveries. */
  error: string | null
  /** What the receiver said with that error. */
  answer: string | null
}

/** The most error texts that are read: more than the program can produce. */
const errorsRead = 300
export const usersShown = 200
const hooksShown = 100
const causesWithAnswers = 20

const why = sql`coalesce(d.end_reason, d.second_error, d.first_error)`

const cut = <T>(rows: (T & { total: number })[]): Cut<T> => ({
  total: rows[0]?.total ?? 0,
  first: rows.map(({ total: _, ...row }) => row as unknown as T),
})

interface ErrorRow extends Pick<CauseShown, 'failed' | 'unknown' | 'thisWeek' | 'last'> {
  error: string | null
  httpStatus: number | null
}

/** The most frequent first. `periods`: the weeks looked at; the last of them is this one. */
export async function findCauses(
  snapshot: Snapshot,
  periods: readonly string[],
  keepAnswers: 'on' | 'off',
): Promise<CauseShown[]> {
  const { rows } = await sql<ErrorRow>`
    select ${why} as error, case when ${why} is null then coalesce(d.second_status, d.first_status) end as "httpStatus",
      count(*) filter (where d.status = 'failed') as failed, count(*) filter (where d.status = 'unknown') as unknown,
      count(*) filter (where d.period = ${periods.at(-1) ?? ''}) as "thisWeek", max(d.created_at) as last
    from deliveries d where d.status in ('failed', 'unknown') and d.period = any (${periods})
    group by 1, 2 order by count(*) desc limit ${errorsRead}
  `.execute(snapshot)
  const byCause = new Map<string, CauseShown & { errors: (string | null)[] }>()
  for (const { error, httpStatus, ...counts } of rows) {
    const { cause, remedy } = causeOf({ error, httpStatus })
    const found = byCause.get(cause) ?? {
      cause,
      remedy,
      failed: 0,
      unknown: 0,
      thisWeek: 0,
      last: counts.last,
      answers: [],
      errors: [],
    }
    found.errors.push(error)
    found.failed += counts.failed
    found.unknown += counts.unknown
    found.thisWeek += counts.thisWeek
    if (counts.last > found.last) found.last = counts.last
    byCause.set(cause, found)
  }
  const causes = [...byCause.values()].sort((a, b) => b.failed + b.unknown - a.failed - a.unknown)
  for (const { answers, errors } of keepAnswers === 'on' ? causes.slice(0, causesWithAnswers) : []) {
    const isOfCause = sql<boolean>`d.status in ('failed', 'unknown') and d.period = any (${periods})
      and coalesce(${why}, '') = any (${errors.map((error) => error ?? '')})`
    answers.push(...(await findAnswers(snapshot, isOfCause)))
  }
  return causes.map(({ errors: _, ...cause }) => cause)
}

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
      where d.status = 'pending' and not ${isLive(sql`d.worker_id`)}
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
