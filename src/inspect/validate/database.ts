/** The pass of `validate` over the data: queries, users, integrations, hooks and leads, in this order. */
import type { OpenDatabase } from '../../db/open.ts'
import { hasOutdated } from '../../matching/searches.ts'
import { findPlaces } from '../../places/places.ts'
import { plainVault, type Vault } from '../../secrets/vault.ts'
import type { Findings } from '../finding.ts'
import { checkHooks, type HookCounts, type HookSettings } from './hooks.ts'
import { checkIntegrations } from './integrations.ts'
import { checkLeads } from './leads.ts'
import { type CheckedUsers, checkUsers } from './users.ts'

export interface DatabaseCounts extends CheckedUsers, HookCounts {
  leads: number
}

/** `counts` grows as rows are checked. */
export async function* checkDatabase(
  opened: OpenDatabase,
  settings: HookSettings,
  counts: DatabaseCounts,
  signal?: AbortSignal,
  vault: Vault = plainVault,
): Findings {
  const { db } = opened
  if (await hasOutdated(db)) {
    const what = 'The queries were resolved by an older version of this program: they may match other listings now'
    yield { level: 'problem', code: 'searches', where: 'queries', path: '', what, toDo: 'Run `leadpush migrate`.' }
  }
  yield* checkUsers(opened, { places: await findPlaces(db), vault }, counts, signal)
  yield* checkIntegrations(db, vault, signal)
  yield* checkHooks(db, settings, counts, signal)
  yield* checkLeads(db, counts, signal)
}
