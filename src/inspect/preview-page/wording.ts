/** The words of a dry run: its answer in one sentence, and its conditions. */
import { bytes, partOf, plural } from '../../base/amounts.ts'
import { toDoWithHeld } from '../status/causes.ts'
import type { BegunDelivery, DryRun } from './find-dry-run.ts'

type Time = (at: Date) => string

const listings = (n: number) => plural(n, 'listing')

/** Answers `what would be sent?`. */
export function buildHeadline({ user, parts, leads, bytes: size, queries }: DryRun): string {
  if (queries.length === 0) return `${user} would get nothing: there is no query.`
  if (leads === 0) return `${user} would get an empty request: no query matches a listing.`
  const requests = parts === 1 ? `1 request of ${bytes(size)}` : `${parts} requests, ${bytes(size)} together`
  return `${user} would get ${listings(leads)} in ${requests}.`
}

const kinds = {
  single: 'It is a further delivery, beside the weekly one and with a key of its own: what `push --user` sends.',
  subscription: 'It is the subscription push, which is owed: what `push --user` or `push --resume` sends.',
}

/** The kind of the delivery, and its effect on the weekly one. */
export function describeKind({ kind, queries, period, servedAt, subscribed, held }: DryRun, time: Time): string {
  if (queries.length === 0) return 'A user without a query is skipped. `users import` brings queries in.'
  const weekly =
    servedAt !== null
      ? `The weekly delivery of ${period} was begun on ${time(servedAt)}: \`push --all\` sends no other.`
      : !subscribed
        ? ''
        : held !== null
          ? `The weekly delivery of ${period} is owed, and held back.`
          : `\`push --all\` sends the same as the weekly delivery of ${period}, which is owed.`
  return `${kinds[kind]} ${weekly}`.trimEnd()
}

const describeBegun = ({ kind, period, part, parts, leads, createdAt }: BegunDelivery, time: Time) =>
  `A ${kind} delivery of ${period}${partOf({ part, parts })}, begun on ${time(createdAt)} with ${listings(leads)}, has an attempt left: \`push --resume\` makes it. It is not part of this.`

/** Things to know before sending, the most important first. */
export function findAlarms({ subscribed, held, begun, tooLarge }: DryRun, time: Time): string[] {
  return [
    held !== null &&
      `The guard holds the weekly delivery back: ${held.replace(/^held: /, '')}. ${toDoWithHeld('week')}`,
    ...begun.map((delivery) => describeBegun(delivery, time)),
    !subscribed &&
      'The user is not subscribed to the lead push: `push --all` leaves them out, `push --user` sends all the same.',
    tooLarge.length > 0 &&
      `${listings(tooLarge.length)} ${tooLarge.length === 1 ? 'is' : 'are'} too large for a request and left out: ${tooLarge.slice(0, 5).join(', ')}${tooLarge.length > 5 ? ' …' : ''}`,
  ].filter((alarm) => typeof alarm === 'string')
}
