/** The top of a report: whether all is well, in one sentence, what to do if it is not, and the figures of the week. */
import { formatCount, plural, seconds } from '../../../base/amounts.ts'
import { sentenceOf } from '../../finding.ts'
import { buildKeyFigures, type KeyFigure } from '../../page/document.ts'
import { type Html, html, withCode } from '../../page/html.ts'
import { runNames } from '../../status/status.ts'
import type { Figures } from '../figures/find-figures.ts'
import type { Wording } from './wording.ts'

/** Nothing was imported, nobody is subscribed, nothing was ever sent. */
export const isEmpty = ({ status, runs, days }: Figures): boolean =>
  status.subscribed === 0 && runs.length === 0 && days.every(({ imports }) => imports === 0)

/** Answers `is all well?`. The lines below have the findings. */
export function buildHeadline(figures: Figures): string {
  const { status, alarms } = figures
  if (isEmpty(figures)) return 'There is nothing to report yet.'
  if (alarms.length > 0) return `${plural(alarms.length, 'thing')} ${alarms.length === 1 ? 'needs' : 'need'} attention.`
  if (status.subscribed === 0) return 'All is well, and nobody is subscribed yet.'
  if (status.lastRun?.outcome === 'running') return 'All is well: a push is on its way.'
  if (status.owed > 0) return `All is well; ${plural(status.owed, 'user')} will get theirs with the next push.`
  return 'All is well.'
}

/** Without what a later delivery made good. */
const ofThisWeek = ({ weeks }: Figures) => weeks.at(-1) ?? { failed: 0, unknown: 0, missed: 0 }

function buildLead(figures: Figures): Html {
  const { period, delivered, owed } = figures.status
  const { failed, unknown } = ofThisWeek(figures)
  if (isEmpty(figures)) {
    return html`<p class="lead">Bring listings and users in, look at what would be sent, and send it. Then make this page again.</p>
<p><code>leadpush leads import listings.csv</code><br><code>leadpush users import users.json</code><br><code>leadpush preview</code><br><code>leadpush push --all</code></p>
`
  }
  const troubled =
    failed + unknown === 0 ? 'none failed' : `${formatCount(failed)} failed and ${formatCount(unknown)} are unknown`
  const waiting = owed === 0 ? 'nobody is waiting' : `${plural(owed, 'user')} ${owed === 1 ? 'is' : 'are'} waiting`
  return html`<p class="lead">In week ${period} so far ${plural(delivered, 'delivery')} arrived; ${troubled}; ${waiting}.</p>
`
}

function describeLastRun({ status, runs }: Figures, { time }: Wording): KeyFigure {
  const { lastRun } = status
  const [run] = runs
  if (!lastRun || !run) return { name: 'Last run', value: 'none', note: 'no push was ever begun' }
  const { startedAt, endedAt, outcome, command } = lastRun
  const took =
    endedAt === null
      ? ''
      : html` <span class="whole">in ${seconds((endedAt.getTime() - startedAt.getTime()) / 1_000)}</span>`
  const tone = outcome === 'complete' ? 'good' : outcome === 'running' ? undefined : 'doubtful'
  const note = html`<span class="whole">${time(startedAt)}</span> <span class="whole">${runNames[command]}</span>${took}`
  return { name: 'Last run', value: outcome, note, ...(tone && { tone }) }
}

function buildFigures(figures: Figures, wording: Wording): Html {
  const { subscribed, withoutQueries, delivered, owed, pending, stuck } = figures.status
  const { failed, unknown, missed } = ofThisWeek(figures)
  const total = delivered + failed + unknown + missed
  const share = (value: number) =>
    total === 0 ? {} : { note: `${wording.percent(value / total)} of ${formatCount(total)}` }
  return buildKeyFigures([
    {
      name: 'Subscribed users',
      value: formatCount(subscribed),
      ...(withoutQueries > 0 && { note: `${formatCount(withoutQueries)} without a query` }),
    },
    { name: 'Delivered', value: formatCount(delivered), ...share(delivered) },
    { name: 'Failed', value: formatCount(failed), ...share(failed), ...(failed > 0 && { tone: 'bad' }) },
    { name: 'Unknown', value: formatCount(unknown), ...share(unknown), ...(unknown > 0 && { tone: 'doubtful' }) },
    ...(missed > 0
      ? [{ name: 'Got nothing', value: formatCount(missed), ...share(missed), tone: 'bad' as const }]
      : []),
    ...(pending > 0
      ? [
          {
            name: 'On their way',
            value: formatCount(pending),
            ...(stuck > 0 && { note: `${formatCount(stuck)} stuck`, tone: 'bad' as const }),
          },
        ]
      : []),
    { name: 'Owed', value: formatCount(owed), note: owed === 1 ? 'user' : 'users' },
    describeLastRun(figures, wording),
  ])
}

export function buildHeader(figures: Figures, wording: Wording): Html {
  const { alarms, status, madeAt } = figures
  return html`<p class="kicker">leadpush report · ${status.period} · ${wording.time(madeAt)} (${wording.timeZone})</p>
<h1>${buildHeadline(figures)}</h1>
${buildLead(figures)}
${
  alarms.length > 0 &&
  html`<ul class="alarms">${alarms.map((alarm) => html`<li>${withCode(sentenceOf(alarm))}</li>`)}</ul>
`
}${buildFigures(figures, wording)}`
}
