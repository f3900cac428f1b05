/**
 * Integrations: the API keys of users' automation platforms. A key is shown once and kept as its hash; everything that
 * belongs to an integration ends with it.
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

export interface CreatedIntegration {
  id: number
  /** The user's e-mail. */
  user: string
  apiKey: string
  /** `whsec_` and 32 random bytes in base64, as Standard Webhooks has it. */
  signingSecret: string
}

/** The key as it is stored and looked up. */
const hashOf = (apiKey: string) => hash('sha256', apiKey, 'buffer')

/**
 * Makes an integration with the key that is given, or a new one of 256 random bits. Throws `usage` for a user who does not
 * exist, a key that is none, and one that an integration has already.
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
  // one with this secret is that of a try whose answer was lost
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

export interface FoundIntegration {
  id: number
  userId: number
  email: string
}

/** By one look-up of the key's hash; undefined for a key that is unknown or was revoked. */
export async function findIntegrationByKey(db: Database, apiKey: string): Promise<FoundIntegration | undefined> {
  return await db
    .selectFrom('integrations as i')
    .innerJoin('users as u', 'u.id', 'i.user_id')
    .select(['i.id', 'i.user_id as userId', 'u.email'])
    .where('i.api_key_sha256', '=', hashOf(apiKey))
    .executeTakeFirst()
}

export interface ListedHook {
  id: string
  url: string
  createdAt: Date
  /** Of the last trigger's last attempt: the status of the answer, if one came. */
  lastStatus: number | null
  lastAt: Date | null
}

export interface ListedIntegration {
  id: number
  /** The user's e-mail. */
  user: string
  createdAt: Date
  hooks: ListedHook[]
}

const integrationsPerPage = 200

/** All integrations by their ids, the oldest first, a page at a time. */
export async function* findIntegrations(db: Database): AsyncGenerator<ListedIntegration> {
  for (let last = 0; ; ) {
    const page = db
      .selectFrom('integrations as i')
      .innerJoin('users as u', 'u.id', 'i.user_id')
      .select(['i.id', 'u.email as user', 'i.created_at as createdAt'])
      .where('i.id', '>', last)
      .orderBy('i.id')
      .limit(integrationsPerPage)
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

/** Ends an integration with its hooks, and what was due for these. Undefined where there is none with the id. */
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
      // after a try whose answer was lost it is not there any more
      if (!found) return
      const hooks = await deleteHooks(transaction, sql`integration_id = ${id}`)
      await transaction.deleteFrom('integrations').where('id', '=', id).execute()
      revoked = { user: found.user, hooks }
    }),
  )
  return revoked
}

/** Ends all integrations of a user, who is about to be removed in the same transaction; returns their hooks. */
export async function revokeIntegrationsOf(transaction: Database, userId: number): Promise<RemovedHook[]> {
  // who registers a hook locks the user first, too
  await sql`select from users where id = ${userId} for update`.execute(transaction)
  const own = sql`integration_id in (select id from integrations where user_id = ${userId})`
  const hooks = await deleteHooks(transaction, own)
  await transaction.deleteFrom('integrations').where('user_id', '=', userId).execute()
  return hooks
}
