/** What somebody should look at, and what to do: the lines of `status --check`, of `validate`, and at the top of a report. */
import { formatCount, plural, span } from '../../base/amounts.ts'
import { leftDays, monitoredRunDays, withoutLeadShare } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { describeRefusal } from '../../push/hold.ts'
import { type ConcernSettings, type Concerns, findConcerns } from './concerns.ts'
import { type Held, type Status, tellHeld } from './status.ts'

export interface Alarm {
  /** Completes the sentence `Somebody should look at …`. */
  about: string
  /** What is wrong: a sentence without its full stop. */
  what: string
  /** What clears the alarm: a sentence that begins in lower case. */
  toDo: string
}

const have = (value: number) => (value === 1 ? 'has' : 'have')
const aDay = leftDays === 1 ? 'a day' : `${leftDays} days`

/** So many sources are named in an alarm. */
const sourcesTold = 5
const minuteOf = (at: Date) => `${at.toISOString().slice(0, 16)}Z`

function* listDeliveries(status: Status): Generator<Alarm> {
  const { stuck, failedWithoutLater, unknownWithoutLater, period, refused } = status
  if (stuck > 0) {
    const deliveries = plural(stuck, 'delivery')
    yield {
      about: `${deliveries} that no process is working on`,
      what: `${deliveries} ${stuck === 1 ? 'waits' : 'wait'} for an attempt, and no process is working on ${stuck === 1 ? 'it' : 'them'}`,
      toDo: refused ? 'mend what the receiver refuses; the next push goes on.' : 'run `leadpush push --resume`.',
    }
  }
  if (failedWithoutLater + unknownWithoutLater === 0) return
  const ends = [
    [failedWithoutLater, 'failed', 'that failed'] as const,
    [unknownWithoutLater, 'may not have arrived', 'that may not have arrived'] as const,
  ].filter(([users]) => users > 0)
  const texts = ends.map(([users, , how]) => `${plural(users, 'user')} ${have(users)} a delivery of ${period} ${how}`)
  const again = unknownWithoutLater > 0 ? '--failed --unknown' : '--failed'
  yield {
    about: `deliveries that ${ends.map(([, end]) => end).join(' or ')}`,
    what: `${texts.join(', ')}, and no later one was delivered`,
    toDo: `mend the cause, then run \`leadpush push ${again}\`.`,
  }
}

function* listReceiver({ refused }: Status): Generator<Alarm> {
  if (refused === undefined) return
  const { status, since } = refused
  yield {
    about: `a receiver that answers HTTP ${status} to everybody`,
    what: `Pushes have been held since ${minuteOf(since)}, as ${describeRefusal(status)}`,
    toDo: 'mend that, then run `leadpush push --all`: it begins with one attempt, at most one an hour, and goes on if the answer differs. With `--accept` it goes on at once.',
  }
} // biome-ignore format: long sentences

function* listLost({ lost }: Status): Generator<Alarm> {
  if (lost === undefined) return
  yield {
    about: 'a database that lost records of a push',
    what: `On ${minuteOf(lost.since)} the database lost what it had confirmed to a push, and no push of all users has finished since`,
    toDo: 'run `leadpush push --resume`; imports, erasures and pushes for single users of the minutes before may have to be repeated.',
  }
}

function mendHeld(held: Held): string {
  if (held.by === 'answers') return 'check that LEADPUSH_RECEIVER_URL leads to the receiver,'
  if (held.by === 'zone') return 'give the machines one LEADPUSH_TIME_ZONE'
  const query = held.by === 'users' ? ', or the query that takes too long,' : ''
  return `ask \`leadpush preview\` why, mend what was imported${query}`
}

function* listUsers({ period, held, subscribed }: Status, { left, without, weekly }: Concerns): Generator<Alarm> {
  const serve = held && held.by !== 'answers' ? '`leadpush push --all --accept`' : '`leadpush push --all`'
  if (held) {
    yield {
      about: held.by === 'answers' ? 'a receiver that may take no delivery' : 'what the guard holds back',
      what: tellHeld(held, ` in ${period}`),
      toDo: `${mendHeld(held)} and run \`leadpush push --all\`, or send it all the same with \`leadpush push --all --accept\`.`,
    }
  }
  if (left > 0) {
    const users = plural(left, 'user')
    yield {
      about: `${users} whom a push did not reach`,
      what: `${users} whom a push did not reach ${have(left)} been owed a delivery for more than ${aDay}`,
      toDo: `see in \`leadpush status\` how the last runs ended, then run ${serve}.`,
    }
  }
  if (without.users > 0) {
    const users = plural(without.users, 'user')
    yield {
      about: `${users} without a delivery in two weeks`,
      what: `${users} who ${without.users === 1 ? 'was' : 'were'} due in ${without.period} got no delivery in it, and ${have(without.users)} none in ${period} yet`,
      toDo: `run ${serve}.`,
    }
  }
  if (subscribed > 0 && !weekly.lately) {
    yield {
      about: 'a weekly push that did not run',
      what: weekly.ever
        ? `No whole \`push --all\` finished in the last ${monitoredRunDays} days`
        : 'No whole `push --all` has finished yet',
      toDo: `run ${serve}, and let cron do so once a week.`,
    }
  }
}

