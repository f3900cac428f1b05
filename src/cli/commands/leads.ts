/** `leadpush leads`: listings in, to look at, and out for good. */
import { usageError } from '../../base/errors.ts'
import {
  argument,
  countOption,
  describe,
  describeGroup,
  dryRun,
  jsonLines,
  jsonObject,
  option,
  RepeatedOption,
} from '../describe.ts'
import { exclude, goesWith, someOf } from '../rules.ts'
import { triggerSettings } from '../trigger/settings.ts'
import { recordOptions } from './record-options.ts'

/** Whether so many records may be rejected, of those read: `20`, or `2%`. */
type Tolerates = (rejected: number, read: number) => boolean

function tolerate() {
  const flag = option('--tolerate <n>', 'so many rejected records, or 2% of those read, leave the exit code at 0')
  return flag.argParser((text): Tolerates => {
    const [, share, count] = /^(?:(\d{1,3}(?:\.\d+)?)%|(\d{1,15}))$/.exec(text.trim()) ?? []
    if (count !== undefined) return (rejected) => rejected <= Number(count)
    if (share !== undefined && Number(share) <= 100) return (rejected, read) => 100 * rejected <= Number(share) * read
    throw usageError(
      `--tolerate: holds ${JSON.stringify(text)}; allowed: a number of records such as 20, or a share from 0% to 100%`,
    )
  })
}

const imports = describe({
  name: 'import',
  about: 'Import listings from NDJSON, JSON or CSV, each also with .gz; - reads standard input.',
  arguments: [argument('<file...>', 'files, taken in one after the other')],
  options: [
    ...recordOptions,
    dryRun('show what the import would do, and write nothing'),
    option('--rejects <file>', 'keep the rejected records in a file, as they came'),
    tolerate(),
    option('--source <name>', 'the source of the listings: a name of letters, digits, dots, hyphens, underscores'),
    option('--complete', 'with --source: the files have all its listings; others are no longer delivered'),
    option(
      '--accept',
      'with --complete: even with fewer than half of its live listings, or a rejected record without an href',
    ),
    option('--trigger', 'send the triggers of new listings right after, as `leadpush trigger` does'),
    jsonLines(),
  ],
  help: `
Examples:
  leadpush leads import listings.ndjson
  leadpush leads import listings.csv --map href=url --map postalCode=zip
  leadpush leads import mls.csv --map-file mls.map --where status=Open --dry-run
  leadpush leads import old.csv --encoding windows-1252 --tolerate 1%
  leadpush leads import listings.csv --null n/a --null TBD --strict
  zcat *.ndjson.gz | leadpush leads import - --rejects rejected.ndjson
  leadpush leads import all-1.csv all-2.csv --source mls --complete

If your columns have other names, run the import without --map: it prints the
options to use. Importing the same file again changes nothing. An unknown value
never overwrites a known one. Numbers are read as people write them ($350,000,
350K, 1,850 sqft); a doubtful one is unknown, and counted. A listing that left
its sources is not delivered until one of them has it again.`,
  rules: [
    exclude(['--trigger', '--dry-run'], 'One sends, and the other only looks.'),
    goesWith('--complete', '--source', 'Give --source NAME: only the listings of that source can be gone.'),
    goesWith('--accept', '--complete'),
  ],
  settings: ({ trigger }: { trigger?: true }) => [...(['maxLeadAgeMs'] as const), ...(trigger ? triggerSettings : [])],
  database: 'works',
  work: async () => (await import('../leads/import.ts')).importFiles,
})

const where = new RepeatedOption(
  '--where <field=value>',
  'only listings with this value, or FIELD!=VALUE without it; may be repeated',
)
const contacts = option('--contacts', 'with the name, phone and e-mail address of the contact')

const list = describe({
  name: 'list',
  about: 'Show listings, the most recently new or changed first.',
  options: [where, countOption('--limit <number>', 'the most to show').default(20), contacts, jsonLines()],
  help: `
Examples:
  leadpush leads list
  leadpush leads list --where city=Austin --where bedrooms!=1 --limit 100
  leadpush leads list --where contactPhone= --json

Values are compared as text, in any case; an unknown value is the empty text. An
index finds postalCode, city, state, address and propertyType; a condition on
another field reads all listings, until there are enough.`,
  settings: ['timeZone'],
  database: 'reads long',
  work: async () => (await import('../leads/look.ts')).list,
})

const show = describe({
  name: 'show',
  about: 'Show a listing: its history, its place, and the users whose queries match it.',
  arguments: [argument('<href>', 'the URL of the listing, as it was imported')],
  options: [contacts, jsonObject()],
  help: '\nExamples:\n  leadpush leads show https://listings.example/1',
  settings: ['timeZone'],
  database: 'reads long',
  work: async () => (await import('../leads/look.ts')).show,
})

const count = describe({
  name: 'count',
  about: 'Count the listings, of any age.',
  options: [where, jsonObject()],
  help: '\nExamples:\n  leadpush leads count\n  leadpush leads count --where state=TX --where price!=',
  settings: ['timeZone', 'maxLeadAgeMs', 'sameHouse'],
  database: 'reads long',
  work: async () => (await import('../leads/look.ts')).count,
})

const forget = describe({
  name: 'forget',
  about: 'Erase a listing, all listings with a contact, or those on a list, and keep them out of later imports.',
  options: [
    option('--href <url>', 'the listing with this href; - reads it from standard input'),
    option('--contact <text>', 'all listings with this e-mail address or phone number; - reads it from standard input'),
    option('--list <file>', 'a file with a URL, an e-mail address or a phone number a line; - is standard input'),
    option('--drop <file...>', "consumer deletion lists of California's Delete Request and Opt-out Platform"),
    option('--response <dir>', 'with --drop: write a file to upload for each list into this folder'),
    option('--redact', 'keep the listings and drop their contacts, in later records too'),
    dryRun('erase nothing; show what would be erased'),
    option('--json', 'print one JSON object, and one for each response'),
  ],
  help: `
Examples:
  leadpush leads forget --href https://listings.example/1
  leadpush leads forget --contact - < contact.txt
  leadpush leads forget --list erase.txt --dry-run
  leadpush leads forget --drop 20260801_1234_*.csv --response responses
  leadpush leads forget --contact - --redact < contact.txt

The list of processes and the history of the shell show a contact on the command
line: give - instead, and it is read from standard input. leadpush keeps only a
keyed hash, which recognises the contact in later imports.`,
  rules: [
    exclude(['--href', '--contact', '--list', '--drop'], 'Give one of them.'),
    someOf(['--href', '--contact', '--list', '--drop'], 'What shall be erased?'),
    goesWith('--response', '--drop'),
    exclude(['--response', '--dry-run']),
  ],
  database: 'works',
  work: async () => (await import('../leads/forget.ts')).forget,
})

export const leads = describeGroup({
  name: 'leads',
  about: 'Import listings, look at them, and erase them.',
  commands: [imports, list, show, count, forget],
})
