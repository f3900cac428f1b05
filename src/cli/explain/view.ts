/** An explanation in sentences: the answer first, then its reasons. Pure. */

import { formatCount, listed, partOf, plural, span } from '../../base/amounts.ts'
import { bodyBytesMax, importDays, leadsPerQueryMax } from '../../base/limits.ts'
import type { ExplainedDelivery } from '../../inspect/explain/deliveries.ts'
import type { Explanation } from '../../inspect/explain/explain.ts'
import type { ExplainedQuery } from '../../inspect/explain/queries.ts'
import { adviseOn, tellSteps } from '../../inspect/status/advise-on.ts'
import { looksLikePlace } from '../../places/parse-place.ts'

type Time = (at: Date) => string

const quote = (text: string) => JSON.stringify(text)
const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

function ordinal(value: number): string {
  const ending = /1\d$/.test(String(value)) ? 'th' : (['th', 'st', 'nd', 'rd'][value % 10] ?? 'th')
  return `${formatCount(value)}${ending}`
}

/** A distance with one decimal, or with as many as it takes to differ from the radius. */
function miles(distance: number, radius: number): string {
  const digits = [1, 2, 3, 4].find((digits) => Number(distance.toFixed(digits)) > radius === distance > radius)
  return distance.toFixed(digits ?? 5)
}

function describePlace(query: ExplainedQuery, postalKey: string): string {
  const { from, isOwn, byCity, inPlace, distanceMiles, radius } = query
  if (byCity) return 'its city is the place'
  if (isOwn) return from ? `${postalKey} is its code` : `${postalKey} is one of the codes of the place`
  if (postalKey.endsWith('*') && !inPlace) return `${postalKey.slice(0, -1)} is its code in another country`
  if (distanceMiles === null) {
    return `how far ${postalKey} is from ${from ?? 'the place'} is in no table, so only the same code would match`
  }
  const far = `${postalKey} is ${miles(distanceMiles, radius)} miles from ${from ?? 'the centre of the place'}`
  if (inPlace) return far
  return `${far}, ${radius > 0 ? 'which is too far' : 'and without a radius that is elsewhere'}`
}

function describeWords({ words }: ExplainedQuery): string {
  const say = (found: boolean, joint: string) => {
    const said = words.filter((each) => each.found === found)
    return listed(
      said.map(({ word, stem }) => `${quote(word)}${stem === word ? '' : ` (as ${quote(stem)})`}`),
      joint,
    )
  }
  const [has, lacks] = [say(true, 'and'), say(false, 'or')]
  return [has && `it has ${has}`, lacks && `it does not have ${lacks}`].filter(Boolean).join(', but ')
}

function describeRank(query: ExplainedQuery, { gone, sameHouse }: Explanation): string {
  const { rank, matching, counted, words, radius } = query
  if (counted === 0) return `It would match if it were not ${gone ? 'gone' : 'too old'}`
  if (rank === null && sameHouse !== null) return 'It matches, but another listing of its house counts'
  const of = matching === null ? `more than ${formatCount(counted)}` : formatCount(matching)
  if (rank !== null && rank <= leadsPerQueryMax) return `It matches, the ${ordinal(rank)} newest of ${of}`
  const where = rank === null ? `not among the ${formatCount(counted)} newest` : `the ${ordinal(rank)} newest of ${of}`
  const narrower = [words.length > 0 && 'more words', radius > 0 && words.length === 0 && 'a smaller radius'].filter(
    Boolean,
  )
  const or = narrower.length > 0 ? `, or if the query had ${narrower.join(' or ')}` : ''
  return `It matches, but is ${where}, and only ${leadsPerQueryMax} are sent: it would be if it changed, which makes it the newest${or}`
}

function tellQuery(query: ExplainedQuery, explanation: Explanation): string {
  const { planned, postalKey } = explanation
  const { number, type, value, radius, kind, words, matches } = query
  const asked = `${number}. ${type} ${quote(value)}${radius > 0 ? `, ${radius} ${radius === 1 ? 'mile' : 'miles'}` : ''}`
  const what = [
    ...(kind === 'words' ? [] : [describePlace(query, postalKey)]),
    ...(words.length > 0 ? [describeWords(query)] : []),
    ...(kind === 'words' && looksLikePlace(value) ? ['it looks like a place, but no such place is known'] : []),
    ...(kind === 'words' && radius > 0 ? ['the radius means nothing without a place'] : []),
  ]
  const outcome = matches ? describeRank(query, explanation) : 'It does not match'
  return `${asked}: ${what.join('; ')}. ${outcome}.${planned?.query === number ? ' It belongs to this query.' : ''}`
}

