/**
 * Makes deliveries that nobody has seen anew after an erasure: they keep their keys and queries, lose the erased listings, and have the redacted ones
 * in their new form. That is safe: their old bodies never went out.
 */
import { sql } from 'kysely'
import type { Database } from '../db/open.ts'
import { countBodyBytes } from './body.ts'
import { decodeRecipe, encodeRecipes } from './recipe.ts'

interface Row {
  key: string
  attempts: number
  underWay: boolean
  workerId: number | null
  /** An erasure ends the delivery with the attempt under way. */
  isEnding: boolean
  queryList: string
  recipe: Buffer
}

const deliveriesPerStatement = 100

/**
 * Makes the pending deliveries among `keys` anew that fulfil `isMeant`, and returns how many. `replaced` has the new version of a
 * redacted one. Locks all of them to the end of the transaction.
 */
export async function makeAnew(
  transaction: Database,
  keys: readonly string[],
  isMeant: (row: Pick<Row, 'attempts' | 'underWay' | 'workerId' | 'isEnding'>) => boolean,
  replaced: ReadonlyMap<number, number> = new Map(),
): Promise<number> {
  let made = 0
  for (let at = 0; at < keys.length; at += deliveriesPerStatement) {
    const { rows } = await sql<Row>`
      select idempotency_key as key, attempts, under_way as "underWay", worker_id as "workerId", end_reason is not null as "isEnding",
        query_list as "queryList", recipe
      from deliveries where idempotency_key = any (${keys.slice(at, at + deliveriesPerStatement)}) and status = 'pending'
      order by idempotency_key for update
    `.execute(transaction)
    const meant = rows.filter(isMeant)
    if (meant.length > 0) await makeSome(transaction, meant, replaced)
    made += meant.length
  }
  return made
}

/** The version ids of a recipe with the new ones at their places, since the ids of a recipe fall. */
const replace = (ids: readonly number[], replaced: ReadonlyMap<number, number>) =>
  ids.map((id) => replaced.get(id) ?? id).sort((a, b) => b - a)

async function makeSome(
  transaction: Database,
  deliveries: readonly Row[],
  replaced: ReadonlyMap<number, number>,
): Promise<void> {
  const named = deliveries.map(({ recipe }) => replace(decodeRecipe(recipe), replaced))
  const { rows } = await sql<{ id: number; bytes: number }>`
    select id, bytes from lead_versions where id = any (${[...new Set(named.flat())]})
  `.execute(transaction)
  const bytesOf = new Map(rows.map(({ id, bytes }) => [id, bytes]))
  const kept = named.map((ids) => ids.filter((id) => bytesOf.has(id)))
  const bytes = kept.map((ids, at) => {
    const leadBytes = ids.reduce((sum, id) => sum + (bytesOf.get(id) ?? 0), 0)
    // `queryList` includes its commas, so it counts as one query
    return countBodyBytes(1, Buffer.byteLength(deliveries[at]?.queryList ?? ''), ids.length, leadBytes)
  })
  const recipes = kept.map((ids) => encodeRecipes([ids.map((versionId) => ({ versionId }))]).bytes)
  await sql`
    update deliveries d set recipe = m.recipe, leads = m.leads, bytes = m.bytes, end_reason = null
    from unnest(${deliveries.map(({ key }) => key)}::text[], ${recipes}::bytea[], ${kept.map(({ length }) => length)}::integer[],
      ${bytes}::integer[]) as m (key, recipe, leads, bytes)
    where d.idempotency_key = m.key`.execute(transaction)
}
