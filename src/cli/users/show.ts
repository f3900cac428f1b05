/** One user with everything but the receiver key: `users show`, and `status --user`. */

import { plural, timeFormat } from '../../base/amounts.ts'
import type { UserFacts } from '../../inspect/user/find-user-facts.ts'
import { type ExitCode, inShort, settingsSource, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { paint } from '../painted.ts'

/** A user may have 1,000 queries. */
const queriesShown = 50

export async function show(io: CommandIo, email: string, { json }: { json?: true }): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'timeZone', 'maxLeadAgeMs', 'guard', 'keepAnswers', 'logFormat'],
    settingsSource(io),
  )
  return await withDatabase(io, settings, inShort, async ({ db }) => {
    const { findUserFacts } = await import('../../inspect/user/find-user-facts.ts')
    const facts = await findUserFacts(db, email, settings)
    if (json) await io.out.json(await toLine(facts))
    else await writeUser(io, facts, timeFormat(settings.timeZone))
    return 0
  })
}

async function toLine({ deliveries, ...facts }: UserFacts): Promise<object> {
  const { toDeliveryLine } = await import('../../push/reporter.ts')
  const shown = deliveries.map(({ attemptLog: _, createdAt, recipe: __, ...delivery }) => ({
    ...toDeliveryLine(delivery),
    createdAt,
  }))
  return { type: 'user', ...facts, deliveries: shown }
}

export async function writeUser(io: CommandIo, facts: UserFacts, time: (at: Date | null) => string): Promise<void> {
  const { email, subscribed, createdAt, queries, period, servedAt, owed, held, deliveries, integrations } = facts
  const owes =
    owed === null ? 'nothing' : `the ${owed === 'weekly' ? `weekly delivery of ${period}` : 'subscription push'}`
  await io.out.facts([
    ['user', email],
    ['subscribed', subscribed ? 'yes' : 'no'],
    ['since', time(createdAt)],
    ['owed', `${owes}${held === null ? '' : `, held: ${held}`}`],
    ['this week', servedAt === null ? `nothing yet in ${period}` : `served ${time(servedAt)}`],
  ])
  await writeTitle(io, 'Last deliveries')
  if (deliveries.length === 0) await io.out.line('No delivery yet.')
  else await (await import('../status/trouble-view.ts')).writeDeliveries(io, deliveries, time)
  if (facts.moreDeliveries) await io.out.line(`… \`leadpush deliveries list --user ${email}\` shows all`)
  await writeTitle(io, plural(queries.length, 'query'))
  for (const { type, value, radius } of queries.slice(0, queriesShown))
    await io.out.line(`  ${type} ${JSON.stringify(value)}${radius > 0 ? `, ${radius} mi` : ''}`)
  if (queries.length > queriesShown)
    await io.out.line(`  … and ${queries.length - queriesShown} more; \`users show --json\` shows all`)
  await writeTitle(io, plural(integrations.length, 'integration'))
  for (const { id, createdAt, hooks } of integrations) {
    await io.out.line(`  ${id}, made ${time(createdAt)}, ${plural(hooks.length, 'hook')}`)
    for (const { url, lastStatus, lastAt } of hooks) {
      const last =
        lastAt === null
          ? 'no trigger yet'
          : `${time(lastAt)} ${lastStatus === null ? 'no answer' : `HTTP ${lastStatus}`}`
      await io.out.line(`    ${url}  ${last}`)
    }
  }
}

const writeTitle = (io: CommandIo, title: string) => io.out.line('', paint('bold', title))
