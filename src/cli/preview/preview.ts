/** Shows what a push would send; sends and writes nothing. */

import { bytes, formatCount, plural, secondsSince } from '../../base/amounts.ts'
import { numberColumns } from '../../base/table.ts'
import type { Database } from '../../db/open.ts'
import type { DeliveryLine, SummaryLine } from '../../index.ts'
import { adviseOn, tellSteps } from '../../inspect/status/advise-on.ts'
import { Preview, type PreviewSettings } from '../../push/preview/preview.ts'
import { badEnds } from '../../push/whom/pass.ts'
import { findUser } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { paint } from '../painted.ts'
import { describeLine } from '../push/view.ts'
import { writeDiff } from './diff.ts'

interface PreviewOptions {
  user?: string
  force?: true
  failed?: true
  unknown?: true
  doubtful?: true
  limit?: number
  body?: true
  diff?: true
}

type Settings = 'timeZone' | 'maxLeadAgeMs' | 'sameHouse' | 'guard'

export async function preview({ io, open }: AtDatabase<Settings>, options: PreviewOptions): Promise<ExitCode> {
  return await open(({ db }, settings) => show(io, db, options, settings))
}

async function show(
  io: CommandIo,
  db: Database,
  options: PreviewOptions,
  settings: PreviewSettings,
): Promise<ExitCode> {
  const startedAt = performance.now()
  const { user: email } = options
  const user = email === undefined ? undefined : await findUser(db, email)
  const planned = await Preview.create(
    db,
    user
      ? { what: 'user', ...user }
      : options.failed
        ? { what: 'failed', ends: badEnds(options) }
        : { what: 'all', force: options.force ?? false },
    settings,
  )
  if (options.diff && user) {
    for await (const _ of planned.lines());
    await writeDiff(io, db, user, planned.versionIds, planned.period)
    return 0
  }
  const print = options.body ? showBodies : showAll
  await print(io, planned, options.limit)
  const seconds = secondsSince(startedAt)
  const leadsPerUser = planned.spread.get()
  const summary = { ...planned.summary(seconds), ...(leadsPerUser && { leadsPerUser }) }
  if (!options.body) await io.out.result(summary, () => writeSummary(io, summary))
  return 0
}

type Found = Preview extends { lines(): AsyncGenerator<infer F> } ? F : never

/** The lines of the first `limit` users; the others are read for the summary alone. */
async function* firstOf(planned: Preview, limit = Number.POSITIVE_INFINITY): AsyncGenerator<Found> {
  let last: string | null | undefined
  let users = 0
  for await (const found of planned.lines()) {
    const { user } = 'line' in found ? found.line : (found as { user?: string })
    if (user !== last) users++
    last = user
    if (users <= limit) yield found
  }
}

async function showBodies(io: CommandIo, planned: Preview, limit?: number): Promise<void> {
  for await (const found of firstOf(planned, limit)) {
    if (!('line' in found)) continue
    await io.out.write(await found.readBody())
    await io.out.write('\n')
  }
}

/** The most skipped users and left-out listings that are printed without --json; the rest are counted. */
const notesShown = 20

const columns = [{ head: 'kind' }, ...numberColumns('queries', 'matches', 'leads', 'bytes', 'parts'), { head: 'user' }]

async function showAll(io: CommandIo, planned: Preview, limit?: number): Promise<void> {
  const notes: string[] = []
  let unshown = 0
  let tabled = 0
  await io.out.list(firstOf(planned, limit), {
    columns,
    toRows(found) {
      if ('line' in found) {
        tabled++
        return [toRow(found.line, found.matches)]
      }
      if (notes.length >= notesShown) unshown++
      else if (found.type !== 'summary') notes.push(describeLine(found))
      return []
    },
    toLine: (found) => ('line' in found ? found.line : found),
  })
  if (io.out.isJson) return
  if (notes.length > 0) await io.out.line(...(tabled > 0 ? [''] : []), ...notes)
  await io.out.more(unshown)
  if (planned.heldBy) await io.out.paragraph('', tellSteps(adviseOn({ held: planned.heldBy })))
}

function toRow(line: DeliveryLine, matches: number | null): string[] {
  const { user, kind, queries, leads, part, parts, attempts } = line
  // the e-mail comes last, where it is not cut
  return [
    `${kind}${attempts > 0 ? ', 2nd attempt' : ''}`,
    formatCount(queries),
    matches === null ? '' : formatCount(matches),
    formatCount(leads),
    bytes(line.bytes),
    parts > 1 ? `${part}/${parts}` : '1',
    user ?? '',
  ]
}

async function writeSummary(io: CommandIo, summary: SummaryLine): Promise<void> {
  const { period, users, sameHouse, leadsPerUser } = summary
  if (summary.deliveries === 0) return await io.out.line(`Nothing would be sent in ${period}.`)
  const skipped = summary.skipped > 0 ? `, ${formatCount(summary.skipped)} skipped` : ''
  const whom = `${plural(summary.deliveries, 'delivery')} to ${plural(users - summary.skipped, 'user')}`
  const what = `${plural(summary.leads, 'lead')}, ${bytes(summary.bytes)}`
  await io.out.paragraph('', `${period}: ${whom} would be sent, ${what}${skipped}.`)
  if (sameHouse)
    await io.out.paragraph(`Left out, since another listing of the house counts: ${plural(sameHouse, 'listing')}.`)
  // a single user cannot be compared with others
  if (leadsPerUser === undefined || users < 2) return
  const { withoutLeads, smallest, median, largest } = leadsPerUser
  const name = ({ user, leads }: typeof smallest) => `${formatCount(leads)} (${user})`
  await io.out.paragraph(
    `Leads a user: smallest ${name(smallest)}, median ${formatCount(median)}, largest ${name(largest)}.`,
  )
  if (withoutLeads > 0)
    await io.out.line(paint('yellow', `${plural(withoutLeads, 'user')} would get a delivery with no lead.`))
}
