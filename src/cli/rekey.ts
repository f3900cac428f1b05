/** `leadpush settings rekey`: changes the key that secrets in the database are encrypted with, or decrypts them. */
import type { Command } from 'commander'
import { plural } from '../base/amounts.ts'
import { messageOf } from '../base/errors.ts'
import type { SealedCounts } from '../secrets/seal-stored.ts'
import type { Vault } from '../secrets/vault.ts'
import { type Act, type ExitCode, openSecrets, settingsSource, usageError, waiting, withDatabase } from './command.ts'
import type { CommandIo } from './command-io.ts'

interface RekeyOptions {
  newKeyFile?: string
  none?: true
  json?: true
}

export function addRekey(settings: Command, act: Act): void {
  settings
    .command('rekey')
    .description('Change LEADPUSH_SECRET_KEY: encrypt receiver keys and signing secrets with another key.')
    .option('--new-key-file <file>', 'the file with the new key; - reads it from standard input')
    .option('--none', 'decrypt them instead: from then on they are stored as they are')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
LEADPUSH_SECRET_KEY holds the key in force. The new one counts at once: commands
with the old one then end with exit code 2, and a push under way ends so too,
with nothing lost. Give every machine the new key, and run \`push --resume\`. One
that was killed is gone on with by running it again, or by \`migrate\` with the
new key. A backup that was made before needs the old key: keep it as long as the
backup.

Examples:
  openssl rand -base64 32 > new.key
  leadpush settings rekey --new-key-file new.key
  leadpush settings rekey --none                   without encryption again`,
    )
    // --json is an option of `settings` too, which then has it
    .action(act((io: CommandIo, _options: RekeyOptions, command: Command) => rekey(io, command.optsWithGlobals())))
}

/** More than any key is long. */
const inputCharsMax = 1_000

async function readInput(io: CommandIo): Promise<string> {
  let text = ''
  for await (const chunk of io.openStdin().setEncoding('utf8')) {
    text += chunk
    if (text.length > inputCharsMax) break
  }
  return text
}

async function readNewKey(io: CommandIo, file: string): Promise<Buffer> {
  const { readSmallFile } = await import('../base/small-file.ts')
  const { secretKey } = await import('../base/setting-values.ts')
  let text: string
  try {
    text = file === '-' ? await readInput(io) : readSmallFile(file)
  } catch (error) {
    throw usageError(`--new-key-file: ${JSON.stringify(file)} cannot be read: ${messageOf(error)}`)
  }
  const parsed = secretKey.safeParse(text.trim())
  if (parsed.success) return parsed.data
  throw usageError(
    `--new-key-file: holds a value that is not allowed (and not shown); allowed: ${parsed.error.issues[0]?.message}`,
  )
}

async function rekey(io: CommandIo, { newKeyFile, none, json }: RekeyOptions): Promise<ExitCode> {
  if ((newKeyFile === undefined) === (none === undefined))
    throw usageError('Give either --new-key-file FILE or --none.')
  const { readSettings } = await import('../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'databaseAwayMs', 'secretKey', 'logFormat'], settingsSource(io))
  const newKey = newKeyFile === undefined ? undefined : await readNewKey(io, newKeyFile)
  return await withDatabase(io, settings, waiting(io), async (opened) => {
    const { sealStored } = await import('../secrets/seal-stored.ts')
    const { changeSecretKey } = await import('../secrets/vault.ts')
    await changeSecretKey(opened.db, settings.secretKey, newKey)
    const vault = await openSecrets(opened.db, { secretKey: newKey ?? settings.secretKey })
    const changed = await sealStored(opened, vault)
    if (json) await io.out.json({ type: 'rekey', ...changed })
    else {
      await writeSealed(io, changed, vault)
      await io.out.line(tellKey(newKey !== undefined, changed))
    }
    return changed.damaged > 0 ? 1 : 0
  })
}

function tellKey(isChanged: boolean, { damaged }: SealedCounts): string {
  if (isChanged) return 'The new key is in force: set LEADPUSH_SECRET_KEY to it on every machine.'
  return damaged > 0
    ? 'Keep LEADPUSH_SECRET_KEY until nothing is encrypted any more: do what `leadpush validate` says, and run this again.'
    : 'Nothing is encrypted any more: unset LEADPUSH_SECRET_KEY on every machine, or the next import encrypts again.'
}

/** Tells a person what was encrypted or decrypted; nothing where nothing was. */
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
