/** The findings on the period, the listings and the hooks, with which `status` and a report begin. */
import { formatCount, plural, span } from '../../base/amounts.ts'
import { leftDays, monitoredRunDays, withoutLeadShare } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { describeRefusal } from '../../push/hold.ts'
import type { Finding } from '../finding.ts'
import { adviseOn, type Code, type Step, tellSteps } from './advise-on.ts'
import { type ConcernSettings, type Concerns, findConcerns } from './concerns.ts'
import { type Status, tellHeld, troublesIn } from './status.ts'

/** Those that advice about deliveries answers, and others. */
export type AlarmCode = Code | 'no-leads' | 'feed' | 'sources' | 'waiting' | 'failing' | 'abandoned' | 'dropped'

interface Told extends Omit<Required<Finding>, 'level' | 'path'> {
  code: AlarmCode
}

const have = (value: number) => (value === 1 ? 'has' : 'have')
const aDay = leftDays === 1 ? 'a day' : `${leftDays} days`

/** The most sources that a finding names. */
const sourcesTold = 5
const minuteOf = (at: Date) => `${at.toISOString().slice(0, 16)}Z`

function* lookAtReceiver({ refused, down }: Status, steps: readonly Step[]): Generator<Told> {
  if (down) {
    yield {
      code: 'down',
      where: 'receiver',
      what: down.asks
        ? `The receiver has taken nothing and asked for less since ${minuteOf(down.since)}, as far as the last push found`
        : `The receiver has been down since ${minuteOf(down.since)}, as far as the last push found`,
      toDo: tellSteps(steps, 'down'),
    }
  }
  if (refused === undefined) return
  const { status, since } = refused
  yield {
    code: 'refused',
    where: 'receiver',
    what: `Pushes have been held since ${minuteOf(since)}, as ${describeRefusal(status)}`,
    toDo: tellSteps(steps, 'refused'),
  }
}

function* lookAtDatabase({ lost }: Status, steps: readonly Step[]): Generator<Told> {
  if (lost === undefined) return
  yield {
    code: 'lost',
    where: 'database',
    what: `On ${minuteOf(lost.since)} the database lost confirmed records of a push, and no push of all users has finished since`,
    toDo: `${tellSteps(steps, 'lost')} Imports, erasures and pushes for single users of the minutes before may have to be repeated.`,
  }
}

function* lookAtDeliveries(status: Status, steps: readonly Step[]): Generator<Told> {
  const { stuck, failedWithoutLater, unknownWithoutLater, doubtfulWithoutLater, period } = status
  if (stuck > 0) {
    const deliveries = plural(stuck, 'delivery')
    yield {
      code: 'stuck',
      where: 'deliveries',
      what: `${deliveries} ${stuck === 1 ? 'waits' : 'wait'} for an attempt, and no process is working on ${stuck === 1 ? 'it' : 'them'}`,
      toDo: tellSteps(steps, 'stuck'),
    }
  }
  if (doubtfulWithoutLater > 0) {
    yield {
      code: 'doubtful',
      where: 'deliveries',
      what: `${plural(doubtfulWithoutLater, 'user')} ${have(doubtfulWithoutLater)} a doubtful delivery of ${period}: its answer, like all around it, did not show that the receiver took it`,
      toDo: tellSteps(steps, 'doubtful'),
    }
  }
  if (failedWithoutLater + unknownWithoutLater === 0) return
  const ends = [[failedWithoutLater, 'failed'] as const, [unknownWithoutLater, 'may not have arrived'] as const]
  const texts = ends
    .filter(([users]) => users > 0)
    .map(([users, how]) => `${plural(users, 'user')} ${have(users)} a delivery of ${period} that ${how}`)
  yield {
    code: 'not-delivered',
    where: 'deliveries',
    what: `${texts.join(', ')}, and no later one was delivered`,
    toDo: tellSteps(steps, 'not-delivered'),
  }
}

function* lookAtUsers(
  { period, held, subscribed }: Status,
  { left, without, weekly }: Concerns,
  steps: readonly Step[],
): Generator<Told> {
  if (held) {
    yield {
      code: 'held',
      where: 'users',
      what: tellHeld(held, ` in ${period}`),
      toDo: tellSteps(steps, 'held'),
    }
  }
  if (left > 0) {
    const users = plural(left, 'user')
    yield {
      code: 'left',
      where: 'users',
      what: `${users} whom a push did not reach ${have(left)} been owed a delivery for more than ${aDay}`,
      toDo: `See in \`leadpush status\` how the last runs ended. ${tellSteps(steps, 'left')}`,
    }
  }
  if (without.users > 0) {
    const users = plural(without.users, 'user')
    yield {
      code: 'two-weeks',
      where: 'users',
      what: `${users} who ${without.users === 1 ? 'was' : 'were'} due in ${without.period} got no delivery in it, and ${have(without.users)} none in ${period} yet`,
      toDo: tellSteps(steps, 'two-weeks'),
    }
  }
  if (subscribed > 0 && !weekly.lately) {
    yield {
      code: 'no-push',
      where: 'users',
      what: weekly.ever
        ? `No whole \`push --all\` finished in the last ${monitoredRunDays} days`
        : 'No whole `push --all` has finished yet',
      toDo: `${tellSteps(steps, 'no-push')} Let cron run \`leadpush push --all\` once a week.`,
    }
  }
}

