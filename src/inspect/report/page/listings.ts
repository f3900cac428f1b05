/** The listings of a report: what came in a day, and where they are. */

import { formatCount, plural } from '../../../base/amounts.ts'
import { counted, numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildMap } from '../../page/map.ts'
import { buildBars, buildFigure } from '../../page/plot.ts'
import { buildTable } from '../../page/table.ts'
import { sourcesTable } from '../../status/tables.ts'
import type { Figures } from '../figures/find-figures.ts'
import { weeksLookedAt } from '../figures/kept.ts'
import { short, shortDay, type Wording } from './wording.ts'

/** So many sources are shown, by name. */
const sourcesShown = 200

function buildDays({ days }: Figures): Html {
  const last = days.findLast(({ imports }) => imports > 0)
  const total = (of: 'inserted' | 'updated') => days.reduce((sum, day) => sum + day[of], 0)
  const summary = last
    ? `${formatCount(total('inserted'))} new and ${formatCount(total('updated'))} changed in ${days.length} days; on ${shortDay(last.day)}, the last day with an import, ${formatCount(last.inserted)} and ${formatCount(last.updated)}.`
    : `Nothing was imported in the last ${days.length} days.`
  return buildFigure({
    title: 'New and changed listings a day',
    summary,
    drawing: last
      ? buildBars(summary, {
          categories: days.map(({ day }) => shortDay(day)),
          series: [
            { name: 'New', fill: 'accent', values: days.map(({ inserted }) => inserted) },
            { name: 'Changed', fill: 'soft', values: days.map(({ updated }) => updated) },
          ],
          format: short,
          widthsPx: [340, 900],
        })
      : html``,
    table: {
      caption: 'New and changed listings a day',
      columns: [{ head: 'day' }, ...numberColumns('imports', 'new', 'changed', 'rejected')],
      rows: days
        .map(({ day, imports, inserted, updated, rejected }) => [
          day,
          ...[imports, inserted, updated, rejected].map((n) => counted(n)),
        ])
        .toReversed(),
    },
  })
}

function buildWhere({ where }: Figures): Html {
  const { leads, unplaced, points, queries, queriesShown, circles, searches, states, towns } = where
  const summary = [
    `${plural(leads, 'listing')}.`,
    queries > 0 &&
      `${plural(queries, 'query')} for places${queriesShown < queries ? `; drawn are the ${plural(circles.length, 'circle')} that most of them ask for, of ${formatCount(searches)}` : ''}.`,
  ]
    .filter(Boolean)
    .join(' ')
  return buildFigure({
    title: 'Where listings are, and where users look for them',
    summary,
    drawing: buildMap({
      id: 'where',
      title: 'Listings and the circles of queries',
      description: summary,
      points,
      counted: ['listing', 'listings'],
      circles,
      circled: "a query's radius",
      towns,
      unplaced,
    }),
    table: {
      caption: 'Listings and users by state',
      columns: [{ head: 'state' }, ...numberColumns('listings', 'users')],
      rows: states.map(({ state, leads, users }) => [state, counted(leads), counted(users)]),
    },
  })
}

const buildSources = ({ status: { sources } }: Figures, { time }: Wording): Html =>
  buildTable({ caption: 'Listings by source', ...sourcesTable(sources.slice(0, sourcesShown), time) })

/** Undefined where nothing was kept from anybody. */
function describeKept({ kept: { sameHouse = 0, gone, heldWeeks } }: Figures): string | undefined {
  const parts = [
    sameHouse > 0 && `${plural(sameHouse, 'listing')} of a house that another listing stands for`,
    gone > 0 && `${plural(gone, 'listing')} that left ${gone === 1 ? 'its feed' : 'their feeds'}`,
    heldWeeks > 0 && `pushes of ${plural(heldWeeks, 'week')} that looked wrong, of the last ${weeksLookedAt}`,
  ].filter((part) => part !== false)
  return parts.length > 0 ? `${parts.join('; ')}.` : undefined
}

function buildKept(figures: Figures): Html | undefined {
  const kept = describeKept(figures)
  return kept === undefined
    ? undefined
    : html`<p><strong>Kept from users:</strong> ${kept}</p>
`
}

export function buildListings(figures: Figures, wording: Wording): Html {
  const { leads, queries } = figures.where
  return buildSection({
    id: 'listings',
    title: 'Listings',
    body: html`${buildDays(figures)}${buildKept(figures)}${figures.status.sources.length > 0 && buildSources(figures, wording)}${leads + queries > 0 && buildWhere(figures)}`,
  })
}
