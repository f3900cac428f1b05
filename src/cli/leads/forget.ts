/** `leadpush leads forget`: erases listings for good. The given URL or contact is neither printed nor kept. */

import { plural } from '../../base/amounts.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { Erasure } from '../../leads/erasures.ts'
import type { ForgetPhase, Forgotten } from '../../upkeep/forget/forget.ts'
import { type ExitCode, usageError, waiting, withDatabase } from '../command.ts'
import type { Log } from '../log.ts'
import { isLively, writeFacts, writeJson, writeLine } from '../output.ts'
import { listenForStop } from '../signals.ts'

export interface ForgetOptions {
  href?: string
  contact?: string
  json?: true
}

/** More than any URL or contact is long. */
const inputCharsMax = 4_096

async function read(given: string): Promise<string> {
  if (given !== '-') return given
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    if (text.length > inputCharsMax) break
  }
  return text
}

async function readErasure({ href, contact }: ForgetOptions): Promise<Erasure> {
  if ((href === undefined) === (contact === undefined)) {
    throw usageError('`leads forget` takes either --href or --contact.', 'Run `leadpush leads forget --help`.')
  }
  if (href !== undefined) {
    const { hrefSchema } = await import('../../leads/lead.ts')
    // no href has blanks around it
    const parsed = hrefSchema.safeParse((await read(href)).trim())
    if (parsed.success) return { href: parsed.data }
    throw usageError(`--href: ${parsed.error.issues[0]?.message}`, 'Give it as the listing has it.')
  }
  const { parseContact } = await import('../../leads/contacts.ts')
  const parsed = parseContact(await read(contact ?? ''))
  if (parsed !== undefined) return { contact: parsed }
  throw usageError('--contact: must be one e-mail address, or one phone number of 7 to 15 digits')
}

export async function forget(log: Log, options: ForgetOptions): Promise<ExitCode> {
  const { processSource, readSettings } = await import('../../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'databaseAwayMs', 'logFormat'], processSource())
  const erasure = await readErasure(options)
  return await withDatabase(settings, waiting(log), (opened) => forgetAndTell(log, opened, erasure, options))
}

async function forgetAndTell(
  log: Log,
  opened: OpenDatabase,
  erasure: Erasure,
  { json }: ForgetOptions,
): Promise<ExitCode> {
  const { formatAwayMax } = await import('../../db/away.ts')
  const { forgetListings } = await import('../../upkeep/forget/forget.ts')
  const { default: ora } = isLively() && log.format === 'pretty' ? await import('ora') : { default: undefined }
  const spinner = ora?.({ stream: process.stderr, discardStdin: false })
  const told = new Set<ForgetPhase>()
  const stop = listenForStop((signal) => log.info(`${signal}: what was erased stays erased.`))
  try {
    const forgotten = await forgetListings(opened, erasure, {
      stop: stop.signal,
      onPhase(phase) {
        if (spinner) spinner.start(texts[phase])
        else if (phase.startsWith('waiting') && !told.has(phase)) log.info(`${texts[phase]}.`)
        told.add(phase)
      },
      onAway: () => log.warn(`The database is away: waiting for it, for ${formatAwayMax()} at most.`),
    })
    spinner?.stop()
    const { sent, ...counts } = forgotten
    if (json) await writeJson({ type: 'forget', ...counts, sent: sent.count, sentComplete: sent.complete })
    else await tell(forgotten)
    return stop.exitCode ?? (forgotten.versions > 0 && forgotten.underWay === 0 ? 0 : 1)
  } catch (error) {
    if (!stop.signal.aborted) throw error
    log.info('It was stopped in the middle: run the command again to erase what is left. Imports refuse it already.')
    return stop.exitCode ?? 1
  } finally {
    spinner?.stop()
    stop.dispose()
  }
}

const texts: Record<ForgetPhase, string> = {
  'waiting for an import': 'An import is merging: waiting for it',
  looking: 'Looking through all that is kept of listings',
  erasing: 'Erasing',
  'waiting for attempts': 'Requests with it are under way in other processes: waiting for them',
  'clearing up': 'Clearing up',
}

async function tell({
  newlyRefused,
  listings,
  versions,
  triggers,
  ended,
  anew,
  underWay,
  sent,
}: Forgotten): Promise<void> {
  const refused = newlyRefused ? 'from now on, in every import' : 'as it was before'
  if (versions === 0) {
    await writeLine('Nothing was found.')
    return await writeFacts([['refused', refused]])
  }
  const facts: [string, string][] = [
    ['erased', `${plural(listings, 'listing')}, with all that was kept of them (${plural(versions, 'version')})`],
    ['refused', refused],
  ]
  if (triggers > 0) facts.push(['triggers', `${plural(triggers, 'trigger')} due for a hook ended`])
  if (ended > 0)
    facts.push([
      'ended',
      `${plural(ended, 'delivery')}: \`leadpush push --failed\` makes them anew without it (with --unknown: also where the first attempt may have arrived)`,
    ])
  if (anew > 0)
    facts.push(['anew', `${plural(anew, 'delivery')}, of which nothing had gone out yet, made anew without it`])
  const least = sent.complete ? '' : 'at least '
  facts.push([
    'sent',
    `${least}${plural(sent.count, 'delivery')} had gone out with it; what a receiver has, only the receiver can erase`,
  ])
  await writeFacts(facts)
  if (underWay > 0) await writeLine(`${plural(underWay, 'request')} with it may still be under way in other processes.`)
}
