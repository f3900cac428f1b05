/** The weeks of a report: how deliveries ended. */
import { formatCount, plural } from '../../../base/amounts.ts'
import { counted, numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import type { Html } from '../../page/html.ts'
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

export const buildWeeks = (figures: Figures, wording: Wording): Html =>
  buildSection({ id: 'weeks', title: 'Week by week', body: buildEnds(figures, wording) })
