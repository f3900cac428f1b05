/** Exports users in the form that `users import` reads. */
import { formatCount, plural } from '../../base/amounts.ts'
import { usageError } from '../../base/errors.ts'
import { exportUsers } from '../../inspect/user/export-users.ts'
import { openVault } from '../../secrets/vault.ts'
import { UserLines } from '../../users/export-line.ts'
import { agrees, canAsk } from '../ask.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { toJsonLine } from '../output.ts'

interface ExportOptions {
  csv?: true
  keys?: true
  yes?: true
}

/** At most so many users that were left out are named. */
const namedMax = 10

async function agreeToKeys(io: CommandIo): Promise<void> {
  const hint = 'With --yes it does not ask; without --keys it exports no receiver keys.'
  if (!canAsk(io))
    throw usageError('--keys prints the receiver key of every user: without a terminal it needs --yes.', hint)
  if (await agrees(io, 'This prints the receiver key of every user.', 'Print them?')) return
  throw usageError('Nothing was exported: nobody agreed.', hint)
}

export async function exportAll({ io, open }: AtDatabase<'secretKey'>, options: ExportOptions): Promise<ExitCode> {
  const { csv, keys, yes } = options
  if (keys && !yes) await agreeToKeys(io)
  return await open(async (opened, settings) => {
    const vault = keys ? await openVault(opened.db, settings) : undefined
    const lines = csv && new UserLines(keys === true)
    let left = 0
    const leave = (email: string, why: string) => {
      if (++left <= namedMax) io.log.warn(`${email} is left out: ${why}.`)
    }
    if (lines) await io.out.write(lines.header)
    await exportUsers(opened, vault, async (page) => {
      const texts: string[] = []
      for (const user of page) {
        const text = 'isDamaged' in user ? undefined : lines ? lines.toLines(user) : toJsonLine(user)
        if (text !== undefined) texts.push(text)
        else if ('isDamaged' in user) leave(user.email, 'the stored receiver key cannot be decrypted')
        else leave(user.email, 'CSV cannot hold one of the values so that an import reads the same')
      }
      await io.out.write(texts.join(''))
    })
    if (left > namedMax) io.log.warn(`${formatCount(left - namedMax)} more are left out.`)
    if (left > 0 && lines)
      io.log.warn(`${plural(left, 'user')} left out in all; without --csv every value can be held.`)
    return left > 0 ? 1 : 0
  })
}