const nameOf = ({ kind, period }: ExplainedDelivery) =>
  kind === 'weekly'
    ? `the weekly delivery of ${period}`
    : kind === 'subscription'
      ? 'the subscription push'
      : `a ${kind} delivery in ${period}`

const describeChanges = ({ changed }: ExplainedDelivery) =>
  `since then ${listed(changed)} ${changed.length === 1 ? 'has' : 'have'} changed`

function tellDelivery(delivery: ExplainedDelivery, time: Time): string {
  const { createdAt, idempotencyKey, status, attemptLog, error, changed } = delivery
  const state = changed.length === 0 ? 'it as it is now' : `an earlier state of it (${describeChanges(delivery)})`
  const attempts = attemptLog.map(({ at, error, httpStatus }) => {
    const came = error ?? (httpStatus === null ? 'no outcome yet' : `HTTP ${httpStatus}`)
    return `${time(at)} ${came}`
  })
  // a delivery may have ended for another reason than its last attempt
  const why = error === null || error === attemptLog.at(-1)?.error ? [] : [error]
  const log = [...attempts, ...why].join('; ')
  const outcome = `It is ${status}${log && ` (${log})`}`
  return `${capital(nameOf(delivery))}${partOf(delivery)}, begun ${time(createdAt)}, key ${idempotencyKey}, held ${state}. ${outcome}.`
}

const order = ['delivered', 'pending', 'unknown', 'failed'] as const

function tellAgain({ user, subscribed, planned }: Explanation, ended: 'failed' | 'unknown'): string {
  if (planned === null) return 'A delivery that is made anew would not have it.'
  return tellSteps(adviseOn({ [ended]: 1, ...(!subscribed && { user }) }))
}

/** The answer if deliveries of the period had the listing; `delivery` is the one with the best outcome. */
function tellSent(delivery: ExplainedDelivery, explanation: Explanation, time: Time): string {
  const { user, subscribed, owed, planned } = explanation
  const { status, httpStatus, error, createdAt, changed } = delivery
  const which = nameOf(delivery)
  const next =
    planned && subscribed ? `: that goes out with the ${owed === null ? "next week's" : 'next'} delivery` : ''
  const since = changed.length === 0 ? '' : ` ${capital(describeChanges(delivery))}${next}.`
  switch (status) {
    case 'delivered':
      return `Yes: it was sent to ${user} on ${time(createdAt)}, in ${which}, and the receiver took it (HTTP ${httpStatus}).${since}`
    case 'pending':
      return `It is on its way: ${which} holds it, which was begun on ${time(createdAt)} and has not ended.${since}`
    case 'unknown':
      return `Perhaps: ${which} held it, but whether it arrived is unknown: ${error}. ${tellAgain(explanation, 'unknown')}`
    default:
      return `No: ${which} held it, and failed: ${error}. ${tellAgain(explanation, 'failed')}`
  }
}

/** The answer if no delivery of the period had the listing: the first sufficient reason. */
function tellNotSent(explanation: Explanation, maxAge: string, time: Time): string {
  const { user, subscribed, queries, tooOld, seenAt, ageSeconds, planned, tooLarge, held, owed, servedAt } = explanation
  const { period, importedAt, untold, gone, sameHouse } = explanation
  const matching = queries.filter(({ matches }) => matches).length
  if (untold.includes(period)) {
    return `Unknown: it may have been in a delivery of ${period}, whose content is no longer stored.`
  }
  if (queries.length === 0) return `No: ${user} has no queries.`
  if (matching === 0) return `No: it matches none of the queries that ${user} has (${formatCount(queries.length)}).`
  if (gone) {
    return `No: it is gone (${describeGone(explanation, time)}), and is not sent until one of its sources has it again.`
  }
  if (tooOld) {
    return `No: it was last seen in an import ${span(ageSeconds)} ago, on ${time(seenAt)}, and a listing that no import had for ${maxAge} is not sent.`
  }
  if (tooLarge) return `No: it is too large for a request of ${formatCount(bodyBytesMax)} bytes.`
  if (planned === null && sameHouse !== null) {
    return `No: ${sameHouse} is of the same house and was imported before it, and only one listing of a house is sent (LEADPUSH_SAME_HOUSE=once).`
  }
  if (planned === null) {
    const [rank] = queries.flatMap((query) => query.rank ?? []).sort((a, b) => a - b)
    const standing = rank === undefined ? 'far from the newest' : `at best the ${ordinal(rank)} newest`
    return `No: it matches, but is ${standing}, and of a query only the newest ${leadsPerQueryMax} are sent.`
  }
  if (owed === 'subscription')
    return `Not yet: the subscription push is owed, and holds it. ${tellSteps(adviseOn({ waits: true }))}`
  if (!subscribed) return `No: ${user} is not subscribed. \`leadpush push --user ${user}\` would send it.`
  if (servedAt !== null) {
    const isNewer = importedAt !== null && importedAt > servedAt
    const when = isNewer ? 'before it was imported' : 'and did not hold it: it, or the queries, changed since'
    return `Not yet: the weekly delivery of ${period} was made on ${time(servedAt)}, ${when}. It goes out with the next week's.`
  }
  if (held !== null) return `Not yet: it is ${held}. ${tellSteps(adviseOn({ held: 'users' }))}`
  return `Not yet: the next \`leadpush push --all\` sends it, in the weekly delivery of ${period}.`
}

