/** The weeks of a report: how deliveries ended, what they carried, how long a week's push took. */
import { formatCount, plural, seconds } from '../../../base/amounts.ts'
import { numberColumns } from '../../../base/table.ts'
import { buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildBars, buildFigure, type Series } from '../../page/plot.ts'
import type { Figures } from '../figures/find-figures.ts'
import type { Week } from '../figures/weeks.ts'
import { short, shortWeek, size, unitOf, type Wording } from './wording.ts'

const categoriesOf = (weeks: readonly Week[]) => weeks.map(({ period }) => shortWeek(period))
const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)

function buildEnds(figures: Figures, wording: Wording): Html {
  const { weeks, withoutQueries } = figures
  // only of today is it known which users have no query
  const skipped = weeks.map(({ missed }, at) => missed + (at === weeks.length - 1 ? withoutQueries : 0))
  const delivered = weeks.map((week) => week.delivered)
  const troubles: Series[] = [
    { name: 'Failed', fill: 'failed', values: weeks.map(({ failed }) => failed) },
    { name: 'Unknown', fill: 'unknown', values: weeks.map(({ unknown }) => unknown) },
    { name: 'Skipped users', fill: 'skipped', values: skipped },
  ]
  const [failed = 0, unknown = 0] = troubles.map(({ values }) => sum(values))
  const missed = sum(weeks.map((week) => week.missed))
  const ended = sum(delivered) + failed + unknown
  const summary =
    ended + missed === 0
      ? 'No delivery has ended in these weeks.'
      : `${plural(ended, 'delivery')} in ${plural(weeks.length, 'week')}: ${wording.percent(sum(delivered) / (ended + missed))} delivered, ${formatCount(failed)} failed, ${formatCount(unknown)} unknown${missed > 0 ? `; ${plural(missed, 'user')} got nothing` : ''}.`
  const table = {
    caption: 'Deliveries by week',
    columns: [
      { head: 'week' },
      { head: 'from Monday' },
      ...numberColumns('delivered', 'failed', 'unknown', 'skipped users'),
    ],
    rows: weeks
      .map((week, at) => [
        week.period,
        week.monday,
        ...[week.delivered, week.failed, week.unknown, skipped[at] ?? 0].map((n) => ({
          text: formatCount(n),
          sort: n,
        })),
      ])
      .toReversed(),
  }
  const categories = categoriesOf(weeks)
  const all = {
    categories,
    format: short,
    series: [{ name: 'Delivered', fill: 'delivered', values: delivered } as const, ...troubles],
  }
  return html`<div class="uneven">
${buildFigure({ title: 'How deliveries ended', summary, drawing: buildBars(summary, all), table })}
${buildFigure({
  title: 'Enlarged: what did not arrive',
  summary:
    'Skipped users were due and got nothing: the guard held them back, or the push did not reach them. This week has subscribed users without a query in it too.',
  drawing: buildBars('Failed, unknown and skipped by week, as in the table of how deliveries ended.', {
    categories,
    format: short,
    series: troubles,
    widthsPx: [380, 660],
  }),
})}
</div>
`
}

function buildAmount(
  figures: Figures,
  {
    title,
    amountOf,
    format,
    say,
  }: { title: string; amountOf(week: Week): number | null; format(value: number): string; say(value: number): string },
): Html {
  const { weeks, isSampled } = figures
  const values = weeks.map((week) => amountOf(week) ?? 0)
  const last = values.findLastIndex((value) => value > 0)
  const about = isSampled ? 'about ' : ''
  const summary =
    last < 0
      ? 'Nothing yet.'
      : `${about}${say(values[last] ?? 0)} in ${weeks[last]?.period}, ${about}${say(sum(values))} in all.`
  return buildFigure({
    title,
    summary,
    drawing: buildBars(summary, {
      categories: categoriesOf(weeks),
      series: [{ name: title, fill: 'accent', values }],
      format,
      heightPx: 190,
    }),
    table: {
      caption: title,
      columns: [{ head: 'week' }, ...numberColumns(title.toLowerCase())],
      rows: weeks
        .map((week) => {
          const value = amountOf(week)
          return [
            week.period,
            value === null ? { text: 'not in the sample', sort: '' } : { text: say(value), sort: value },
          ]
        })
        .toReversed(),
    },
  })
}

function buildPace({ weeks, isSampled }: Figures): Html {
  const first = weeks.map(({ firstSeconds }) => Math.max(firstSeconds ?? 0, 0))
  const rest = weeks.map(({ lastSeconds }, at) => Math.max((lastSeconds ?? 0) - (first[at] ?? 0), 0))
  const last = weeks.findLast(({ lastSeconds }) => lastSeconds !== null)
  const { unit, seconds: unitSeconds } = unitOf(Math.max(...weeks.map(({ lastSeconds }) => lastSeconds ?? 0)))
  const inUnit = (value: number) => value / unitSeconds
  const say = (value: number | null) => (value === null ? '' : seconds(value))
  const about = isSampled ? ' (of a sample)' : ''
  const summary = last
    ? `First after ${say(last.firstSeconds)}, last after ${say(last.lastSeconds)} in ${last.period}${about}.`
    : 'No weekly delivery yet.'
  return buildFigure({
    title: 'Time to first and last delivery',
    summary,
    drawing: buildBars(summary, {
      categories: categoriesOf(weeks),
      series: [
        { name: 'to the first', fill: 'accent', values: first.map(inUnit) },
        { name: 'from there to the last', fill: 'soft', values: rest.map(inUnit) },
      ],
      format: (value) => (value === 0 ? '0' : `${value} ${unit}`),
      heightPx: 190,
    }),
    table: {
      caption: 'Time from the beginning of the first run of the week to its first and its last weekly delivery',
      columns: [{ head: 'week' }, ...numberColumns('first after', 'last after')],
      rows: weeks
        .map(({ period, firstSeconds, lastSeconds }) => [
          period,
          { text: say(firstSeconds), sort: firstSeconds ?? '' },
          { text: say(lastSeconds), sort: lastSeconds ?? '' },
        ])
        .toReversed(),
    },
  })
}

export function buildWeeks(figures: Figures, wording: Wording): Html {
  return buildSection({
    id: 'weeks',
    title: 'Week by week',
    body: html`${buildEnds(figures, wording)}
<div class="thirds">
${buildAmount(figures, { title: 'Leads a week', amountOf: ({ leads }) => leads, format: short, say: formatCount })}
${buildAmount(figures, { title: 'Bytes a week', amountOf: (week) => week.bytes, format: size, say: size })}
${buildPace(figures)}
</div>
`,
  })
}
