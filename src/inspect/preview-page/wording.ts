/** The words of a dry run: its answer in one sentence, what it depends on, and how a query is called. */
import { bytes, formatCount, partOf, plural } from '../../base/amounts.ts'
import { leadsPerQueryMax } from '../../base/limits.ts'
import { toDoWithHeld } from '../status/causes.ts'
import type { BegunDelivery, DryRun } from './find-dry-run.ts'
import type { DryQuery } from './queries.ts'

/** Times as the settings have them: a day, and a moment. */
export interface Times {
  day(time: Date | null): string
  moment(time: Date | null): string
}

const listings = (n: number) => plural(n, 'listing')

/** Answers `what would be sent?`. */
export function buildHeadline({ user, parts, leads, bytes: size, queries }: DryRun): string {
  if (queries.length === 0) return `${user} would get nothing: there is no query.`
  const requests =
    parts.length === 1
      ? `1 request of ${bytes(size)}`
      : `${formatCount(parts.length)} requests, ${bytes(size)} together`
  if (leads === 0) return `${user} would get an empty request: no query matches a listing.`
  return `${user} would get ${listings(leads)} in ${requests}.`
}

const kinds = {
  single: 'It is a further delivery, beside the weekly one and with a key of its own: what `push --user` sends.',
  subscription: 'It is the subscription push, which is owed: what `push --user` or `push --resume` sends.',
}

/** What kind of delivery it is, and what becomes of the weekly one. */
export function describeKind(run: DryRun, { moment }: Times): string {
  const { kind, queries, period, servedAt, subscribed, held } = run
  if (queries.length === 0) return 'A user without a query is skipped. `users import` brings queries in.'
  const weekly =
    servedAt !== null
      ? `The weekly delivery of ${period} was begun on ${moment(servedAt)}: \`push --all\` sends no other.`
      : !subscribed
        ? ''
        : held !== null
          ? `The weekly delivery of ${period} is owed, and held back.`
          : `\`push --all\` sends the same as the weekly delivery of ${period}, which is owed.`
  return `${kinds[kind]} ${weekly}`.trimEnd()
}

const describeBegun = ({ kind, period, part, parts, leads, createdAt }: BegunDelivery, { moment }: Times) =>
  `A ${kind} delivery of ${period}${partOf({ part, parts })}, begun on ${moment(createdAt)} with ${listings(leads)}, has an attempt left: \`push --resume\` makes it. It is not part of this.`

/** What somebody should know before sending, the most important first. */
export function findAlarms({ subscribed, held, begun, tooLarge }: DryRun, times: Times): string[] {
  return [
    held !== null &&
      `The guard holds the weekly delivery back: ${held.replace(/^held: /, '')}. ${toDoWithHeld('users')}`,
    ...begun.map((delivery) => describeBegun(delivery, times)),
    !subscribed &&
      'The user is not subscribed to the lead push: `push --all` leaves them out, `push --user` sends all the same.',
    tooLarge.length > 0 &&
      `${listings(tooLarge.length)} ${tooLarge.length === 1 ? 'is' : 'are'} too large for a request and left out: ${tooLarge.slice(0, 5).join(', ')}${tooLarge.length > 5 ? ' …' : ''}`,
  ].filter((alarm) => typeof alarm === 'string')
}

const valueCharsMax = 100

/** Cuts a text to `charsMax` characters, with an ellipsis as the last one. */
export const clip = (text: string, charsMax: number) => {
  const characters = [...text.slice(0, charsMax * 2 + 2)]
  return characters.length <= charsMax
    ? text
    : `${characters
        .slice(0, charsMax - 1)
        .join('')
        .trimEnd()}…`
}

/** `78704, 25 miles`. */
export function nameQuery({ value, radius, kind }: DryQuery): string {
  const around = radius === 0 || kind === 'words' ? '' : `, ${formatCount(radius)} ${radius === 1 ? 'mile' : 'miles'}`
  return `${clip(value, valueCharsMax)}${around}`
}

/** How many listings match a query. */
export const describeMatching = ({ matching, counted }: DryQuery) =>
  matching === null ? `${formatCount(counted)} or more` : formatCount(matching)

/** What the limit of 300 cuts off, and how far back the rest goes. */
export function describeCut({ cut, taken, counted }: DryQuery, { day }: Times): string {
  if (cut === null) return ''
  const many =
    cut.count !== null
      ? formatCount(cut.count)
      : counted > leadsPerQueryMax
        ? `${formatCount(counted - leadsPerQueryMax)} or more`
        : 'perhaps some'
  const [from, to] = [day(cut.oldestAt), day(cut.newestAt)]
  const span = cut.oldestAt === null ? '' : from === to ? `, of ${from}` : `, of ${from} to ${to}`
  return `${many} older${span}; the newest ${leadsPerQueryMax} go back to ${day(taken?.oldestAt ?? null)}`
}
