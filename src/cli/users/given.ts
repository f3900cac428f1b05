/** The e-mails that a command is given: one, several, or `-` for those on standard input, one a line. */
import { addAbortSignal } from 'node:stream'
import { LeadpushError, usageError } from '../../base/errors.ts'
import { emailCharsMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { type FoundUser, findUser } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import { paint } from '../painted.ts'
import type { StopCode } from '../signals.ts'

/** The e-mail if exactly one was given, as an argument; undefined for several, and for standard input. */
export function findSingle(given: readonly string[]): string | undefined {
  if (given.filter((each) => each === '-').length > 1) throw usageError('Standard input (-) can be read once only.')
  return given.length === 1 && given[0] !== '-' ? given[0] : undefined
}

/** An e-mail in any script, with blanks around it. */
const lineCharsMax = 4 * emailCharsMax

/** The lines of standard input; a stop ends them, even while it waits for the next one. */
async function* readLines(io: CommandIo, stop: AbortSignal): AsyncGenerator<string> {
  let rest = ''
  const input = addAbortSignal(stop, io.openStdin().setEncoding('utf8'))
  try {
    for await (const chunk of input) {
      const lines = `${rest}${chunk}`.split('\n')
      rest = lines.pop() ?? ''
      if (rest.length > lineCharsMax) throw usageError('Standard input must have one e-mail a line.')
      yield* lines
    }
  } catch (error) {
    if (stop.aborted) return
    throw error
  }
  yield rest
}

/** The e-mails in their order, up to a stop; blank lines of standard input are passed over. */
async function* readEmails(io: CommandIo, given: readonly string[], stop: AbortSignal): AsyncGenerator<string> {
  for (const each of given) {
    for await (const email of each === '-' ? readLines(io, stop) : [each]) {
      if (stop.aborted) return
      if (each !== '-') yield email
      else if (email.trim() !== '') yield email.trim()
    }
  }
}

/** The result of a list. */
interface Done {
  /** Users who do not exist. */
  unknown: number
  /** The exit code of the command, if it was stopped. */
  stopCode: StopCode | undefined
}

/** Does `work` for each user, and names those who do not exist. After a stop it begins nothing more. */
export async function forEachUser(
  io: CommandIo,
  db: Database,
  given: readonly string[],
  work: (found: FoundUser) => Promise<void>,
): Promise<Done> {
  // a push within `work` reports the stop; without one the summary follows at once
  const stop = io.stops.listen(() => {})
  let unknown = 0
  try {
    for await (const email of readEmails(io, given, stop.signal)) {
      const found = await findUser(db, email).catch((error) => {
        if (error instanceof LeadpushError && error.code === 'usage') return undefined
        throw error
      })
      if (found) await work(found)
      else {
        unknown++
        const text = `${email}  ${paint('yellow', 'unknown')}  There is no such user.`
        await io.out.result({ type: 'unknown', email }, text)
      }
    }
    return { unknown, stopCode: stop.exitCode }
  } finally {
    stop.dispose()
  }
}