function* listListings({ withoutLeads, feed, lateSources }: Concerns): Generator<Alarm> {
  const { users, without, isPart } = withoutLeads
  if (users > 0 && without >= users * withoutLeadShare) {
    const share = isPart
      ? `About ${Math.round((100 * without) / users)} % of the subscribed users`
      : `${formatCount(without)} of ${plural(users, 'subscribed user')} with queries`
    yield {
      about: 'users for whom there is no lead',
      what: `${share} ${isPart || without !== 1 ? 'have' : 'has'} no lead to send`,
      toDo: 'bring current listings in with `leadpush leads import FILE`; `leadpush preview` shows who would get none.',
    }
  }
  if (feed) {
    yield {
      about: 'listings that are no longer imported',
      what: `No import of listings has finished since ${minuteOf(feed.lastAt)} (LEADPUSH_FEED_MAX_AGE is ${span(feed.maxAgeMs / 1_000)})`,
      toDo: 'find out why the feed stopped, then run `leadpush leads import FILE`.',
    }
  }
  if (lateSources) {
    const { sources, maxAgeMs } = lateSources
    const told = sources.slice(0, sourcesTold).map(({ source, lastAt }) => `${source} since ${minuteOf(lastAt)}`)
    const more = sources.length > told.length ? `, and ${formatCount(sources.length - told.length)} more` : ''
    const [first] = sources
    yield {
      about: `${plural(sources.length, 'source')} of listings that ${sources.length === 1 ? 'is' : 'are'} no longer imported`,
      what: `No import of ${sources.length === 1 ? 'this source' : 'these sources'} has finished: ${told.join(', ')}${more} (LEADPUSH_FEED_MAX_AGE is ${span(maxAgeMs / 1_000)})`,
      toDo: `find out why, then run \`leadpush leads import FILE --source ${first?.source}\`; the alarm also ends when none of its listings is left.`,
    }
  }
}

function* listHooks({ hooks }: Concerns): Generator<Alarm> {
  const { abandoned, dropped, waiting, failing } = hooks
  const revoke = ({ integrationId }: { integrationId: number | null }) =>
    `\`leadpush integrations revoke ${integrationId}\``
  if (waiting.count > 0) {
    yield {
      about: 'triggers that nobody sends',
      what: `Triggers for ${plural(waiting.count, 'hook')} have been due for more than ${aDay}, and no \`trigger\` has run`,
      toDo: 'run `leadpush trigger`, and let cron do so every few minutes.',
    }
  }
  if (failing.count > 0) {
    yield {
      about: `${plural(failing.count, 'hook')} that fail${failing.count === 1 ? 's' : ''}`,
      what: `${plural(failing.count, 'hook')} ${have(failing.count)} failed for more than ${aDay}${failing.off === 0 ? '' : `, ${formatCount(failing.off)} of them ${failing.off === 1 ? 'is' : 'are'} switched off`}`,
      toDo: `see in \`leadpush status\` why, mend it and run \`leadpush trigger --again\`, or end a connection that is over with ${revoke(failing)}.`,
    }
  }
  if (abandoned.count > 0) {
    yield {
      about: 'triggers that were given up',
      what: `Triggers for ${plural(abandoned.count, 'hook')} were given up in the last day`,
      toDo: `see in \`leadpush status\` why, mend it and run \`leadpush trigger --again\`, or end a connection that is over with ${revoke(abandoned)}; ${aDay} after the last of them this ends.`,
    }
  }
  if (dropped.count > 0) {
    yield {
      about: 'triggers that were dropped',
      what: `New listings for ${plural(dropped.count, 'hook')} were dropped in the last day, beyond the newest of a run`,
      toDo: `send them with \`leadpush trigger --again\`; import less at a time, each time with \`leadpush leads import FILE --trigger\`, or end a connection that is over with ${revoke(dropped)}; ${aDay} after the last of them this ends.`,
    }
  }
}

/** All alarms of a state; an empty list means that all is well. */
export const listAlarms = (status: Status, concerns: Concerns): Alarm[] => [
  ...listReceiver(status),
  ...listLost(status),
  ...listDeliveries(status),
  ...listUsers(status, concerns),
  ...listListings(concerns),
  ...listHooks(concerns),
]

/** Reads what monitors check besides `status`, and returns the alarms of both. */
export async function findAlarms(db: Database, status: Status, settings: ConcernSettings): Promise<Alarm[]> {
  return listAlarms(status, await findConcerns(db, status, settings))
}

/** The alarm as one line. */
export const sentenceOf = ({ what, toDo }: Alarm): string => `${what}: ${toDo}`
