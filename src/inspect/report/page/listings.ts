/** The listings of a report: by day and by source. */
import { formatCount } from '../../../base/amounts.ts'
import { counted, numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildBars, buildFigure } from '../../page/plot.ts'
import { buildTable } from '../../page/table.ts'
import { sourcesTable } from '../../status/tables.ts'
import type { Figures } from '../figures/find-figures.ts'
import { short, shortDay, type Wording } from './wording.ts'

/** The most sources that are shown, by name. */
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

const buildSources = ({ status: { sources } }: Figures, { time }: Wording): Html =>
  buildTable({ caption: 'Listings by source', ...sourcesTable(sources.slice(0, sourcesShown), time) })

export const buildListings = (figures: Figures, wording: Wording): Html =>
  buildSection({
    id: 'listings',
    title: 'Listings',
    body: html`${buildDays(figures)}${figures.status.sources.length > 0 && buildSources(figures, wording)}`,
  })
