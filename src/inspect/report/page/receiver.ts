/** The receiver of a report: how long attempts took, and whether that changes. */
import { formatCount, milliseconds, plural } from '../../../base/amounts.ts'
import { numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildBars, buildDistribution, buildFigure } from '../../page/plot.ts'
import type { Figures } from '../figures/find-figures.ts'
import { short, shortWeek } from './wording.ts'

/** Words a mark of the axis, which goes from milliseconds to timeouts in steps of ten times. */
const decade = (ms: number) => (ms < 1_000 ? `${ms} ms` : `${ms / 1_000} s`)

function buildSpread({ latency, isSampled }: Figures, all: NonNullable<Figures['latency']['all']>): Html {
  const marks = (['p50', 'p95', 'p99'] as const).map((name) => ({
    name: `${name} ${milliseconds(all[name])}`,
    ms: all[name],
  }))
  const summary = `Half of ${isSampled ? 'a sample of ' : ''}${plural(latency.attempts, 'attempt')} took ${milliseconds(all.p50)} or less, 95 % ${milliseconds(all.p95)} or less, 99 % ${milliseconds(all.p99)} or less.`
  return buildFigure({
    title: 'How long an attempt took',
    summary,
    drawing: buildDistribution(summary, {
      bars: latency.bars,
      marks,
      format: decade,
      formatCount: short,
      widthsPx: [340, 500],
    }),
    table: {
      caption: 'How long an attempt took',
      columns: [{ head: 'took' }, ...numberColumns('attempts')],
      rows: latency.bars.map((bar) => [
        { text: `${milliseconds(bar.fromMs)} to ${milliseconds(bar.toMs)}`, sort: bar.fromMs },
        { text: formatCount(bar.count), sort: bar.count },
      ]),
    },
  })
}

function buildTrend({ latency, weeks }: Figures): Html {
  const byPeriod = new Map(latency.weeks.map((week) => [week.period, week]))
  const slow = weeks.map(({ period }) => byPeriod.get(period)?.p95 ?? 0)
  const newest = latency.weeks.at(-1)
  const summary = newest ? `95 % of the attempts of ${newest.period} took ${milliseconds(newest.p95)} or less.` : ''
  return buildFigure({
    title: 'The slow end (p95), week by week',
    summary,
    drawing: buildBars(summary, {
      categories: weeks.map(({ period }) => shortWeek(period)),
      series: [{ name: 'p95', fill: 'accent', values: slow }],
      format: (value) => (value === 0 ? '0' : milliseconds(value)),
      heightPx: 240,
      widthsPx: [340, 500],
    }),
    table: {
      caption: 'Attempts by week',
      columns: [{ head: 'week' }, ...numberColumns('attempts', 'p50', 'p95', 'p99')],
      rows: latency.weeks
        .map(({ period, attempts, p50, p95, p99 }) => [
          period,
          { text: formatCount(attempts), sort: attempts },
          ...[p50, p95, p99].map((ms) => ({ text: milliseconds(ms), sort: ms })),
        ])
        .toReversed(),
    },
  })
}

export function buildReceiver(figures: Figures): Html {
  const { all } = figures.latency
  return buildSection({
    id: 'receiver',
    title: 'The receiver',
    intro: 'From connecting to the end of the answer, of first and second attempts.',
    body: all
      ? html`<div class="columns">
${buildSpread(figures, all)}
${buildTrend(figures)}
</div>
`
      : html`<p>No attempt was made in these weeks.</p>
`,
  })
}
