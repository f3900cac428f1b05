/** Brings the schema up to date, and stored secrets into the form in force. */

import { plural } from '../base/amounts.ts'
import { migrate as migrateSchema } from '../db/migrate.ts'
import { rideOut } from '../db/patience.ts'
import { sealStored } from '../secrets/seal-stored.ts'
import { hasDataKeys, openVault } from '../secrets/vault.ts'
import { resolveSearches } from './database.ts'
import type { AtDatabase, ExitCode } from './describe.ts'
import { writeSealed } from './rekey.ts'

export async function migrate({ io, open }: AtDatabase<'secretKey'>): Promise<ExitCode> {
  return await open(
    async (opened, settings) => {
      // a wrong key is reported before anything is done
      if (await hasDataKeys(opened.db)) await openVault(opened.db, settings)
      const applied = [...opened.migrated, ...(await rideOut(opened.db, () => migrateSchema(opened.db)))]
      await rideOut(opened.db, () => resolveSearches(opened.db))
      const vault = await openVault(opened.db, settings, { begins: true })
      const changed = await sealStored(opened, vault)
      await io.out.result({ type: 'migrate', applied, ...changed }, async () => {
        const what = `Applied ${plural(applied.length, 'migration')}: ${applied.join(', ')}.`
        await io.out.line(applied.length === 0 ? 'The schema is up to date.' : what)
        await writeSealed(io, changed, vault)
      })
      return changed.damaged > 0 ? 1 : 0
    },
    { create: true, schema: 'any' },
  )
}
