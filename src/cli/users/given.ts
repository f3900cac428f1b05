/** The e-mails that a command is given: one, several, or `-` for those on standard input, one a line. */
import { addAbortSignal } from 'node:stream'
import { plural } from '../../base/amounts.ts'
import { LeadpushError, usageError } from '../../base/errors.ts'
import { readLines } from '../../base/read-lines.ts'
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

/** What a command does for each user that it is given. */
interface Change<Found, Outcome extends string> {
  /** Throws `usage` where there is nothing that could be changed. */
  find: (email: string) => Promise<Found>
  /** Filled with how many came to what. */
  counts: Record<Outcome | 'unknown', number>
  work: (found: Found, isSingle: boolean) => Promise<Outcome | 'unknown'>
  atEnd?: (isSingle: boolean, stopCode?: StopCode) => Promise<void>
}

/**
 * Does `work` for each user that is given, and counts them by what it returns. One e-mail as an argument: where nothing is found it is
 * wrong usage. Several, or standard input: after `atEnd` a summary follows; a stop ends them. Somebody unknown makes the exit code 1.
 */
export async function changeGiven<Found, Outcome extends string>(
  io: CommandIo,
  given: readonly string[],
  { find, counts, work, atEnd = async () => {} }: Change<Found, Outcome>,
): Promise<ExitCode> {
  const [first = '-'] = given
  if (given.length === 1 && first !== '-') {
    counts[await work(await find(first), true)]++
    await atEnd(true)
    return counts.unknown === 0 ? 0 : 1
  }
  // a push within `work` tells of the stop; without one the summary follows at once
  const stop = io.stops.listen(() => {})
  for await (const email of readEmails(io, given, stop.signal)) {
    const found = await find(email).catch((error) => {
      if (error instanceof LeadpushError && error.code === 'usage') return error
      throw error
    })
    if (!(found instanceof LeadpushError)) counts[await work(found, false)]++
    else {
      counts.unknown++
      await io.out.result({ type: 'unknown', email }, `${email}  ${paint('yellow', 'unknown')}  ${found.message}`)
    }
  }
  await atEnd(false, stop.exitCode)
  await io.out.result({ type: 'users', ...counts }, () =>
    io.out.facts(Object.entries<number>(counts).map(([name, count]) => [name, plural(count, 'user')])),
  )
  return stop.exitCode ?? (counts.unknown === 0 ? 0 : 1)
}
