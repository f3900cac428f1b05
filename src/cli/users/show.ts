/** Shows one user with everything except the receiver key: `users show`, and `status --user`. */

import { formatStatus, plural, timeFormat } from '../../base/amounts.ts'
import { findUserFacts, type UserFacts } from '../../inspect/user/find-user-facts.ts'
import { toDeliveryLine } from '../../push/reporter.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { writeDeliveries } from '../status/trouble-view.ts'

/** A user may have 1,000 queries. */
const queriesShown = 50

export async function show(
  { io, open }: AtDatabase<'timeZone' | 'maxLeadAgeMs' | 'guard' | 'keepAnswers'>,
  email: string,
): Promise<ExitCode> {
  return await open(async ({ db }, settings) => {
    const facts = await findUserFacts(db, email, settings)
    await io.out.result(toLine(facts), () => writeUser(io, facts, timeFormat(settings.timeZone)))
    return 0
  })
}

function toLine({ deliveries, ...facts }: UserFacts): object {
  const shown = deliveries.map(({ attemptLog: _, createdAt, recipe: __, ...delivery }) => ({
    ...toDeliveryLine(delivery, delivery),
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
  await io.out.title('Last deliveries')
  if (deliveries.length === 0) await io.out.line('No delivery yet.')
  else await writeDeliveries(io, deliveries, time)
  if (facts.moreDeliveries) await io.out.line(`… \`leadpush deliveries list --user ${email}\` shows all`)
  await io.out.title(plural(queries.length, 'query'))
  for (const { type, value, radius } of queries.slice(0, queriesShown))
    await io.out.line(`  ${type} ${JSON.stringify(value)}${radius > 0 ? `, ${radius} mi` : ''}`)
  await io.out.more(queries.length - queriesShown, undefined, '; `users show --json` lists all')
  await io.out.title(plural(integrations.length, 'integration'))
  for (const { id, createdAt, hooks } of integrations) {
    await io.out.line(`  ${id}, made ${time(createdAt)}, ${plural(hooks.length, 'hook')}`)
    for (const { url, lastStatus, lastAt } of hooks) {
      const last = lastAt === null ? 'no trigger yet' : `${time(lastAt)} ${formatStatus(lastStatus)}`
      await io.out.line(`    ${url}  ${last}`)
    }
  }
}