function tellUser({ user, subscribed, period, servedAt, owed }: Explanation, time: Time): string {
  const weekly =
    servedAt !== null
      ? `had the weekly delivery of ${period} begun on ${time(servedAt)}`
      : owed === 'weekly'
        ? `is owed the weekly delivery of ${period}`
        : `has had no weekly delivery in ${period}`
  const subscription = owed === 'subscription' ? ', and is owed a subscription push' : ''
  return `${user} is ${subscribed ? '' : 'not '}subscribed, ${weekly}${subscription}.`
}

function tellListing(explanation: Explanation, maxAge: string, time: Time): string {
  const { postalCode, postalKey, importedAt, seenAt, ageSeconds, tooOld, deliverableUntil, gone } = explanation
  const as = postalCode === postalKey ? '' : ` (compared as ${postalKey})`
  const until = `until ${time(deliverableUntil)}, ${maxAge} after`
  const sent = tooOld ? `was sent ${until}` : `is sent ${until}, unless it is seen again`
  const seen = gone ? 'is gone since' : sent
  const imported = importedAt === null ? `more than ${importDays} days ago` : `on ${time(importedAt)}`
  return `It lies in ${postalCode}${as}, was first imported ${imported}, was last seen ${span(ageSeconds)} ago, on ${time(seenAt)}, and ${seen}.${describeSources(explanation, time)}`
}

/** Which sources lack it, and since when. */
const describeGone = ({ sources }: Explanation, time: Time) =>
  listed(sources.flatMap(({ source, goneAt }) => (goneAt ? [`it left the source ${source} on ${time(goneAt)}`] : [])))

/** Ends the sentences on a listing that has sources. */
function describeSources(explanation: Explanation, time: Time): string {
  const { sources } = explanation
  const having = listed(sources.flatMap(({ source, goneAt }) => (goneAt ? [] : [source])))
  const left = describeGone(explanation, time)
  return `${having && ` It comes from ${having}.`}${left && ` ${capital(left)}.`}`
}

export interface Told {
  /** The question, in one sentence or two. */
  answer: string
  listing: string
  user: string
  queries: string[]
  deliveries: string[]
}

export function tell(explanation: Explanation, maxLeadAgeMs: number, time: Time): Told {
  const { period, deliveries, untold, more, queries, planned } = explanation
  const maxAge = span(maxLeadAgeMs / 1_000)
  const ofPeriod = deliveries.filter((delivery) => delivery.period === period)
  const best = order.flatMap((status) => ofPeriod.filter((delivery) => delivery.status === status))[0]
  const earlier = deliveries.find((delivery) => delivery.status === 'delivered')
  const answer = best ? tellSent(best, explanation, time) : tellNotSent(explanation, maxAge, time)
  const before = !best && earlier ? ` It was last sent on ${time(earlier.createdAt)}, in ${nameOf(earlier)}.` : ''
  const part =
    planned && planned.parts > 1 ? [`A push now would send it in part ${planned.part} of ${planned.parts}.`] : []
  const matchingFirst = [...queries].sort((a, b) => Number(b.matches) - Number(a.matches))
  const notKept = `${plural(untold.length, 'further delivery')} may have had it, with content that is no longer stored (${listed([...new Set(untold)])}).`
  return {
    answer: answer + before,
    listing: tellListing(explanation, maxAge, time),
    user: tellUser(explanation, time),
    queries: [...matchingFirst.map((query) => tellQuery(query, explanation)), ...part],
    deliveries: [
      ...(deliveries.length === 0 ? ['No delivery is known to have held it.'] : []),
      ...deliveries.map((delivery) => tellDelivery(delivery, time)),
      ...(untold.length > 0 ? [notKept] : []),
      ...(more ? ['Older deliveries were not looked at.'] : []),
    ],
  }
}
