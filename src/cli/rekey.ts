/** Changes the key that secrets in the database are encrypted with, or decrypts them. */
import { plural } from '../base/amounts.ts'
import { usageError } from '../base/errors.ts'
import { secretKey } from '../base/setting-values.ts'
import { type SealedCounts, sealStored } from '../secrets/seal-stored.ts'
import { changeSecretKey, openVault, type Vault } from '../secrets/vault.ts'
import type { CommandIo } from './command-io.ts'
import type { AtDatabase, ExitCode } from './describe.ts'
import { fileOrInput } from './input.ts'

/** More than any key is long. */
const keyBytesMax = 1_000

async function readNewKey(io: CommandIo, file: string): Promise<Buffer> {
  const flag = '--new-key-file'
  const parsed = secretKey.safeParse((await fileOrInput(io, flag, file, keyBytesMax)).trim())
  if (parsed.success) return parsed.data
  throw usageError(
    `${flag}: holds a value that is not allowed (and not shown); allowed: ${parsed.error.issues[0]?.message}`,
  )
}

export async function rekey(
  { io, open, readSettings }: AtDatabase<'secretKey'>,
  { newKeyFile }: { newKeyFile?: string },
): Promise<ExitCode> {
  readSettings()
  const newKey = newKeyFile === undefined ? undefined : await readNewKey(io, newKeyFile)
  return await open(async (opened, settings) => {
    await changeSecretKey(opened.db, settings.secretKey, newKey)
    const vault = await openVault(opened.db, { secretKey: newKey ?? settings.secretKey })
    const changed = await sealStored(opened, vault)
    await io.out.result({ type: 'rekey', ...changed }, async () => {
      await writeSealed(io, changed, vault)
      await io.out.line(tellKey(newKey !== undefined, changed))
    })
    return changed.damaged > 0 ? 1 : 0
  })
}

function tellKey(isChanged: boolean, { damaged }: SealedCounts): string {
  if (isChanged) return 'The new key is in force: set LEADPUSH_SECRET_KEY to it on every machine.'
  return damaged > 0
    ? 'Keep LEADPUSH_SECRET_KEY until nothing is encrypted any more: do what `leadpush validate` says, and run this again.'
    : 'Nothing is encrypted any more: unset LEADPUSH_SECRET_KEY on every machine, or the next import encrypts again.'
}

/** The line for people on what was encrypted or decrypted, if anything was. */
export async function writeSealed(
  io: CommandIo,
  { receiverKeys, signingSecrets, damaged }: SealedCounts,
  vault: Vault,
): Promise<void> {
  if (receiverKeys + signingSecrets > 0) {
    const what = `${plural(receiverKeys, 'receiver key')} and ${plural(signingSecrets, 'signing secret')}`
    await io.out.line(`${vault.currentId === undefined ? 'Decrypted' : 'Encrypted'} ${what}.`)
  }
  if (damaged > 0) {
    await io.out.line(`${plural(damaged, 'secret')} cannot be decrypted and stayed: \`leadpush validate\` tells which.`)
  }
}
