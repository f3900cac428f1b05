/** Checks the signing secrets of every integration for `validate`, also of those without a hook: a `subscribe` may register one any time. */
import { rideOut } from '../../db/away.ts'
import type { Database } from '../../db/open.ts'
import { signingSecretsOf } from '../../secrets/cipher.ts'
import { openIntact, type Vault } from '../../secrets/vault.ts'
import type { Finding, Findings } from '../finding.ts'

const integrationsPerPage = 1_000

const findPage = (db: Database, last: number) =>
  db
    .selectFrom('integrations as i')
    .innerJoin('users as u', 'u.id', 'i.user_id')
    .select(['i.id', 'u.email', 'u.id as userId', 'i.signing_secret as secret'])
    .where('i.id', '>', last)
    .orderBy('i.id')
    .limit(integrationsPerPage)
    .execute()

/** Yields the findings on all integrations, in the order of their ids. */
export async function* checkIntegrations(db: Database, vault: Vault, signal?: AbortSignal): Findings {
  for (let last = 0; !signal?.aborted; ) {
    const page = await rideOut(() => findPage(db, last))
    if (page.length === 0) return
    last = page.at(-1)?.id ?? last
    for (const { id, email, userId, secret } of page) {
      if ((await openIntact(vault, secret, signingSecretsOf(userId))) === undefined) yield damaged(id, email)
    }
  }
}

const damaged = (id: number, email: string): Finding => ({
  ...{ level: 'problem', code: 'integration', where: `integration ${id} of ${email}`, path: 'signingSecret' },
  what: 'cannot be decrypted: the stored one was changed',
  toDo: `\`leadpush integrations rotate ${id}\` makes another.`,
})
