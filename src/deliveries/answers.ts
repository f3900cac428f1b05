/**
 * Stores the words with which the receiver refused: a row beside the ledger for each attempt that was refused with words, deleted with
 * its delivery. Keys and contacts are taken out, but the words may name a listing by its URL, its address or its owner: an erasure
 * deletes the answers to the deliveries that had the listing.
 */
import { sql } from 'kysely'
import { durably } from '../db/durably.ts'
import type { Database } from '../db/open.ts'
import { decodeRecipe } from './recipe.ts'

/** The words with which one attempt was refused; undefined if there were none. */
export interface RecordedAnswer {
  idempotencyKey: string
  attempt: 1 | 2
  answer?: string | undefined
}

/**
 * Records the answers among `outcomes`, before the outcomes themselves. It locks the deliveries, so that an erasure finds answers
 * recorded just before it, and leaves out deliveries that an erasure has ended. It may be repeated.
 */
export async function recordAnswers(db: Database, outcomes: readonly RecordedAnswer[]): Promise<void> {
  const said = outcomes.filter(({ answer }) => answer !== undefined)
  if (said.length === 0) return
  await sql`
    with durable as materialized (${durably}),
    held as (
      select d.idempotency_key from deliveries d
      where d.idempotency_key = any (${said.map(({ idempotencyKey }) => idempotencyKey)}) and d.end_reason is null
        and exists (select from users u where u.id = d.user_id offset 0)
      order by d.idempotency_key for no key update of d
    )
    insert into answers (idempotency_key, attempt, answer)
    select a.key, a.attempt, a.answer from durable, held h
      join unnest(${said.map(({ idempotencyKey }) => idempotencyKey)}::text[], ${said.map(({ attempt }) => attempt)}::integer[],
        ${said.map(({ answer }) => answer)}::text[]) as a (key, attempt, answer) on a.key = h.idempotency_key
    on conflict do nothing
  `.execute(db)
}

const answersPerPage = 1_000

/**
 * Deletes the answers to deliveries with a version for which `isErased` holds. It reads all answers with their deliveries, page by page:
 * call it before a lock that pushes wait for.
 */
export async function eraseAnswersWith(db: Database, isErased: (versionId: number) => boolean): Promise<void> {
  for (let last = ''; ; ) {
    const { rows } = await sql<{ key: string; recipe: Buffer }>`
      select a.key, d.recipe from (
        select idempotency_key as key from answers where idempotency_key > ${last} order by idempotency_key limit ${answersPerPage}
      ) a cross join lateral (select recipe from deliveries where idempotency_key = a.key offset 0) d order by a.key
    `.execute(db)
    await eraseAnswersOf(db, [
      ...new Set(rows.flatMap(({ key, recipe }) => (decodeRecipe(recipe).some(isErased) ? [key] : []))),
    ])
    if (rows.length < answersPerPage) return
    last = rows.at(-1)?.key ?? ''
  }
}

/** Deletes the answers to the deliveries `keys`. */
export async function eraseAnswersOf(db: Database, keys: readonly string[]): Promise<void> {
  if (keys.length > 0) await sql`delete from answers where idempotency_key = any (${keys})`.execute(db)
}

/** Deletes the answers to all deliveries of a user. */
export async function eraseAnswersOfUser(db: Database, userId: number): Promise<void> {
  await sql`
    delete from answers where idempotency_key in (select idempotency_key from deliveries where user_id = ${userId})
  `.execute(db)
}

/** SQL: the receiver's words with the shown error of the delivery `d`. */
export const answerOf = sql<string | null>`(select a.answer from answers a where a.idempotency_key = d.idempotency_key
  and a.attempt = case when d.second_error is null then 1 else 2 end)`
