/**
 * Encrypts the key of erasures in a backup, with `LEADPUSH_SECRET_KEY` itself. The database has that key in the clear, beside the marks:
 * a person who reads those reads the contacts too. A backup lies elsewhere, and is kept for longer than the listings that were erased.
 */
import { LeadpushError } from '../base/errors.ts'
import { CipherKey, DamagedSecret, keyIdOf, type Place } from './cipher.ts'

const place: Place = { kind: 'erasure key', owner: 'backup' }

export const sealErasureKey = (secretKey: Buffer, key: Buffer): string =>
  new CipherKey(secretKey).seal(key.toString('base64'), place)

/** Throws `usage` where the setting is missing or is another key than that of the backup, `failed` where the text was changed. */
export function openErasureKey(secretKey: Buffer | undefined, sealed: string): Buffer {
  const key = secretKey && new CipherKey(secretKey)
  if (key?.id !== keyIdOf(sealed)) {
    const trouble = key
      ? 'holds another key than the backup was encrypted with (not shown)'
      : 'is not set; the backup is encrypted with it'
    throw new LeadpushError('usage', `LEADPUSH_SECRET_KEY: ${trouble}`, {
      hint: 'Set it, or LEADPUSH_SECRET_KEY_FILE, to the key that was set when the backup was made.',
    })
  }
  try {
    return Buffer.from(key.open(sealed, place), 'base64')
  } catch (error) {
    if (!(error instanceof DamagedSecret)) throw error
    throw new LeadpushError('failed', 'The key of erasures in the backup cannot be decrypted: it was changed.', {
      hint: 'Restore another backup.',
      cause: error,
    })
  }
}
