/** The page of a dry run, from its facts. Pure. */
import { formatCount, plural, timeFormat } from '../../base/amounts.ts'
import { leadsPerQueryMax } from '../../base/limits.ts'
import { packageVersion } from '../../base/package-root.ts'
import { type Cell, counted, numberColumns } from '../../base/table.ts'
import { buildDocument, buildHeader, buildSection } from '../page/document.ts'
import { type Html, html, withCode } from '../page/html.ts'
import { buildTable } from '../page/table.ts'
import type { DryRun } from './find-dry-run.ts'
import type { DryQuery } from './queries.ts'
import { buildHeadline, describeKind, findAlarms } from './wording.ts'

const nameCharsMax = 100
/** A longer one is left out: the page stays small. */
const linkCharsMax = 500

/** Cuts a text to `nameCharsMax` characters, with an ellipsis as the last one. */
export function clip(text: string): string {
  const characters = [...text.slice(0, nameCharsMax * 2 + 2)]
  if (characters.length <= nameCharsMax) return text
  return `${characters
    .slice(0, nameCharsMax - 1)
    .join('')
    .trimEnd()}…`
}

/** `78704, 25 miles`. */
function nameQuery({ value, radius, kind }: DryQuery): string {
  if (kind === 'words') return `${clip(value)} (words)`
  return radius === 0 ? clip(value) : `${clip(value)}, ${radius} ${radius === 1 ? 'mile' : 'miles'}`
}

/** `isOpen`: the count was not finished. */
const atLeast = (value: number, isOpen: boolean): Cell =>
  isOpen ? { text: value === 0 ? 'not counted' : `${formatCount(value)} or more`, sort: value } : counted(value)

const buildQueries = ({ queries }: DryRun): Html =>
  buildSection({
    id: 'queries',
    title: 'The queries',
    intro: `A query brings the newest ${leadsPerQueryMax} of its matches, by the time when a listing came or last changed; a listing that two queries match goes with the first.`,
    body: buildTable({
      caption: 'What each query brings',
      captionHidden: true,
      columns: [
        { head: 'query' },
        { head: 'searches for', wide: true },
        ...numberColumns('matches', 'sent', 'repeats', 'too old', 'cut off'),
      ],
      rows: queries.map((query, at) => [
        { text: String(at + 1), sort: at + 1 },
        nameQuery(query),
        atLeast(query.matching, query.hasMore),
        counted(query.sent),
        counted(query.repeats),
        atLeast(query.tooOld ?? 0, query.tooOld === null),
        atLeast(Math.max(0, query.matching - leadsPerQueryMax), query.hasMore),
      ]),
    }),
  })

type Shown = DryRun['shown'][number]

function nameLead({ address, secondAddress, city, state, postalCode, fullAddress }: Shown): string {
  if (address === null && fullAddress !== null) return fullAddress
  // many sources write the unit in both lines
  const isTwice = secondAddress !== null && address?.toLowerCase().endsWith(secondAddress.toLowerCase())
  const street = [address, !isTwice && secondAddress].filter(Boolean).join(' ')
  return [street, city, [state, postalCode].filter(Boolean).join(' ')].filter(Boolean).join(', ')
}

/** Says only whether there is a contact. */
const describeContact = ({ hasName, hasPhone, hasEmail }: Shown) =>
  [hasName && 'name', hasPhone && 'phone', hasEmail && 'e-mail'].filter(Boolean).join(', ') || 'none'

const known = (value: number, unit = ''): Cell =>
  value > 0 ? { text: `${unit}${formatCount(value)}`, sort: value } : { text: '', sort: '' }

function buildListings({ shown, leads }: DryRun, time: (at: Date | null) => string): Html {
  const more = leads - shown.length
  return buildSection({
    id: 'listings',
    title: 'The listings',
    intro: `The newest first.${more > 0 ? ` These are ${formatCount(shown.length)} of ${formatCount(leads)}.` : ''} A link leads to the page that the listing was found on.`,
    body: buildTable({
      caption: 'The listings',
      captionHidden: true,
      columns: [
        { head: 'listing', wide: true },
        ...numberColumns('price', 'beds', 'baths', 'sq ft', 'query'),
        { head: 'first seen' },
        { head: 'contact' },
      ],
      rows: shown.map((lead) => [
        { text: clip(nameLead(lead)), ...(lead.href.length <= linkCharsMax && { href: lead.href }) },
        known(lead.price, '$'),
        ...[lead.bedrooms, lead.bathrooms, lead.sqft, lead.query].map((value) => known(value)),
        time(lead.importedAt).slice(0, 10),
        describeContact(lead),
      ]),
      ...(more > 0 && { more: `${plural(more, 'listing')} more: \`preview --user … --body\` prints all of them.` }),
    }),
  })
}

/** One file of HTML, at most some 3 MB. */
export function buildDryRunPage(run: DryRun, timeZone: string): string {
  const time = timeFormat(timeZone)
  return buildDocument({
    title: `leadpush preview: ${run.user}`,
    header: buildHeader({
      kicker: `leadpush preview · ${run.period} · ${time(run.madeAt)} (${timeZone})`,
      headline: buildHeadline(run),
      lead: html`<p class="lead">${withCode(describeKind(run, time))} Nothing was sent.</p>`,
      alarms: findAlarms(run, time),
    }),
    main: html`${run.queries.length > 0 && buildQueries(run)}${run.leads > 0 && buildListings(run, time)}`,
    footer: html`<p>Made by leadpush ${packageVersion}; times are those of ${timeZone}. Contacts of listings are left out: the page says no more than which of them a listing has. It holds the e-mail address ${run.user} and listings: keep it as you keep those.</p>
`,
  })
}
