/** Checks whether stored secrets are encrypted as the settings say (`LEADPUSH_SECRET_KEY`). */
import { LeadpushError } from '../../base/errors.ts'
import { countStored } from '../../secrets/seal-stored.ts'
import { openVault, type Vault } from '../../secrets/vault.ts'
import { type Found, note } from '../finding.ts'
import { type Check, type CheckContext, openedOf } from './check.ts'
import { ofSetting } from './settings.ts'

async function checkEncryption(context: CheckContext): Promise<Found[]> {
  if (context.inspection.wrong.has('secretKey')) return []
  const { secretKey } = context.inspection.settings
  const { db } = openedOf(context)
  let vault: Vault
  try {
    vault = await openVault(db, { secretKey })
  } catch (error) {
    if (!(error instanceof LeadpushError) || error.code !== 'usage') throw error
    return [ofSetting(error.message, error.hint)]
  }
  if (vault.isChanging) return [note('A change of the secret key is not finished', 'Run `leadpush migrate`.')]
  if (secretKey === undefined) return []
  const { plain, sealed } = await countStored(db)
  if (plain === 0) return []
  const what = `Receiver keys and signing secrets that are not encrypted: ${plain} of ${plain + sealed}`
  return [note(what, 'Run `leadpush migrate`: it encrypts them.')]
}

export const encryptionCheck: Check = {
  code: 'encryption',
  title: 'encryption',
  needs: 'tables',
  run: checkEncryption,
}
