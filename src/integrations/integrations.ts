/**
 * Integrations: API keys of users' automation platforms. A key is shown once and kept as a hash; everything that belongs to
 * an integration ends with it.
 */
import { hash, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { LeadpushError } from '../base/errors.ts'
import { apiKeyCharsMax, apiKeyCharsMin } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import { findUser } from '../users/users.ts'
import { deleteHooks, type RemovedHook } from './hooks.ts'

const apiKeyPattern = new RegExp(`^[!-~]{${apiKeyCharsMin},${apiKeyCharsMax}}$`)

/** A new integration with its secrets, which are shown this once. */
export interface CreatedIntegration {
  id: number
  /** The user's e-mail. */
  user: string
  apiKey: string
  /** `whsec_` and 32 random bytes in base64, as Standard Webhooks demands. */
  signingSecret: string
}

/** The form in which a key is stored and looked up. */
const hashOf = (apiKey: string) => hash('sha256', apiKey, 'buffer')

/**
 * Makes an integration with the given key, or with a new one of 256 random bits. Throws `usage` for an unknown user, a
 * malformed key, and a key that an integration has already.
 */
export async function createIntegration(
  db: Database,
  { email, apiKey = `lpk_${randomBytes(32).toString('base64url')}` }: { email: string; apiKey?: string | undefined },
): Promise<CreatedIntegration> {
  if (!apiKeyPattern.test(apiKey)) {
    throw new LeadpushError(
      'usage',
      `The API key must be ${apiKeyCharsMin} to ${apiKeyCharsMax} visible ASCII characters, without spaces.`,
    )
  }
  const { user } = await findUser(db, email)
  const signingSecret = `whsec_${randomBytes(32).toString('base64')}`
  // a row with this secret was made by an earlier try whose answer was lost
  const { rows } = await rideOut(() =>
    sql<{ id: number }>`
      insert into integrations as i (user_id, api_key_sha256, signing_secret)
      values (${user.id}, ${hashOf(apiKey)}, ${signingSecret})
      on conflict (api_key_sha256) do update set signing_secret = excluded.signing_secret
      where i.signing_secret = excluded.signing_secret returning id
    `.execute(db),
  )
  const [created] = rows
  if (created) return { id: created.id, user: user.email, apiKey, signingSecret }
  throw new LeadpushError('usage', 'An integration with this API key exists already.', {
    hint: '`leadpush integrations list` shows them; a key belongs to one integration of one user.',
  })
}

/** The integration of a caller. */
export interface FoundIntegration {
  id: number
  userId: number
  email: string
}

/** Finds an integration by the hash of its key, in one look-up; undefined for an unknown or revoked key. */
export async function findIntegrationByKey(db: Database, apiKey: string): Promise<FoundIntegration | undefined> {
  return await db
    .selectFrom('integrations as i')
    .innerJoin('users as u', 'u.id', 'i.user_id')
    .select(['i.id', 'i.user_id as userId', 'u.email'])
    .where('i.api_key_sha256', '=', hashOf(apiKey))
    .executeTakeFirst()
}

/** A hook as `integrations list` shows it. */
export interface ListedHook {
  id: string
  url: string
  createdAt: Date
  /** The HTTP status that the last attempt got; null where no answer came. */
  lastStatus: number | null
  lastAt: Date | null
}

/** An integration as `integrations list` shows it. */
export interface ListedIntegration {
  id: number
  /** The user's e-mail. */
  user: string
  createdAt: Date
  hooks: ListedHook[]
}

const integrationsPerPage = 200

/** All integrations, or those of one user, the oldest first, read page by page. */
export async function* findIntegrations(db: Database, userId?: number): AsyncGenerator<ListedIntegration> {
  for (let last = 0; ; ) {
    const all = db
      .selectFrom('integrations as i')
      .innerJoin('users as u', 'u.id', 'i.user_id')
      .select(['i.id', 'u.email as user', 'i.created_at as createdAt'])
      .where('i.id', '>', last)
      .orderBy('i.id')
      .limit(integrationsPerPage)
    const page = userId === undefined ? all : all.where('i.user_id', '=', userId)
    const integrations = await rideOut(() => page.execute())
    const ids = integrations.map(({ id }) => id)
    const hooks = await rideOut(() => findHooksOf(db, ids))
    for (const integration of integrations) yield { ...integration, hooks: hooks.get(integration.id) ?? [] }
    last = integrations.at(-1)?.id ?? 0
    if (integrations.length < integrationsPerPage) return
  }
}

async function findHooksOf(db: Database, integrationIds: number[]): Promise<Map<number, ListedHook[]>> {
  if (integrationIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('hooks')
    .select(['integration_id', 'id', 'url', 'created_at', 'last_status', 'last_at'])
    .where('integration_id', 'in', integrationIds)
    .orderBy('integration_id')
    .orderBy('created_at')
    .orderBy('id')
    .execute()
  const found = new Map<number, ListedHook[]>()
  for (const { integration_id, id, url, created_at, last_status, last_at } of rows) {
    const hooks = found.get(integration_id) ?? []
    hooks.push({ id, url, createdAt: created_at, lastStatus: last_status, lastAt: last_at })
    found.set(integration_id, hooks)
  }
  return found
}

/** Ends an integration, its hooks and their triggers. Undefined where no integration has the id. */
export async function revokeIntegration(
  db: Database,
  id: number,
): Promise<{ user: string; hooks: RemovedHook[] } | undefined> {
  let revoked: { user: string; hooks: RemovedHook[] } | undefined
  await rideOut(() =>
    db.transaction().execute(async (transaction) => {
      const { rows } = await sql<{ user: string }>`
        select u.email as user from integrations i join users u on u.id = i.user_id where i.id = ${id} for update of i
      `.execute(transaction)
      const [found] = rows
      // an earlier try whose answer was lost may have removed it
      if (!found) return
      const hooks = await deleteHooks(transaction, sql`integration_id = ${id}`)
      await transaction.deleteFrom('integrations').where('id', '=', id).execute()
      revoked = { user: found.user, hooks }
    }),
  )
  return revoked
}

/** Ends all integrations of a user who is removed in the same transaction; returns their hooks. */
export async function revokeIntegrationsOf(transaction: Database, userId: number): Promise<RemovedHook[]> {
  // registering a hook locks the user first, too
  await sql`select from users where id = ${userId} for update`.execute(transaction)
  const own = sql`integration_id in (select id from integrations where user_id = ${userId})`
  const hooks = await deleteHooks(transaction, own)
  await transaction.deleteFrom('integrations').where('user_id', '=', userId).execute()
  return hooks
}
