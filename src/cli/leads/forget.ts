/** Erases listings for good. The given URLs and contacts are neither printed nor kept. */

import { addAbortSignal } from 'node:stream'
import { plural } from '../../base/amounts.ts'
import { usageError } from '../../base/errors.ts'
import { readLines } from '../../base/read-lines.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { parseContact } from '../../leads/contacts.ts'
import { type DropFile, findDropFiles } from '../../leads/drop-files.ts'
import type { Erasure } from '../../leads/erasures.ts'
import { hrefSchema } from '../../leads/lead.ts'
import { checkReadable, openFile } from '../../records/read-records.ts'
import { type ForgetPhase, forgetListings, type Wanted } from '../../upkeep/forget/forget.ts'
import { checkResponses, writeResponses } from '../../upkeep/forget/respond.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { valueOrInput } from '../input.ts'
import { startProgress } from '../progress.ts'
import { tellUntidied } from '../untidied.ts'
import { tellForgotten, tellResponse } from './forget-view.ts'

interface ForgetOptions {
  href?: string
  contact?: string
  list?: string
  drop?: string[]
  response?: string
  redact?: boolean
  dryRun?: boolean
}

/** More than any URL or contact is long. */
const inputBytesMax = 4_096
/** At most so many unreadable lines are named. */
const rejectedShownMax = 10

async function readHref(io: CommandIo, given: string): Promise<Erasure> {
  // no href has blanks around it
  const parsed = hrefSchema.safeParse((await valueOrInput(io, '--href', given, inputBytesMax)).trim())
  if (parsed.success) return { href: parsed.data }
  throw usageError(`--href: ${parsed.error.issues[0]?.message}`, 'Give it as the listing has it.')
}

async function readContact(io: CommandIo, given: string): Promise<Erasure> {
  const parsed = parseContact(await valueOrInput(io, '--contact', given, inputBytesMax))
  if (parsed !== undefined) return { contact: parsed }
  throw usageError('--contact: must be one e-mail address, or one phone number of 7 to 15 digits')
}

function openList(io: CommandIo, name: string): Wanted {
  const isFile = name !== '-' && checkReadable(name) !== undefined
  const open = () => (name === '-' ? io.openStdin() : openFile(name))
  return { lines: (stop) => readLines(addAbortSignal(stop, open())), once: !isFile }
}

/** The URLs and contacts that the options name. Throws `usage` before anything is done. */
async function readWanted(io: CommandIo, { href, contact, list, drop = [], response }: ForgetOptions): Promise<Wanted> {
  if (href !== undefined) return readHref(io, href)
  if (contact !== undefined) return readContact(io, contact)
  if (list !== undefined) return openList(io, list)
  const files = findDropFiles(drop)
  if (response !== undefined) checkResponses(response, files)
  return { files }
}

export async function forget({ io, open, readSettings }: AtDatabase, options: ForgetOptions): Promise<ExitCode> {
  readSettings()
  const wanted = await readWanted(io, options)
  return await open((opened) => forgetAndTell(io, opened, wanted, options))
}

async function forgetAndTell(
  io: CommandIo,
  opened: OpenDatabase,
  wanted: Wanted,
  { dryRun = false, redact = false, response }: ForgetOptions,
): Promise<ExitCode> {
  let phase: ForgetPhase | undefined
  const progress = await startProgress(io, () => phase && texts[phase])
  const rejected = new Set<number>()
  const stop = io.stops.listen((signal) => io.log.info(`${signal}: stopping; erased listings stay erased.`))
  try {
    const forgotten = await forgetListings(opened, wanted, {
      redacts: redact,
      dryRun,
      stop: stop.signal,
      onPhase(next) {
        if (next.startsWith('waiting') && next !== phase) io.log.info(`${texts[next]}.`)
        phase = next
      },
      onRejected: (line) => void (rejected.size < rejectedShownMax && rejected.add(line)),
    })
    progress.stop()
    const { sent, list, untidied, ...counts } = forgotten
    if (untidied.size > 0) io.log.warn(tellUntidied(untidied))
    if (list?.rejected) io.log.warn(tellRejected(list.rejected, [...rejected]))
    const tables = untidied.size > 0 ? { untidied: [...untidied.keys()] } : {}
    const shown = { dryRun, ...list, ...counts, ...tables, sent: sent.count, sentComplete: sent.complete }
    await io.out.result({ type: 'forget', ...shown }, () => tellForgotten(io, forgotten, dryRun))
    if (response !== undefined && !stop.signal.aborted && 'files' in wanted) {
      await respond(io, opened, response, wanted.files)
    }
    const isFound = list !== undefined ? list.rejected === 0 : forgotten.versions > 0
    const isDone = forgotten.underWay === 0 && untidied.size === 0
    return stop.exitCode ?? (isFound && isDone ? 0 : 1)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    const done = 'It was stopped in the middle: run the command again to erase the rest. Imports refuse it already.'
    io.log.info(phase === 'reading' ? 'It was stopped while it read the list: run the command again.' : done)
    return stop.exitCode ?? 1
  }
}

async function respond(io: CommandIo, opened: OpenDatabase, folder: string, files: readonly DropFile[]): Promise<void> {
  for (const response of await writeResponses(opened.db, folder, files))
    await io.out.result({ type: 'response', ...response }, tellResponse(response))
}

/** By their numbers alone: a line may hold a contact. */
function tellRejected(count: number, lines: readonly number[]): string {
  const more = count > lines.length ? ` and ${count - lines.length} more` : ''
  return `${plural(count, 'line')} held neither a URL nor one e-mail address or phone number, and did nothing: ${lines.join(', ')}${more}.`
}

const texts: Record<ForgetPhase, string> = {
  reading: 'Reading the list',
  'waiting for an import': 'An import is merging: waiting for it',
  looking: 'Looking through all that is kept of listings',
  erasing: 'Erasing',
  'waiting for attempts': 'Requests with it are under way in other processes: waiting for them',
  'clearing up': 'Clearing up',
}
