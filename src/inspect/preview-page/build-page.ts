/** The page of a dry run, from its facts. Pure. */
import { bytes, formatCount, plural, timeFormat } from '../../base/amounts.ts'
import { bodyBytesMax, leadsPerQueryMax } from '../../base/limits.ts'
import { packageVersion } from '../../base/package-root.ts'
import { numberColumns } from '../../base/table.ts'
import { buildDocument, buildKeyFigures, buildSection, type KeyFigure } from '../page/document.ts'
import { type Html, html } from '../page/html.ts'
import { buildMap } from '../page/map.ts'
import { buildTable } from '../page/table.ts'
import { buildListings } from './cards.ts'
import type { DryRun } from './find-dry-run.ts'
import {
  buildHeadline,
  describeCut,
  describeKind,
  describeMatching,
  findAlarms,
  nameQuery,
  type Times,
} from './wording.ts'

const sum = (values: readonly (number | null)[]) => values.reduce<number>((all, value) => all + (value ?? 0), 0)

/** Text between backticks becomes `<code>`. */
const withCode = (text: string): Html[] =>
  text.split(/`([^`]+)`/).map((piece, at) => (at % 2 === 1 ? html`<code>${piece}</code>` : html`${piece}`))

function findFigures({ leads, parts, bytes: size, queries }: DryRun): KeyFigure[] {
  const cut = sum(queries.map(({ cut }) => cut?.count ?? null))
  const isCutOpen = queries.some(({ cut }) => cut !== null && cut.count === null)
  const old = sum(queries.map(({ tooOld }) => tooOld))
  const isOldOpen = queries.some(({ tooOld }) => tooOld === null)
  const repeats = sum(queries.map(({ repeats }) => repeats))
  const atLeast = (isOpen: boolean, value: number) =>
    isOpen ? (value === 0 ? '—' : `≥ ${formatCount(value)}`) : formatCount(value)
  return [
    {
      name: leads === 1 ? 'Listing' : 'Listings',
      value: formatCount(leads),
      note: `of ${plural(queries.length, 'query')}`,
    },
    {
      name: parts.length === 1 ? 'Request' : 'Requests',
      value: formatCount(parts.length),
      note: `${bytes(size)}, at most ${bytes(bodyBytesMax)} each`,
    },
    { name: 'Cut off', value: atLeast(isCutOpen, cut), note: `beyond ${leadsPerQueryMax} a query` },
    { name: 'Repeats', value: formatCount(repeats), note: 'an earlier query brings them' },
    {
      name: 'Too old',
      value: atLeast(isOldOpen, old),
      note: isOldOpen ? 'not seen for too long; not counted for every query' : 'not seen for too long',
    },
  ]
}

function buildHeader(run: DryRun, times: Times, timeZone: string): Html {
  const alarms = findAlarms(run, times)
  return html`<p class="kicker">leadpush preview · ${run.period} · ${times.moment(run.madeAt)} (${timeZone})</p>
<h1>${buildHeadline(run)}</h1>
<p class="lead">${withCode(describeKind(run, times))} Nothing was sent.</p>
${
  alarms.length > 0 &&
  html`<ul class="alarms">${alarms.map((alarm) => html`<li>${withCode(alarm)}</li>`)}</ul>
`
}${run.queries.length > 0 && buildKeyFigures(findFigures(run))}`
}

function buildQueries({ queries }: DryRun, times: Times): Html {
  const number = (value: number | null) => (value === null ? 'not counted' : { text: formatCount(value), sort: value })
  return buildSection({
    id: 'queries',
    title: 'The queries',
    intro: `A query brings the newest ${leadsPerQueryMax} of what it matches, by when a listing came or last changed; a listing that two queries match goes with the first.`,
    body: buildTable({
      caption: 'What each query brings',
      captionHidden: true,
      columns: [
        { head: 'query' },
        { head: 'searches for', wide: true },
        ...numberColumns('matches', 'sent', 'repeats', 'too old'),
        { head: 'cut off', wide: true },
      ],
      rows: queries.map((query) => [
        { text: String(query.number), sort: query.number },
        `${nameQuery(query)}${query.kind === 'words' ? ' (words)' : ''}`,
        { text: describeMatching(query), sort: query.matching ?? query.counted },
        number(query.sent),
        number(query.repeats),
        number(query.tooOld),
        { text: describeCut(query, times), sort: query.cut === null ? 0 : (query.cut.count ?? query.counted) },
      ]),
    }),
  })
}

function buildWhere({ queries, points, unplaced, towns, leads }: DryRun): Html {
  const circles = queries.flatMap((query) =>
    query.centre ? [{ ...query.centre, radiusMiles: query.radius, name: `${query.number}: ${nameQuery(query)}` }] : [],
  )
  if (circles.length + points.length === 0) return html``
  const words = queries.filter(({ centre }) => centre === null).length
  const title = 'Where they are'
  const description = `${plural(leads, 'listing')} of ${plural(queries.length, 'query')} at ${plural(points.length, 'postal code')}; most of them: ${
    points
      .slice(0, 5)
      .map(({ name, count: n }) => `${name} (${formatCount(n)})`)
      .join(', ') || 'none'
  }.`
  return buildSection({
    id: 'where',
    title,
    intro: `A listing lies in the middle of its postal code; a radius is measured from the middle of the query's place.${words > 0 ? ` ${plural(words, 'query')} ${words === 1 ? 'has' : 'have'} no circle: words alone, or a postal code that is in no table.` : ''}`,
    body: html`<figure>
${buildMap({
  id: 'map',
  title,
  description,
  points: points.map(({ name, ...point }) => ({ ...point, name: `${name}: ${plural(point.count, 'listing')}` })),
  counted: ['listing', 'listings'],
  circles,
  circled: 'radius of a query',
  towns,
  unplaced,
})}</figure>
`,
  })
}

const footer = (
  user: string,
  timeZone: string,
) => html`<p>Made by leadpush ${packageVersion}; times are those of ${timeZone}. Contacts of listings are left out: a card says no more than which of them a listing has. This page holds the e-mail address ${user} and listings: keep it as you keep those.</p>
`

function createTimes(timeZone: string): Times {
  const moment = timeFormat(timeZone)
  return { moment, day: (time) => moment(time).slice(0, 10) }
}

/** One file of HTML, at most some 3 MB. */
export function buildDryRunPage(run: DryRun, timeZone: string): string {
  const times = createTimes(timeZone)
  const isEmpty = run.queries.length === 0
  return buildDocument({
    title: `leadpush preview: ${run.user}`,
    header: buildHeader(run, times, timeZone),
    main: isEmpty
      ? html``
      : html`${buildQueries(run, times)}${buildWhere(run)}${run.leads > 0 && buildListings(run, times)}`,
    footer: footer(run.user, timeZone),
  })
}
