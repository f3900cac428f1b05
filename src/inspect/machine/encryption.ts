/** Checks whether stored secrets are encrypted as the settings say (`LEADPUSH_SECRET_KEY`). */
import { LeadpushError } from '../../base/errors.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { countStored } from '../../secrets/seal-stored.ts'
import { openVault, type Vault } from '../../secrets/vault.ts'
import { type Check, type CheckContext, failure, judge, skipped, type Trouble, type Verdict, warning } from './check.ts'

async function checkEncryption({ inspection, opened }: CheckContext): Promise<Verdict> {
  if (inspection.wrong.has('secretKey')) return skipped('LEADPUSH_SECRET_KEY is wrong')
  const { secretKey } = inspection.settings
  const { db } = opened as OpenDatabase
  let vault: Vault
  try {
    vault = await openVault(db, { secretKey })
  } catch (error) {
    if (!(error instanceof LeadpushError) || error.code !== 'usage') throw error
    return judge('', [failure(`${error.message}.`, error.hint ?? '')])
  }
  const { plain, sealed } = await countStored(db)
  const troubles: Trouble[] = []
  if (vault.isChanging) troubles.push(warning('A change of the secret key is not finished.', 'Run `leadpush migrate`.'))
  else if (secretKey !== undefined && plain > 0) {
    const message = `Receiver keys and signing secrets that are not encrypted: ${plain} of ${plain + sealed}.`
    troubles.push(warning(message, 'Run `leadpush migrate`: it encrypts them.'))
  }
  const well = 'receiver keys and signing secrets are'
  return judge(secretKey ? `${well} encrypted` : `${well} stored as they are: LEADPUSH_SECRET_KEY is not set`, troubles)
}

export const encryptionCheck: Check = {
  name: 'encryption',
  title: 'Encryption',
  needs: 'tables',
  run: checkEncryption,
}
