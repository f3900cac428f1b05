/** The page of a report, from its figures. Pure. The figures have no key and no contact of a lead. */
import { packageVersion } from '../../../base/package-root.ts'
import { buildDocument, buildSection } from '../../page/document.ts'
import { type Html, html } from '../../page/html.ts'
import { buildHatches } from '../../page/plot.ts'
import { buildTable } from '../../page/table.ts'
import { runsTable } from '../../status/tables.ts'
import type { Figures } from '../figures/find-figures.ts'
import { buildHeader, buildHeadline, isEmpty } from './headline.ts'
import { buildListings } from './listings.ts'
import { buildTroubles, hasTroubles } from './troubles.ts'
import { buildWeeks } from './weeks.ts'
import { createWording, type Wording } from './wording.ts'

const buildRuns = ({ runs }: Figures, { time }: Wording): Html =>
  buildSection({
    id: 'runs',
    title: 'The last runs',
    body: buildTable({ caption: 'The last runs', captionHidden: true, ...runsTable(runs, time) }),
  })

function buildFooter(figures: Figures, { time, timeZone }: Wording): Html {
  return html`<p>Made by leadpush ${packageVersion} on ${time(figures.madeAt)}; times are those of ${timeZone}.${hasTroubles(figures) && ' This page holds e-mail addresses of users: keep it as you keep those.'}</p>
`
}

export { buildHeadline }

/** One file of HTML. */
export function buildReport(figures: Figures, { timeZone }: { timeZone: string }): string {
  const wording = createWording(timeZone)
  const [troubles, weeks] = [buildTroubles(figures, wording), buildWeeks(figures, wording)]
  // parts that need somebody to act come first
  const troubled = hasTroubles(figures)
  return buildDocument({
    title: `leadpush report ${figures.status.period}`,
    header: buildHeader(figures, wording),
    main: isEmpty(figures)
      ? html``
      : html`${buildHatches()}${troubled ? [troubles, weeks] : [weeks, troubles]}${buildListings(figures, wording)}${figures.runs.length > 0 && buildRuns(figures, wording)}`,
    footer: buildFooter(figures, wording),
  })
}
