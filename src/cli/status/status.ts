/** How the period and the last runs went, one user's deliveries, and a check for a monitor. */
import { formatCount, plural, timeFormat } from '../../base/amounts.ts'
import type { Database } from '../../db/open.ts'
import { type Finding, toFindingLine } from '../../inspect/finding.ts'
import { type Code, tellSteps, toAdvice } from '../../inspect/status/advise-on.ts'
import { findAlarms, stepsIn } from '../../inspect/status/alarms.ts'
import { findLastRuns, findStatus, findTroubledHooks, type Status } from '../../inspect/status/status.ts'
import { runsTable, sourcesTable } from '../../inspect/status/tables.ts'
import { findUserDeliveries } from '../../inspect/status/user-deliveries.ts'
import { findUserFacts } from '../../inspect/user/find-user-facts.ts'
import { toDeliveryLine } from '../../push/reporter.ts'
import { findUser } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode, ReadSettings } from '../describe.ts'
import { writeFinding } from '../findings-view.ts'
import type { Fact } from '../output.ts'
import { paint } from '../painted.ts'
import { writeUser } from '../users/show.ts'
import { writeEnded, writeHooks, writeStuck } from './trouble-view.ts'

interface StatusOptions {
  user?: string
  check?: true
  quiet?: true
}

type Setting = 'timeZone' | 'maxLeadAgeMs' | 'feedMaxAgeMs' | 'keepAnswers' | 'guard'
type StatusSettings = ReadSettings<Setting>

/** At most so many sources are printed without --json. */
const sourcesShown = 20

export async function status({ io, open }: AtDatabase<Setting>, options: StatusOptions): Promise<ExitCode> {
  const { user } = options
  return await open(({ db }, settings) =>
    user === undefined ? showStatus(io, db, settings, options) : showUser(io, db, user, settings),
  )
}

async function showStatus(
  io: CommandIo,
  db: Database,
  settings: StatusSettings,
  { check, quiet }: StatusOptions,
): Promise<ExitCode> {
  const found = await findStatus(db, settings)
  const findings = await findAlarms(db, found, settings)
  await io.out.result(toStatusLine(found, findings), async () => {
    for (const finding of findings) await writeFinding(io, finding)
    if (findings.length === 0 && !quiet) await io.out.line(paint('green', 'All is well.'))
    if (!quiet) await writeStatus(io, db, found, findings, settings)
  })
  return check && findings.length > 0 ? 1 : 0
}

/** contract 3. */
function toStatusLine(found: Status, findings: readonly Finding[]): object {
  const { period, subscribed, delivered, failed, unknown, owed, hooksInTrouble, lastRun = null } = found
  const { pending, stuck, doubtfulWithoutLater: doubtful, held, refused, down, lost, sources } = found
  return {
    ...{ type: 'status', period, subscribed, delivered, failed, unknown, owed, lastRun, hooksInTrouble },
    ...{ pending, stuck, doubtful, refused, down, lost },
    held: held && { reason: held.reason, users: held.users },
    ...(sources.length > 0 && { sources }),
    findings: findings.map(toFindingLine),
    advice: toAdvice(stepsIn(found, findings)),
  }
}

async function writeStatus(
  io: CommandIo,
  db: Database,
  found: Status,
  findings: readonly Finding[],
  { timeZone, keepAnswers }: Pick<StatusSettings, 'timeZone' | 'keepAnswers'>,
): Promise<void> {
  const time = timeFormat(timeZone)
  await io.out.line('')
  await io.out.facts(describeStatus(found, timeZone))
  const runs = await findLastRuns(db)
  if (runs.length > 0) {
    await io.out.title('Last runs')
    await io.out.table(runsTable(runs, time))
  }
  if (found.sources.length > 0) {
    await io.out.title('Sources of listings')
    await io.out.table(sourcesTable(found.sources.slice(0, sourcesShown), time))
    await io.out.more(found.sources.length - sourcesShown, 'source')
  }
  if (found.stuck > 0) await writeStuck(io, db, time, keepAnswers)
  if (found.failed + found.unknown > 0) await writeEnded(io, db, found, keepAnswers)
  if (found.hooksInTrouble > 0)
    await writeHooks(io, await findTroubledHooks(db, keepAnswers), found.hooksInTrouble, time)
  const steps = stepsIn(found, findings)
  if (found.subscribed === 0) await io.out.line('', 'Nobody is subscribed yet: leadpush users import FILE')
  // otherwise the findings have said what to do
  else if (steps.length > 0 && !steps.some(({ of }) => findings.some(({ code }) => of.includes(code as Code))))
    await io.out.paragraph('', tellSteps(steps))
}

function describeStatus(found: Status, timeZone: string): (Fact | false)[] {
  const { failed, unknown, doubtfulWithoutLater, pending, owed } = found
  const stuck = found.stuck > 0 ? `, ${paint('red', `${formatCount(found.stuck)} stuck`)}` : ''
  return [
    ['period', `${found.period} (${timeZone})`],
    ['subscribed', plural(found.subscribed, 'user')],
    ['delivered', paint('green', plural(found.delivered, 'delivery'))],
    ['failed', failed > 0 ? paint('red', plural(failed, 'delivery')) : '0'],
    ['unknown', unknown > 0 ? paint('yellow', plural(unknown, 'delivery')) : '0'],
    doubtfulWithoutLater > 0 && ['doubtful', paint('yellow', plural(doubtfulWithoutLater, 'user'))],
    pending > 0 && ['pending', `${plural(pending, 'delivery')}${stuck}`],
    ['owed', owed > 0 ? paint('yellow', plural(owed, 'user')) : '0 users'],
  ]
}

async function showUser(io: CommandIo, db: Database, email: string, settings: StatusSettings): Promise<ExitCode> {
  if (!io.out.isJson) {
    await writeUser(io, await findUserFacts(db, email, settings), timeFormat(settings.timeZone))
    return 0
  }
  const { user } = await findUser(db, email)
  for await (const delivery of findUserDeliveries(db, user.id, settings.keepAnswers)) {
    const { attemptLog, createdAt } = delivery
    await io.out.json({ ...toDeliveryLine(delivery, delivery), createdAt, attemptLog })
  }
  return 0
}
