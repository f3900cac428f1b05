/** The weeks of a report: how deliveries ended, and how many leads they carried. */
import { formatCount, plural } from '../../../base/amounts.ts'
import { numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildBars, buildFigure, type Series } from '../../page/plot.ts'
import type { Figures } from '../figures/find-figures.ts'
import { short, shortWeek, type Wording } from './wording.ts'

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

/** Deliveries that did not arrive, by week. */
const seriesOfTrouble = ({ weeks }: Figures): Series[] => [
  { name: 'Failed', fill: 'failed', values: weeks.map(({ failed }) => failed) },
  { name: 'Unknown', fill: 'unknown', values: weeks.map(({ unknown }) => unknown) },
  { name: 'Users who got nothing', fill: 'skipped', values: weeks.map(({ missed }) => missed) },
]

function buildEnds(figures: Figures, wording: Wording): Html {
  const { weeks } = figures
  const delivered = weeks.map((week) => week.delivered)
  const troubles = seriesOfTrouble(figures)
  const [failed = 0, unknown = 0] = troubles.map(({ values }) => sum(values))
  const missed = sum(weeks.map((week) => week.missed))
  const ended = sum(delivered) + failed + unknown
  const summary =
    ended + missed === 0
      ? 'No delivery has ended in these weeks.'
      : `${plural(ended, 'delivery')} in ${plural(weeks.length, 'week')}: ${wording.percent(sum(delivered) / (ended + missed))} delivered, ${formatCount(failed)} failed, ${formatCount(unknown)} unknown${missed > 0 ? `; ${plural(missed, 'user')} got nothing` : ''}.`
  return buildFigure({
    title: 'How deliveries ended',
    summary,
    drawing: buildBars(summary, {
      categories: weeks.map(({ period }) => shortWeek(period)),
      format: short,
      series: [{ name: 'Delivered', fill: 'delivered', values: delivered }, ...troubles],
    }),
    table: {
      caption: 'Deliveries by week',
      columns: [
        { head: 'week' },
        { head: 'from Monday' },
        ...numberColumns('delivered', 'failed', 'unknown', 'users who got nothing'),
      ],
      rows: weeks
        .map((week, at) => [
          week.period,
          week.monday,
          ...[week.delivered, ...troubles.map(({ values }) => values[at] ?? 0)].map((n) => ({
            text: formatCount(n),
            sort: n,
          })),
        ])
        .toReversed(),
    },
  })
}

/** Enlarged, since a few among all deliveries could not be seen; empty if all arrived. */
export function buildTroubledWeeks(figures: Figures): Html | undefined {
  const series = seriesOfTrouble(figures)
  if (series.every(({ values }) => sum(values) === 0)) return undefined
  return buildFigure({
    title: 'Deliveries that did not arrive, week by week',
    summary: 'Users who got nothing were due: the guard held them back, or the push did not reach them.',
    drawing: buildBars('Failed, unknown and nothing by week, as in the table of how deliveries ended.', {
      categories: figures.weeks.map(({ period }) => shortWeek(period)),
      format: short,
      series,
      widthsPx: [340, 900],
    }),
  })
}

function buildLeads({ weeks, isSampled }: Figures): Html {
  const values = weeks.map(({ leads }) => leads ?? 0)
  const last = values.findLastIndex((value) => value > 0)
  const about = isSampled ? 'about ' : ''
  const summary =
    last < 0
      ? 'Nothing yet.'
      : `${about}${formatCount(values[last] ?? 0)} in ${weeks[last]?.period}, ${about}${formatCount(sum(values))} in all.`
  return buildFigure({
    title: 'Leads a week',
    summary,
    drawing: buildBars(summary, {
      categories: weeks.map(({ period }) => shortWeek(period)),
      series: [{ name: 'Leads', fill: 'accent', values }],
      format: short,
      widthsPx: [340, 500],
    }),
    table: {
      caption: 'Leads a week',
      columns: [{ head: 'week' }, ...numberColumns('leads')],
      rows: weeks
        .map(({ period, leads }) => [
          period,
          leads === null ? { text: 'not in the sample', sort: '' } : { text: formatCount(leads), sort: leads },
        ])
        .toReversed(),
    },
  })
}

export function buildWeeks(figures: Figures, wording: Wording): Html {
  return buildSection({
    id: 'weeks',
    title: 'Week by week',
    body: html`<div class="uneven">
${buildEnds(figures, wording)}
${buildLeads(figures)}
</div>
`,
  })
}