function* lookAtListings({ withoutLeads, feed, lateSources }: Concerns): Generator<Told> {
  const { users, without, isPart } = withoutLeads
  if (users > 0 && without >= users * withoutLeadShare) {
    const share = isPart
      ? `About ${Math.round((100 * without) / users)} % of the subscribed users`
      : `${formatCount(without)} of ${plural(users, 'subscribed user')} with queries`
    yield {
      code: 'no-leads',
      where: 'listings',
      what: `${share} ${isPart || without !== 1 ? 'have' : 'has'} no lead to send`,
      toDo: 'Bring current listings in with `leadpush leads import FILE`; `leadpush preview` shows who would get none.',
    }
  }
  if (feed) {
    yield {
      code: 'feed',
      where: 'listings',
      what: `No import of listings has finished since ${minuteOf(feed.lastAt)} (LEADPUSH_FEED_MAX_AGE is ${span(feed.maxAgeMs / 1_000)})`,
      toDo: 'Find out why the feed stopped, then run `leadpush leads import FILE`.',
    }
  }
  if (lateSources) {
    const { sources, maxAgeMs } = lateSources
    const told = sources
      .slice(0, sourcesTold)
      .map(({ source, importedAt }) => `${source} since ${minuteOf(importedAt)}`)
    const more = sources.length > told.length ? `, and ${formatCount(sources.length - told.length)} more` : ''
    yield {
      code: 'sources',
      where: 'listings',
      what: `No import of ${sources.length === 1 ? 'this source' : 'these sources'} has finished: ${told.join(', ')}${more} (LEADPUSH_FEED_MAX_AGE is ${span(maxAgeMs / 1_000)})`,
      toDo: `Find out why, then run \`leadpush leads import FILE --source ${sources[0]?.source}\`; this also ends when none of its listings is left.`,
    }
  }
}

function* lookAtHooks({ hooks }: Concerns): Generator<Told> {
  const { abandoned, dropped, waiting, failing } = hooks
  const orRevoke = ({ integrationId }: { integrationId: number | null }) =>
    `or end a connection that is over with \`leadpush integrations revoke ${integrationId}\``
  const ends = `${aDay} after the last of them this ends`
  if (waiting.count > 0) {
    yield {
      code: 'waiting',
      where: 'hooks',
      what: `Triggers for ${plural(waiting.count, 'hook')} have been due for more than ${aDay}, and no \`trigger\` has run`,
      toDo: 'Run `leadpush trigger`, and let cron do so every few minutes.',
    }
  }
  if (failing.count > 0) {
    const off =
      failing.off === 0 ? '' : `, ${formatCount(failing.off)} of them ${failing.off === 1 ? 'is' : 'are'} switched off`
    yield {
      code: 'failing',
      where: 'hooks',
      what: `${plural(failing.count, 'hook')} ${have(failing.count)} failed for more than ${aDay}${off}`,
      toDo: `See in \`leadpush status\` why, mend it and run \`leadpush trigger --again\`, ${orRevoke(failing)}.`,
    }
  }
  if (abandoned.count > 0) {
    yield {
      code: 'abandoned',
      where: 'hooks',
      what: `Triggers for ${plural(abandoned.count, 'hook')} were given up in the last day`,
      toDo: `See in \`leadpush status\` why, mend it and run \`leadpush trigger --again\`, ${orRevoke(abandoned)}; ${ends}.`,
    }
  }
  if (dropped.count > 0) {
    yield {
      code: 'dropped',
      where: 'hooks',
      what: `New listings for ${plural(dropped.count, 'hook')} were dropped in the last day, beyond the newest of a run`,
      toDo: `Send them with \`leadpush trigger --again\`; import less at a time, each time with \`leadpush leads import FILE --trigger\`, ${orRevoke(dropped)}; ${ends}.`,
    }
  }
}

/** Reads the figures that monitors check besides `status`, and returns the findings; an empty list means that all is well. */
export async function findAlarms(db: Database, status: Status, settings: ConcernSettings): Promise<Finding[]> {
  const concerns = await findConcerns(db, status, settings)
  const { left, without, weekly } = concerns
  const steps = adviseOn(troublesIn(status, left + without.users > 0 || (status.subscribed > 0 && !weekly.lately)))
  const told = [
    ...lookAtReceiver(status, steps),
    ...lookAtDatabase(status, steps),
    ...lookAtDeliveries(status, steps),
    ...lookAtUsers(status, concerns, steps),
    ...lookAtListings(concerns),
    ...lookAtHooks(concerns),
  ]
  return told.map((each) => ({ level: 'problem', path: '', ...each }))
}

/** All steps that `status` and its findings name. */
export const stepsIn = (status: Status, findings: readonly Finding[]): Step[] =>
  adviseOn(
    troublesIn(
      status,
      findings.some(({ code }) => ['left', 'two-weeks', 'no-push'].includes(code)),
    ),
  )
