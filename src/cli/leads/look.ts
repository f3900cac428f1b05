/** Shows listings; contacts only with `--contacts`. */
import { formatCount, plural, timeFormat } from '../../base/amounts.ts'
import { numberColumns } from '../../base/table.ts'
import { findPeriod } from '../../deliveries/runs.ts'
import { countLeads, type ListedLead, listLeads } from '../../inspect/listings/browse.ts'
import { type FieldChange, type ShownLead, showLead } from '../../inspect/listings/show-lead.ts'
import { contactFields, isLeadField, type Lead, type LeadField } from '../../leads/lead.ts'
import { parseWhere } from '../../leads/where.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { paint } from '../painted.ts'

interface LookOptions {
  where?: string[]
  contacts?: true
}

const contactNames: ReadonlySet<LeadField> = new Set(contactFields)

/** The fields of a lead as `--json` prints them. */
const shownFields = (lead: Lead, contacts: true | undefined): object =>
  Object.fromEntries(Object.entries(lead).filter(([name]) => contacts || !contactNames.has(name as LeadField)))

export async function list(
  { io, open, readSettings }: AtDatabase<'timeZone'>,
  { where = [], limit, contacts }: LookOptions & { limit: number },
): Promise<ExitCode> {
  const time = timeFormat(readSettings().timeZone)
  const conditions = parseWhere(where, isLeadField)
  return await open(async ({ db }) => {
    await io.out.list(listLeads(db, conditions, limit), {
      columns: [
        { head: 'last seen' },
        ...numberColumns('price'),
        { head: 'bed/bath' },
        { head: 'place', wide: true },
        ...(contacts ? [{ head: 'contact', wide: true }] : []),
        { head: 'href', wide: true },
      ],
      toRows: (found) => [toRow(found, contacts, time)],
      toLine: ({ lead, ...seen }) => ({ type: 'lead', ...shownFields(lead, contacts), ...seen }),
      none: conditions.length > 0 ? 'No listing fits these conditions.' : 'There are no listings yet.',
    })
    return 0
  })
}

const unknown = '–'
const formatPrice = (price: number) => (price > 0 ? `$${formatCount(price)}` : unknown)
const contactOf = ({ contactName, contactPhone, contactEmail }: Lead) =>
  [contactName, contactPhone, contactEmail].filter(Boolean).join(', ') || unknown

function toRow({ lead, lastSeenAt }: ListedLead, contacts: true | undefined, time: (at: Date) => string): string[] {
  const { price, bedrooms, bathrooms, city, state, postalCode, href } = lead
  const rooms = [bedrooms, bathrooms].map((number) => (number > 0 ? String(number) : unknown)).join('/')
  const place = [city, state, postalCode].filter(Boolean).join(' ')
  return [time(lastSeenAt), formatPrice(price), rooms, place, ...(contacts ? [contactOf(lead)] : []), href]
}

export async function count(
  { io, open, readSettings }: AtDatabase<'timeZone' | 'maxLeadAgeMs' | 'sameHouse'>,
  { where = [] }: LookOptions,
): Promise<ExitCode> {
  readSettings()
  const conditions = parseWhere(where, isLeadField)
  return await open(async ({ db }, settings) => {
    const { seenSince } = await findPeriod(db, settings)
    const { leads, sameHouse } = await countLeads(db, conditions, { seenSince, sameHouse: settings.sameHouse })
    const others =
      sameHouse === undefined ? '' : `, of which ${formatCount(sameHouse)} left out: another of the house counts`
    await io.out.result({ type: 'count', leads, sameHouse }, `${plural(leads, 'listing')}${others}`)
    return 0
  })
}

export async function show(
  { io, open }: AtDatabase<'timeZone'>,
  href: string,
  { contacts }: LookOptions,
): Promise<ExitCode> {
  return await open(async ({ db }, { timeZone }) => {
    const shown = await showLead(db, href)
    await io.out.result(toLine(shown, contacts), () => writeShown(io, shown, contacts, timeFormat(timeZone)))
    return 0
  })
}

/** Names the field of a changed contact; the contact is shown only with `--contacts`. */
const hide = (change: FieldChange, contacts: true | undefined): Partial<FieldChange> =>
  contacts || !contactNames.has(change.field) ? change : { field: change.field }

function toLine({ lead, lastSeenAt, sources, states, owners, ...rest }: ShownLead, contacts: true | undefined): object {
  const versions = states.map(({ since, changes }) => ({ since, changes: changes.map((each) => hide(each, contacts)) }))
  const { users, complete } = owners
  const fields = shownFields(lead, contacts)
  return { type: 'lead', ...fields, lastSeenAt, sources, ...rest, versions, users, usersComplete: complete }
}

const usersShown = 20
const valueCharsMax = 60

async function writeShown(
  io: CommandIo,
  shown: ShownLead,
  contacts: true | undefined,
  time: (at: Date | null) => string,
) {
  const { lead, lastSeenAt, sources, gone, importedAt, states, place, owners } = shown
  const facts = Object.entries(shownFields(lead, contacts)).flatMap(([name, value]): [string, string][] =>
    value === null || value === 0 || name === 'schemaVersion' ? [] : [[name, io.out.wrap(String(value), 16)]],
  )
  const where =
    place.city === null ? 'in no table' : `${place.city}, ${place.state} (${place.latitude}, ${place.longitude})`
  await io.out.facts([
    ...facts,
    ['lies in', `${place.postalKey}, ${where}`],
    ['last seen', time(lastSeenAt)],
    gone && ['gone', 'no source has it any more, so it is not delivered'],
    sources.length > 0 && ['sources', sources.join(', ')],
  ])
  await io.out.title('Over time')
  for (const { since, changes } of states) {
    const what = changes.map((change) => describeChange(hide(change, contacts))).join(', ')
    await io.out.line(
      `  ${io.out.wrap(`${since === null ? 'long ago' : time(since)}  ${what || (since === null ? 'or later, as it is' : 'first seen so')}`, 4)}`,
    )
  }
  if (shown.moreVersions) await io.out.line('  … earlier ones are not shown')
  else if (importedAt === null) await io.out.line('  It came in long ago.')
  await writeUsers(io, owners)
}

function describeChange({ field, from, to }: Partial<FieldChange>): string {
  if (to === undefined) return `${field} changed`
  const show = (value: string | number | null | undefined) => {
    const text = value === null || value === undefined || value === 0 ? 'unknown' : String(value)
    return text.length > valueCharsMax ? `${text.slice(0, valueCharsMax)}…`.toWellFormed() : text
  }
  return `${field} ${show(from)} → ${show(to)}`
}

async function writeUsers(io: CommandIo, { users, complete }: ShownLead['owners']): Promise<void> {
  const count = `${complete ? '' : 'at least '}${plural(users.length, 'user')}`
  await io.out.title(`Matched by the queries of ${count}`)
  for (const { email, subscribed, query } of users.slice(0, usersShown)) {
    const radius = query.radius > 0 ? `, ${query.radius} mi` : ''
    const not = subscribed ? '' : paint('dim', ' (not subscribed)')
    await io.out.line(`  ${email}${not}  ${query.type} ${JSON.stringify(query.value)}${radius}`)
  }
  await io.out.more(users.length - usersShown)
  if (users.length > 0)
    await io.out.line('`leadpush explain --user EMAIL HREF` tells whether it is among those that are sent.')
}
