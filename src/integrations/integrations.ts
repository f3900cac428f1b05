/**
 * Integrations: API keys of users' automation platforms. A key is shown once and kept as a hash; everything that belongs to
 * an integration ends with it.
 */

import { hash, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { LeadpushError } from '../base/errors.ts'
import { apiKeyCharsMax, apiKeyCharsMin } from '../base/limits.ts'
import { repeatable } from '../db/dialect.ts'
import type { Database } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import type { TriggerKind } from '../index.ts'
import { signingSecretsOf } from '../secrets/cipher.ts'
import { plainVault, type Vault } from '../secrets/vault.ts'
import { findUser } from '../users/users.ts'
import { deleteHooks, type RemovedHook } from './hooks.ts'

const apiKeyPattern = new RegExp(`^[!-~]{${apiKeyCharsMin},${apiKeyCharsMax}}$`)

/** An integration with its new secrets, which are shown this once. */
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

const makeApiKey = () => `lpk_${randomBytes(32).toString('base64url')}`
const makeSigningSecret = () => `whsec_${randomBytes(32).toString('base64')}`

/** SQL: whether the key and the secret of integration `i` before the last rotation still count. */
export const isOverlapping = sql<boolean>`coalesce(i.previous_until > clock_timestamp(), false)`

/**
 * Makes an integration with the given key, or with a new one of 256 random bits. Throws `usage` for an unknown user, a malformed key, and
 * a key that an integration has already. Without `vault` the signing secret is stored in plain form.
 */
export async function createIntegration(
  db: Database,
  {
    email,
    apiKey = makeApiKey(),
    vault = plainVault,
  }: { email: string; apiKey?: string | undefined; vault?: Vault | undefined },
): Promise<CreatedIntegration> {
  if (!apiKeyPattern.test(apiKey)) {
    throw new LeadpushError(
      'usage',
      `The API key must be ${apiKeyCharsMin} to ${apiKeyCharsMax} visible ASCII characters, without spaces.`,
    )
  }
  const { user } = await findUser(db, email)
  const signingSecret = makeSigningSecret()
  const stored = vault.seal(signingSecret, signingSecretsOf(user.id))
  // a row with this secret was made by an earlier try whose answer was lost
  const { rows } = await vault.store(() =>
    sql<{ id: number }>`
        ${repeatable('the same key has one row')}
        with held as materialized (select ${vault.holdsKey})
        insert into integrations as i (user_id, api_key_sha256, signing_secret)
        select ${user.id}, ${hashOf(apiKey)}, ${stored} from held
        where not exists (select from integrations i where i.previous_api_key_sha256 = ${hashOf(apiKey)} and ${isOverlapping})
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

/**
 * Gives the integration a new key and a new signing secret. The old ones count beside them for `overlapMs`; those before the old ones end
 * now. Undefined if no integration has the id. `oldUntil`: when the old ones end.
 */
export async function rotateIntegration(
  db: Database,
  id: number,
  overlapMs: number,
  vault: Vault = plainVault,
): Promise<{ integration: CreatedIntegration; oldUntil: Date } | undefined> {
  const ofId = db.selectFrom('integrations').select('user_id').where('id', '=', id)
  const owner = await ofId.executeTakeFirst()
  if (!owner) return undefined
  const [apiKey, signingSecret] = [makeApiKey(), makeSigningSecret()]
  const stored = vault.seal(signingSecret, signingSecretsOf(owner.user_id))
  // a row with this key was rotated by an earlier try whose answer was lost
  const { rows } = await vault.store(() =>
    sql<{ user: string; oldUntil: Date }>`
        ${repeatable('a key that is set is not rotated again')}
        with held as materialized (select ${vault.holdsKey}),
        rotated as (
          update integrations set previous_api_key_sha256 = api_key_sha256, previous_signing_secret = signing_secret,
            previous_until = now() + ${overlapMs} * interval '1 millisecond',
            api_key_sha256 = ${hashOf(apiKey)}, signing_secret = ${stored}
          from held where id = ${id} and api_key_sha256 <> ${hashOf(apiKey)} returning previous_until
        )
        select u.email as user, coalesce((select previous_until from rotated), i.previous_until) as "oldUntil"
        from integrations i join users u on u.id = i.user_id where i.id = ${id}
      `.execute(db),
  )
  const [rotated] = rows
  return rotated && { integration: { id, user: rotated.user, apiKey, signingSecret }, oldUntil: rotated.oldUntil }
}

/** The integration of a caller. */
export interface FoundIntegration {
  id: number
  userId: number
  email: string
}

/**
 * Finds an integration by the hash of its key, or of the one before it while both count, in one look-up; undefined for an
 * unknown, ended or revoked key.
 */
export async function findIntegrationByKey(db: Database, apiKey: string): Promise<FoundIntegration | undefined> {
  const key = hashOf(apiKey)
  const { rows } = await sql<FoundIntegration>`
    select i.id, i.user_id as "userId", u.email from integrations i join users u on u.id = i.user_id
    where i.api_key_sha256 = ${key} or (i.previous_api_key_sha256 = ${key} and ${isOverlapping})
    order by i.api_key_sha256 = ${key} desc limit 1
  `.execute(db)
  return rows[0]
}

/** A hook as `integrations list` shows it. */
export interface ListedHook {
  id: string
  url: string
  /** The triggers that it asked for (contract 5.3). */
  triggers: TriggerKind[]
  createdAt: Date
  /** The HTTP status of the last attempt; null if no answer came. */
  lastStatus: number | null
  lastAt: Date | null
  /** How many listings beyond the newest of a run, and how many triggers given up, it ever missed. */
  dropped: number
  abandoned: number
  /** Since when the hook is switched off (contract 6.5). */
  offSince: Date | null
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
    const integrations = await page.execute()
    const ids = integrations.map(({ id }) => id)
    const hooks = await findHooksOf(db, ids)
    for (const integration of integrations) yield { ...integration, hooks: hooks.get(integration.id) ?? [] }
    last = integrations.at(-1)?.id ?? 0
    if (integrations.length < integrationsPerPage) return
  }
}

async function findHooksOf(db: Database, integrationIds: number[]): Promise<Map<number, ListedHook[]>> {
  if (integrationIds.length === 0) return new Map()
  const rows = await db
    .selectFrom('hooks')
    .select([
      'integration_id',
      'id',
      'url',
      'triggers',
      'created_at',
      'last_status',
      'last_at',
      'dropped',
      'abandoned',
      'off_since',
    ])
    .where('integration_id', 'in', integrationIds)
    .orderBy('integration_id')
    .orderBy('created_at')
    .orderBy('id')
    .execute()
  const found = new Map<number, ListedHook[]>()
  for (const row of rows) {
    const { integration_id, id, url, triggers, dropped, abandoned } = row
    const hooks = found.get(integration_id) ?? []
    hooks.push({
      id,
      url,
      triggers,
      createdAt: row.created_at,
      lastStatus: row.last_status,
      lastAt: row.last_at,
      dropped,
      abandoned,
      offSince: row.off_since,
    })
    found.set(integration_id, hooks)
  }
  return found
}

/** Ends an integration, its hooks and their triggers. Undefined if no integration has the id. */
export async function revokeIntegration(
  db: Database,
  id: number,
): Promise<{ user: string; hooks: RemovedHook[] } | undefined> {
  let revoked: { user: string; hooks: RemovedHook[] } | undefined
  await rideOut(db, () =>
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
