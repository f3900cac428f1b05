/** Checks the signing secrets of every integration for `validate`, also of those without a hook: a `subscribe` may register one any time. */
import { sql } from 'kysely'
import type { Database } from '../../db/open.ts'
import { isOverlapping } from '../../integrations/integrations.ts'
import { signingSecretsOf } from '../../secrets/cipher.ts'
import { openIntact, type Vault } from '../../secrets/vault.ts'
import type { Finding, Findings, Found } from '../finding.ts'

const integrationsPerPage = 1_000

const findPage = (db: Database, last: number) =>
  db
    .selectFrom('integrations as i')
    .innerJoin('users as u', 'u.id', 'i.user_id')
    .select(['i.id', 'u.email', 'u.id as userId', 'i.signing_secret as secret'])
    // the secret before the last rotation; null if it no longer counts
    .select(sql<string | null>`case when ${isOverlapping} then i.previous_signing_secret end`.as('previous'))
    .where('i.id', '>', last)
    .orderBy('i.id')
    .limit(integrationsPerPage)
    .execute()

/** Yields the findings on all integrations, in the order of their ids. */
export async function* checkIntegrations(db: Database, vault: Vault, signal?: AbortSignal): Findings {
  for (let last = 0; !signal?.aborted; ) {
    const page = await findPage(db, last)
    if (page.length === 0) return
    last = page.at(-1)?.id ?? last
    for (const { id, email, userId, secret, previous } of page) {
      const place = signingSecretsOf(userId)
      if ((await openIntact(vault, secret, place)) === undefined) yield describe(id, email, damaged(id))
      // triggers are fine: they have the signature of the new secret
      if (previous !== null && (await openIntact(vault, previous, place)) === undefined)
        yield describe(id, email, damagedBefore(id))
    }
  }
}

const describe = (id: number, email: string, found: Found): Finding => ({
  ...{ code: 'integration', where: `integration ${id} of ${email}`, path: 'signingSecret' },
  ...found,
})

const damaged = (id: number): Found => ({
  level: 'problem',
  what: 'cannot be decrypted: the stored one was changed',
  toDo: `\`leadpush integrations rotate ${id}\` makes another.`,
})

const damagedBefore = (id: number): Found => ({
  level: 'note',
  what: 'the one before the last rotation cannot be decrypted: the stored one was changed',
  toDo: `It ends with its overlap, or now with \`leadpush integrations rotate ${id} --overlap 0s\`.`,
})
