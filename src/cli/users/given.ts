/** The e-mails that a command is given: one, several, or `-` for those on standard input, one a line. */
import { addAbortSignal } from 'node:stream'
import { plural } from '../../base/amounts.ts'
import { LeadpushError, usageError } from '../../base/errors.ts'
import { readLines } from '../../base/read-lines.ts'
import type { Database } from '../../db/open.ts'
import { type FoundUser, findUser } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import type { ExitCode } from '../describe.ts'
import { paint } from '../painted.ts'
import type { StopCode } from '../signals.ts'

/** Throws `usage` where standard input is given twice. */
export function checkGiven(given: readonly string[]): void {
  if (given.filter((each) => each === '-').length > 1) throw usageError('Standard input (-) can be read once only.')
}

/** The lines of standard input; a stop ends them, even while it waits for the next one. */
async function* readInput(io: CommandIo, stop: AbortSignal): AsyncGenerator<string> {
  try {
    yield* readLines(addAbortSignal(stop, io.openStdin()))
  } catch (error) {
    if (!stop.aborted) throw error
  }
}

/** The e-mails in their order, up to a stop; blank lines of standard input are passed over. */
async function* readEmails(io: CommandIo, given: readonly string[], stop: AbortSignal): AsyncGenerator<string> {
  for (const each of given) {
    for await (const email of each === '-' ? readInput(io, stop) : [each]) {
      if (stop.aborted) return
      if (each !== '-') yield email
      else if (email.trim() !== '') yield email.trim()
    }
  }
}

/**
 * Does `work` for each user that is given, and counts them by what it returns. One e-mail as an argument: a user who does not exist is
 * wrong usage. Several, or standard input: after `atEnd` a summary follows, and one who does not exist makes the exit code 1; a stop ends
 * them.
 */
export async function changeGiven<Outcome extends string>(
  io: CommandIo,
  db: Database,
  given: readonly string[],
  counts: Record<Outcome, number>,
  work: (found: FoundUser, isSingle: boolean) => Promise<Outcome>,
  atEnd: (isSingle: boolean, stopCode?: StopCode) => Promise<void> = async () => {},
): Promise<ExitCode> {
  const [first = '-'] = given
  if (given.length === 1 && first !== '-') {
    await work(await findUser(db, first), true)
    await atEnd(true)
    return 0
  }
  // a push within `work` tells of the stop; without one the summary follows at once
  const stop = io.stops.listen(() => {})
  let unknown = 0
  for await (const email of readEmails(io, given, stop.signal)) {
    const found = await findUser(db, email).catch((error) => {
      if (error instanceof LeadpushError && error.code === 'usage') return undefined
      throw error
    })
    if (found) counts[await work(found, false)]++
    else {
      unknown++
      const text = `${email}  ${paint('yellow', 'unknown')}  There is no such user.`
      await io.out.result({ type: 'unknown', email }, text)
    }
  }
  await atEnd(false, stop.exitCode)
  const all: Record<string, number> = { ...counts, unknown }
  await io.out.result({ type: 'users', ...all }, () =>
    io.out.facts(Object.entries(all).map(([name, count]) => [name, plural(count, 'user')])),
  )
  return stop.exitCode ?? (unknown === 0 ? 0 : 1)
}
