/** The e-mails that a command is given: one, several, or `-` for those on standard input, one a line. */

import { LeadpushError } from '../../base/errors.ts'
import { emailCharsMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import type { FoundUser } from '../../users/users.ts'
import { usageError } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { paint } from '../painted.ts'

/** The e-mail where the command was given exactly one, as an argument; undefined for several, and for standard input. */
export function findSingle(given: readonly string[]): string | undefined {
  if (given.filter((each) => each === '-').length > 1) throw usageError('Standard input (-) can be read once only.')
  return given.length === 1 && given[0] !== '-' ? given[0] : undefined
}

/** With blanks around it, and in any script. */
const lineCharsMax = 4 * emailCharsMax

async function* readLines(io: CommandIo): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of io.openStdin().setEncoding('utf8')) {
    const lines = `${rest}${chunk}`.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > lineCharsMax) throw usageError('Standard input must have one e-mail a line.')
    yield* lines
  }
  yield rest
}

/** The e-mails in their order; blank lines of standard input are passed over. */
async function* readEmails(io: CommandIo, given: readonly string[]): AsyncGenerator<string> {
  for (const email of given) {
    if (email !== '-') yield email
    else for await (const line of readLines(io)) if (line.trim() !== '') yield line.trim()
  }
}

/** Does `work` for each user, tells those who do not exist, and returns their number. */
export async function forEachUser(
  io: CommandIo,
  db: Database,
  given: readonly string[],
  { json }: { json?: true },
  work: (found: FoundUser) => Promise<void>,
): Promise<{ unknown: number }> {
  const { findUser } = await import('../../users/users.ts')
  let unknown = 0
  for await (const email of readEmails(io, given)) {
    const found = await findUser(db, email).catch((error) => {
      if (error instanceof LeadpushError && error.code === 'usage') return undefined
      throw error
    })
    if (found) await work(found)
    else {
      unknown++
      if (json) await io.out.json({ type: 'unknown', email })
      else await io.out.line(`${email}  ${paint('yellow', 'unknown')}  There is no such user.`)
    }
  }
  return { unknown }
}
