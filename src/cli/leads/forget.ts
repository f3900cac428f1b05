/** `leadpush leads forget`: erases listings for good. What is given is neither printed nor kept. */

import { plural } from '../../base/amounts.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { DropFile } from '../../leads/drop-files.ts'
import type { Erasure } from '../../leads/erasures.ts'
import type { ForgetPhase, Wanted } from '../../upkeep/forget/forget.ts'
import { type ExitCode, settingsSource, usageError, waiting, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { tellForgotten, tellResponses } from './forget-view.ts'

export interface ForgetOptions {
  href?: string
  contact?: string
  list?: string
  drop?: string[]
  response?: string
  redact?: boolean
  dryRun?: boolean
  json?: true
}

/** More than any URL or contact is long. */
const inputCharsMax = 4_096
/** So many lines that cannot be read are told. */
const rejectedShownMax = 10

async function read(io: CommandIo, given: string): Promise<string> {
  if (given !== '-') return given
  let text = ''
  for await (const chunk of io.openStdin().setEncoding('utf8')) {
    text += chunk
    if (text.length > inputCharsMax) break
  }
  return text
}

async function readHref(io: CommandIo, given: string): Promise<Erasure> {
  const { hrefSchema } = await import('../../leads/lead.ts')
  // no href has blanks around it
  const parsed = hrefSchema.safeParse((await read(io, given)).trim())
  if (parsed.success) return { href: parsed.data }
  throw usageError(`--href: ${parsed.error.issues[0]?.message}`, 'Give it as the listing has it.')
}

async function readContact(io: CommandIo, given: string): Promise<Erasure> {
  const { parseContact } = await import('../../leads/contacts.ts')
  const parsed = parseContact(await read(io, given))
  if (parsed !== undefined) return { contact: parsed }
  throw usageError('--contact: must be one e-mail address, or one phone number of 7 to 15 digits')
}

async function openList(io: CommandIo, name: string): Promise<Wanted> {
  const { openFile, checkReadable } = await import('../../records/read-records.ts')
  const { readLines } = await import('../../leads/lists.ts')
  const isFile = name !== '-' && checkReadable(name) !== undefined
  return { lines: () => readLines(name === '-' ? io.openStdin() : openFile(name)), once: !isFile }
}

/** What the options name. Throws `usage`, before anything is done. */
async function readWanted(io: CommandIo, options: ForgetOptions): Promise<Wanted> {
  const { href, contact, list, drop, response, dryRun } = options
  const given = [href, contact, list, drop].filter((one) => one !== undefined)
  if (given.length !== 1) {
    const hint = 'Run `leadpush leads forget --help`.'
    throw usageError('`leads forget` takes one of --href, --contact, --list and --drop.', hint)
  }
  if (response !== undefined && drop === undefined) throw usageError('--response goes with --drop alone.')
  if (response !== undefined && dryRun) throw usageError('--response and --dry-run exclude each other.')
  if (href !== undefined) return readHref(io, href)
  if (contact !== undefined) return readContact(io, contact)
  if (list !== undefined) return openList(io, list)
  const { findDropFiles } = await import('../../leads/drop-files.ts')
  const { checkResponses } = await import('../../upkeep/forget/respond.ts')
  const files = findDropFiles(drop ?? [])
  if (response !== undefined) checkResponses(response, files)
  return { files }
}

export async function forget(io: CommandIo, options: ForgetOptions): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'databaseAwayMs', 'logFormat'], settingsSource(io))
  const wanted = await readWanted(io, options)
  return await withDatabase(io, settings, waiting(io), (opened) => forgetAndTell(io, opened, wanted, options))
}

async function forgetAndTell(
  io: CommandIo,
  opened: OpenDatabase,
  wanted: Wanted,
  { json, dryRun = false, redact = false, response }: ForgetOptions,
): Promise<ExitCode> {
  const { formatAwayMax } = await import('../../db/away.ts')
  const { forgetListings } = await import('../../upkeep/forget/forget.ts')
  const spinner = await io.out.openSpinner(io.log.format, json)
  const told = new Set<ForgetPhase>()
  const rejected = new Set<number>()
  const stop = io.stops.listen((signal) => io.log.info(`${signal}: what was erased stays erased.`))
  try {
    const forgotten = await forgetListings(opened, wanted, {
      redacts: redact,
      dryRun,
      stop: stop.signal,
      onPhase(phase) {
        if (spinner) spinner.start(texts[phase])
        else if (phase.startsWith('waiting') && !told.has(phase)) io.log.info(`${texts[phase]}.`)
        told.add(phase)
      },
      onRejected: (line) => void (rejected.size < rejectedShownMax && rejected.add(line)),
      onAway: () => io.log.warn(`The database is away: waiting for it, for ${formatAwayMax()} at most.`),
    })
    spinner?.stop()
    const { sent, list, ...counts } = forgotten
    if (list?.rejected) io.log.warn(tellRejected(list.rejected, [...rejected]))
    const shown = { dryRun, ...list, ...counts, sent: sent.count, sentComplete: sent.complete }
    if (json) await io.out.json({ type: 'forget', ...shown })
    else await tellForgotten(io, forgotten, dryRun)
    if (response !== undefined && !stop.signal.aborted && 'files' in wanted) {
      await respond(io, opened, response, wanted.files, json)
    }
    const isFound = list !== undefined ? list.rejected === 0 : forgotten.versions > 0
    return stop.exitCode ?? (isFound && forgotten.underWay === 0 ? 0 : 1)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    io.log.info('It was stopped in the middle: run the command again to erase what is left. Imports refuse it already.')
    return stop.exitCode ?? 1
  } finally {
    spinner?.stop()
    stop.dispose()
  }
}

async function respond(
  io: CommandIo,
  opened: OpenDatabase,
  folder: string,
  files: readonly DropFile[],
  json: true | undefined,
): Promise<void> {
  const { writeResponses } = await import('../../upkeep/forget/respond.ts')
  const responses = await writeResponses(opened.db, folder, files)
  if (!json) return await tellResponses(io, responses)
  for (const response of responses) await io.out.json({ type: 'response', ...response })
}

/** By their numbers alone: a line may hold a contact. */
function tellRejected(count: number, lines: readonly number[]): string {
  const more = count > lines.length ? ` and ${count - lines.length} more` : ''
  return `${plural(count, 'line')} held neither a URL nor one e-mail address or phone number, and did nothing: ${lines.join(', ')}${more}.`
}

const texts: Record<ForgetPhase, string> = {
  reading: 'Reading what is to be erased',
  'waiting for an import': 'An import is merging: waiting for it',
  looking: 'Looking through all that is kept of listings',
  erasing: 'Erasing',
  'waiting for attempts': 'Requests with it are under way in other processes: waiting for them',
  'clearing up': 'Clearing up',
}
