/** The weeks of a report: how deliveries ended, and how many leads they carried. */
import { formatCount, plural } from '../../../base/amounts.ts'
import { counted, numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildBars, buildFigure, type Series } from '../../page/plot.ts'
import type { Figures } from '../figures/find-figures.ts'
import { short, shortWeek, type Wording } from './wording.ts'

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

function buildEnds({ weeks }: Figures, wording: Wording): Html {
  const of = (name: 'delivered' | 'failed' | 'unknown' | 'missed') => weeks.map((week) => week[name])
  const series: Series[] = [
    { name: 'Delivered', fill: 'delivered', values: of('delivered') },
    { name: 'Failed', fill: 'failed', values: of('failed') },
    { name: 'Unknown', fill: 'unknown', values: of('unknown') },
    { name: 'Users who got nothing', fill: 'skipped', values: of('missed') },
  ]
  const [delivered = 0, failed = 0, unknown = 0, missed = 0] = series.map(({ values }) => sum(values))
  const ended = delivered + failed + unknown
  const summary =
    ended + missed === 0
      ? 'No delivery has ended in these weeks.'
      : `${plural(ended, 'delivery')} in ${plural(weeks.length, 'week')}: ${wording.percent(delivered / (ended + missed))} delivered, ${formatCount(failed)} failed, ${formatCount(unknown)} unknown${missed > 0 ? `; ${plural(missed, 'user')} got nothing` : ''}.`
  return buildFigure({
    title: 'How deliveries ended',
    summary,
    drawing: buildBars(summary, {
      categories: weeks.map(({ period }) => shortWeek(period)),
      format: short,
      series,
    }),
    table: {
      caption: 'Deliveries by week',
      columns: [
        { head: 'week' },
        { head: 'from Monday' },
        ...numberColumns('delivered', 'failed', 'unknown', 'users who got nothing'),
      ],
      rows: weeks
        .map((week) => [
          week.period,
          week.monday,
          ...[week.delivered, week.failed, week.unknown, week.missed].map((n) => counted(n)),
        ])
        .toReversed(),
    },
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
