/** Hooks: URLs that integrations register for triggers and remove again (contract 5.3, 5.4). */
import { hash } from 'node:crypto'
import { type RawBuilder, sql, type Transaction } from 'kysely'
import { idCharsMin } from '../base/amounts.ts'
import { hooksPerIntegrationMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import type { Tables } from '../db/tables.ts'
import type { TriggerKind } from '../index.ts'
import { recordSubscriptionOwed, type SubscriptionOwed } from '../users/users.ts'
import { spellHookUrl } from './hook-address.ts'

/** The triggers that a hook may ask for (contract 5.3). */
export const triggerKinds = ['new_lead', 'price_change', 'lead_gone'] as const satisfies readonly TriggerKind[]

/** The result of registering a URL. A subscription push is owed if it is the integration's first hook. */
export type RegisteredHook = SubscriptionOwed & {
  hookId: string
  /** False if the integration had the URL already, in any spelling. */
  isNew: boolean
  /** Whether the hook was switched off until now (contract 6.5). */
  wasOff: boolean
  /** What it asks for now, if it asked for others until now. */
  newTriggers?: readonly TriggerKind[] | undefined
}

const hashOf = (url: string) => hash('sha256', spellHookUrl(url), 'buffer')

/** Whether the integration has the URL, in any spelling. */
export async function hasHook(db: Database, integrationId: number, url: string): Promise<boolean> {
  const { rows } = await sql`
    select from hooks where integration_id = ${integrationId} and url_sha256 = ${hashOf(url)}
  `.execute(db)
  return rows.length > 0
}

/**
 * Registers `url`, which `checkHookUrl` must have accepted, for `triggers`; undefined: `new_lead`, or the triggers that it has. Due
 * triggers of a kind that it no longer has end. `too many`: the integration has 100 other hooks; `revoked`: the integration ended after
 * its key was looked up.
 */
export async function registerHook(
  db: Database,
  { id, userId }: { id: number; userId: number },
  url: string,
  triggers?: readonly TriggerKind[],
): Promise<RegisteredHook | 'too many' | 'revoked'> {
  return await db.transaction().execute(async (transaction) => {
    // locks the user: registrations take turns, and removing the user or ending the integration comes before or after
    await sql`select from users where id = ${userId} for no key update`.execute(transaction)
    const integration = await sql`select from integrations where id = ${id} for key share`.execute(transaction)
    if (integration.rows.length === 0) return 'revoked'
    const { rows } = await sql<{ hooks: number; same: string | null }>`
      select count(*) as hooks, (select h.id from hooks h where h.integration_id = ${id} and h.url_sha256 = ${hashOf(url)}) as same
      from hooks where integration_id = ${id}
    `.execute(transaction)
    const { hooks = 0, same = null } = rows[0] ?? {}
    if (same !== null) {
      const on = await sql`
        update hooks set off_since = null, failing_since = null, failures = 0, paused_until = null where id = ${same} and off_since is not null
      `.execute(transaction)
      const hasNew = triggers && (await replaceTriggers(transaction, same, triggers))
      const wasOff = on.numAffectedRows === 1n
      return { hookId: same, isNew: false, wasOff, owed: false, ...(hasNew && { newTriggers: triggers }) }
    }
    if (hooks >= hooksPerIntegrationMax) return 'too many'
    const inserted = await sql<{ id: string }>`
      insert into hooks (integration_id, url, url_sha256, triggers, looked_import_id)
      values (${id}, ${url}, ${hashOf(url)}, ${triggers ?? ['new_lead']}::text[], (select coalesce(max(id), 0) from imports)) returning id
    `.execute(transaction)
    const owed: SubscriptionOwed = hooks === 0 ? await recordSubscriptionOwed(transaction, userId) : { owed: false }
    return { hookId: inserted.rows[0]?.id ?? '', isNew: true, wasOff: false, ...owed }
  })
}

/** Returns whether it had others. */
async function replaceTriggers(
  transaction: Transaction<Tables>,
  hookId: string,
  triggers: readonly TriggerKind[],
): Promise<boolean> {
  const replaced = await sql`
    update hooks set triggers = ${triggers}::text[] where id = ${hookId} and triggers <> ${triggers}::text[]
  `.execute(transaction)
  if (replaced.numAffectedRows === 0n) return false
  await sql`delete from triggers where hook_id = ${hookId} and kind <> all (${triggers}::text[])`.execute(transaction)
  await sql`delete from lost_triggers where hook_id = ${hookId} and kind <> all (${triggers}::text[])`.execute(
    transaction,
  )
  return true
}

/** A hook that is no longer registered. */
export interface RemovedHook {
  id: string
  url: string
}

/** The chosen hooks of an integration: one by its id or its URL, or all. */
export type HooksToRemove = { id: string } | { url: string } | 'all'

/** Callers may send any text as an id. */
const uuidPattern = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Removes hooks of the integration and their triggers; returns the removed hooks. */
export async function removeHooks(db: Database, integrationId: number, which: HooksToRemove): Promise<RemovedHook[]> {
  const own = sql`integration_id = ${integrationId}`
  if (which === 'all') return await deleteHooks(db, own)
  if ('url' in which) return await deleteHooks(db, sql`${own} and url_sha256 = ${hashOf(which.url)}`)
  return uuidPattern.test(which.id) ? await deleteHooks(db, sql`${own} and id = ${which.id}`) : []
}

/** Removes the hooks that fulfil `condition`. Locks them in the order of their ids, as recording outcomes does. */
export async function deleteHooks(db: Database, condition: RawBuilder<unknown>): Promise<RemovedHook[]> {
  const { rows } = await sql<RemovedHook>`
    with found as materialized (select id from hooks where ${condition} order by id for update)
    delete from hooks where id in (select id from found) returning id, url
  `.execute(db)
  return rows
}

/** The first two hooks whose ids begin with `text`, which may be anything; none for fewer than `idCharsMin` characters. */
export async function findHookIds(db: Database, text: string): Promise<string[]> {
  if (text.length < idCharsMin) return []
  const { rows } = await sql<{ id: string }>`
    select id from hooks where starts_with(id::text, ${text.toLowerCase()}) limit 2`.execute(db)
  return rows.map(({ id }) => id)
}
