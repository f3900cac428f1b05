/** Removes users with all that is theirs, or forgets them: then imports leave them out for good. */

import { sql } from 'kysely'
import { locks } from '../db/locks.ts'
import type { Database, OpenDatabase } from '../db/open.ts'
import { rideOut } from '../db/patience.ts'
import { vacuumTables } from '../db/tidy.ts'
import { kyselyOn } from '../db/transaction.ts'
import { eraseAnswersOfUser } from '../deliveries/answers.ts'
import type { RemovedHook } from '../integrations/hooks.ts'
import { revokeIntegrationsOf } from '../integrations/integrations.ts'
import { recordErasure } from '../leads/erasures.ts'
import { removeUser } from '../users/users.ts'
import { inTurn, type TurnOptions } from './in-turn.ts'
import { scopesOfClaims } from './prune/ledger.ts'

async function removeAll(transaction: Database, userId: number): Promise<RemovedHook[]> {
  const hooks = await revokeIntegrationsOf(transaction, userId)
  await eraseAnswersOfUser(transaction, userId)
  await removeUser(transaction, userId)
  return hooks
}

/** Removes a user, and returns the hooks that ended. What was claimed for the period stays: nobody gets two (contract 4.7). */
export async function removeUserWithAll({ db }: OpenDatabase, userId: number): Promise<RemovedHook[]> {
  let removed: RemovedHook[] = []
  await rideOut(db, () =>
    db.transaction().execute(async (transaction) => {
      const found = await removeAll(transaction, userId)
      // a repeated try, after a lost answer, finds nothing any more
      if (found.length > 0) removed = found
    }),
  )
  return removed
}

/** `already`: was forgotten before. `unknown`: was no user, and is kept out from now on. */
export interface ForgottenUser {
  outcome: 'forgotten' | 'already' | 'unknown'
  removed: RemovedHook[]
}

/** Removes the user with that e-mail, if there is one, with every row that names them, and keeps the e-mail out of later imports. */
export async function forgetUser(opened: OpenDatabase, email: string, turn: TurnOptions): Promise<ForgottenUser> {
  const forgotten: ForgottenUser = { outcome: 'already', removed: [] }
  await inTurn(opened, 'usersImport', turn, async (connection) => {
    const db = kyselyOn(connection)
    // from here on no push begins, which would claim the user anew
    await sql`select pg_advisory_xact_lock(${locks.erasure})`.execute(db)
    const { isNew } = await recordErasure(connection, { user: email })
    const user = await db.selectFrom('users').select('id').where('email', '=', email).executeTakeFirst()
    if (user) forgotten.removed = await removeAll(db, user.id)
    // a repeated try, after a lost answer, finds nothing new
    if (user) forgotten.outcome = 'forgotten'
    else if (isNew) forgotten.outcome = 'unknown'
    // whoever cannot come back needs no claim
    await sql`delete from claims where email = ${email} and scope in (${scopesOfClaims})`.execute(db)
  })
  return forgotten
}

/** After users were forgotten: rows that were deleted can no longer be read on disk. */
export const clearUpForgotten = (opened: OpenDatabase) => vacuumTables(opened, ['users', 'claims'])
