/** `leadpush leads list`, `leads show` and `leads count`: listings to look at. Contacts are shown only where they are asked for. */
import type { Command } from 'commander'
import { formatCount, plural, timeFormat } from '../../base/amounts.ts'
import type { ListedLead } from '../../inspect/listings/browse.ts'
import type { FieldChange, ShownLead } from '../../inspect/listings/show-lead.ts'
import type { Lead, LeadField } from '../../leads/lead.ts'
import { type Act, type ExitCode, settingsSource, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { parseCount, RepeatedOption } from '../options.ts'
import { paint } from '../painted.ts'

interface LookOptions {
  where?: string[]
  limit: number
  contacts?: true
  json?: true
}

const whereHelp = 'only listings with this; FIELD!=VALUE: without it; may be repeated'

export function addLooks(leads: Command, act: Act): void {
  leads
    .command('list')
    .description('Show listings, the most recently new or changed first.')
    .addOption(new RepeatedOption('--where <field=value>', whereHelp))
    .option('--limit <number>', 'so many at most', parseCount, 20)
    .option('--contacts', 'with the name, phone and e-mail address of the contact')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush leads list
  leadpush leads list --where city=Austin --where bedrooms!=1 --limit 100
  leadpush leads list --where contactPhone= --json

Values are compared as text, upper and lower case alike; what is unknown is the
empty text. postalCode, city, state, address and propertyType are looked up by
an index; a condition on another field reads all listings, until there are
enough.`,
    )
    .action(act(list))
  leads
    .command('show')
    .description('Show a listing: its states over time, where it lies, its search words, and whose queries match it.')
    .argument('<href>', 'the URL of the listing, as it was imported')
    .option('--contacts', 'with the name, phone and e-mail address of the contact')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  leadpush leads show https://listings.example/1')
    .action(act(show))
  leads
    .command('count')
    .description('Count the listings, of any age.')
    .addOption(new RepeatedOption('--where <field=value>', whereHelp))
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      '\nExamples:\n  leadpush leads count\n  leadpush leads count --where state=TX --where price!=',
    )
    .action(act(count))
}

const contactFields: ReadonlySet<LeadField> = new Set(['contactName', 'contactPhone', 'contactEmail'])

/** The fields of a lead as `--json` prints them. */
const shownFields = (lead: Lead, contacts: true | undefined): object =>
  Object.fromEntries(Object.entries(lead).filter(([name]) => contacts || !contactFields.has(name as LeadField)))

async function prepare(io: CommandIo, { where = [] }: LookOptions) {
  const { readSettings } = await import('../../base/config.ts')
  const { isLeadField } = await import('../../leads/lead.ts')
  const { parseWhere } = await import('../../leads/where.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'timeZone', 'maxLeadAgeMs', 'sameHouse', 'logFormat'],
    settingsSource(io),
  )
  return { settings, conditions: parseWhere(where, isLeadField), time: timeFormat(settings.timeZone) }
}

/** So many listings are a table; more of them are several. */
const tableRowsMax = 100

async function list(io: CommandIo, options: LookOptions): Promise<ExitCode> {
  const { settings, conditions, time } = await prepare(io, options)
  return await withDatabase(io, settings, {}, async ({ db }) => {
    const { listLeads } = await import('../../inspect/listings/browse.ts')
    let rows: string[][] = []
    let listed = 0
    const flush = async () => {
      if (rows.length > 0) await writeLeads(io, rows, options.contacts)
      rows = []
    }
    for await (const found of listLeads(db, conditions, options.limit)) {
      listed++
      const { lead, lastSeenAt, sources } = found
      if (options.json) {
        await io.out.json({ type: 'lead', ...shownFields(lead, options.contacts), lastSeenAt, sources })
      } else rows.push(toRow(found, options.contacts, time))
      if (rows.length >= tableRowsMax) await flush()
    }
    await flush()
    if (listed === 0 && !options.json) {
      await io.out.line(conditions.length > 0 ? 'No listing is like that.' : 'There are no listings yet.')
    }
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

async function writeLeads(io: CommandIo, rows: string[][], contacts: true | undefined): Promise<void> {
  await io.out.table(
    [
      { head: 'last seen' },
      { head: 'price', align: 'right' },
      { head: 'bed/bath' },
      { head: 'place', wide: true },
      ...(contacts ? [{ head: 'contact', wide: true }] : []),
      { head: 'href', wide: true },
    ],
    rows,
  )
}

async function count(io: CommandIo, options: LookOptions): Promise<ExitCode> {
  const { settings, conditions } = await prepare(io, options)
  return await withDatabase(io, settings, {}, async ({ db }) => {
    const { countLeads } = await import('../../inspect/listings/browse.ts')
    const { findPeriod } = await import('../../deliveries/runs.ts')
    const { seenSince } = await findPeriod(db, settings)
    const { leads, sameHouse } = await countLeads(db, conditions, { seenSince, sameHouse: settings.sameHouse })
    if (options.json) await io.out.json({ type: 'count', leads, sameHouse })
    else if (sameHouse === undefined) await io.out.line(plural(leads, 'listing'))
    else
      await io.out.line(
        `${plural(leads, 'listing')}, of which ${formatCount(sameHouse)} left out: another of the house counts`,
      )
    return 0
  })
}

async function show(io: CommandIo, href: string, options: LookOptions): Promise<ExitCode> {
  const { settings, time } = await prepare(io, options)
  return await withDatabase(io, settings, {}, async ({ db }) => {
    const { showLead } = await import('../../inspect/listings/show-lead.ts')
    const shown = await showLead(db, href)
    if (options.json) await io.out.json(toLine(shown, options.contacts))
    else await writeShown(io, shown, options.contacts, time)
    return 0
  })
}

/** A changed contact is named, and shown only where contacts are. */
const hide = (change: FieldChange, contacts: true | undefined): Partial<FieldChange> =>
  contacts || !contactFields.has(change.field) ? change : { field: change.field }

function toLine({ lead, lastSeenAt, sources, states, owners, ...rest }: ShownLead, contacts: true | undefined): object {
  const versions = states.map(({ since, changes }) => ({ since, changes: changes.map((each) => hide(each, contacts)) }))
  const { users, complete } = owners
  const fields = shownFields(lead, contacts)
  return { type: 'lead', ...fields, lastSeenAt, sources, ...rest, versions, users, usersComplete: complete }
}

const usersShown = 20
const wordsShown = 40
const valueCharsMax = 60

async function writeShown(
  io: CommandIo,
  shown: ShownLead,
  contacts: true | undefined,
  time: (at: Date | null) => string,
) {
  const { lead, lastSeenAt, sources, gone, importedAt, states, place, searchWords, words, owners } = shown
  const facts = Object.entries(shownFields(lead, contacts)).flatMap(([name, value]): [string, string][] =>
    value === null || value === 0 || name === 'schemaVersion' ? [] : [[name, io.out.wrap(String(value), 16)]],
  )
  const where =
    place.city === null ? 'in no table' : `${place.city}, ${place.state} (${place.latitude}, ${place.longitude})`
  await io.out.facts([
    ...facts,
    ['lies in', `${place.postalKey}, ${where}`],
    ['last seen', time(lastSeenAt)],
    ...(gone ? [['gone', 'no source has it any more, so it is not delivered'] as const] : []),
    ...(sources.length > 0 ? [['sources', sources.join(', ')] as const] : []),
    ['words', io.out.wrap(searchWords.slice(0, wordsShown).join(' ') + (words > wordsShown ? ' …' : ''), 16)],
  ])
  await io.out.line('', paint('bold', 'Over time'))
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
  await io.out.line('', paint('bold', `Matched by the queries of ${count}`))
  for (const { email, subscribed, query } of users.slice(0, usersShown)) {
    const radius = query.radius > 0 ? `, ${query.radius} mi` : ''
    const not = subscribed ? '' : paint('dim', ' (not subscribed)')
    await io.out.line(`  ${email}${not}  ${query.type} ${JSON.stringify(query.value)}${radius}`)
  }
  if (users.length > usersShown) await io.out.line(`  … ${formatCount(users.length - usersShown)} more with --json`)
  if (users.length > 0)
    await io.out.line('`leadpush explain --user EMAIL HREF` tells whether it is among those that are sent.')
}
