/** `leadpush users`: users in and out, shown, subscribed, unsubscribed, removed, forgotten. */
import { argument, describe, describeGroup, dryRun, jsonLines, jsonObject, option } from '../describe.ts'
import { pushNeeds, pushSettings } from '../push/settings.ts'
import { exclude, goesWith } from '../rules.ts'
import { mapOptions } from './record-options.ts'

const imports = describe({
  name: 'import',
  about: 'Import users from NDJSON, a JSON array or CSV; - reads standard input. Sends nothing.',
  arguments: [argument('<file...>', 'files, taken in one after the other')],
  options: [
    option('--complete', 'the files have all users: unsubscribe those who are in none of them'),
    option(
      '--accept',
      'with --complete: even with fewer than half of those subscribed, or a rejected record without an e-mail',
    ),
    ...mapOptions,
    dryRun('show what the import would do, and write nothing'),
    option('--rejects <file>', 'keep the rejected records in a file, as they came'),
    jsonLines(),
  ],
  help: `
Examples:
  leadpush users import users.ndjson
  leadpush users import users.csv --complete      the whole export, nightly
  leadpush users import users.csv --complete --dry-run
  leadpush users import crm.csv --map receiverApiKey='API key' --map value=ZIP

A record: {"email":"user@example.com","receiverApiKey":"…","subscribed":true,
           "queries":[{"type":"zipcode","value":"78704","radius":25},
                      {"type":"text","value":"pool"}]}
A field that is left out keeps its value. Given queries replace the user's.

CSV has a line for each query; lines with one e-mail are one user. Its columns,
in any order and case: email, receiverApiKey, subscribed (true, yes, y, 1, on or
the opposite), type, value, radius. An empty cell keeps the value. Without a
type a postal code is a zipcode, any other value a text. A line that cannot be
read rejects its user. If your columns have other names, run the import without
--map: it prints the options to use.`,
  rules: [goesWith('--accept', '--complete')],
  settings: ['secretKey'],
  database: 'works',
  work: async () => (await import('../users/import.ts')).importFiles,
})

const exports = describe({
  name: 'export',
  about: 'Print all users with their queries, in the form that `users import` reads.',
  options: [
    option('--csv', 'print CSV, a line for each query'),
    option('--keys', 'with the receiver keys; asks on a terminal'),
    option('--yes', 'with --keys: do not ask'),
    jsonLines(),
  ],
  help: `
Examples:
  leadpush users export > users.ndjson
  leadpush users export --csv > users.csv
  (umask 077; leadpush users export --keys --yes > users-with-keys.ndjson)

Users come in the order of the bytes of their e-mails. A new user needs a key:
without --keys the file changes users who are known, and inserts nobody. A user
whom CSV cannot hold, since a value begins with = + - @ or has a line break or
blanks around it, is told and left out, with exit code 1.`,
  rules: [exclude(['--csv', '--json']), goesWith('--yes', '--keys')],
  settings: ['secretKey'],
  database: 'reads long',
  work: async () => (await import('../users/export.ts')).exportAll,
})

const list = describe({
  name: 'list',
  about: 'Show the users and their queries, never a key.',
  options: [jsonLines()],
  help: '\nExamples:\n  leadpush users list\n  leadpush users list --json | wc -l',
  database: 'reads',
  work: async () => (await import('../users/list.ts')).list,
})

const show = describe({
  name: 'show',
  about: 'Show a user: queries, subscription, owed and last deliveries, integrations; never the key.',
  arguments: [argument('<email>', 'the user')],
  options: [jsonObject()],
  help: '\nExamples:\n  leadpush users show user@example.com',
  settings: ['timeZone', 'maxLeadAgeMs', 'guard', 'keepAnswers'],
  database: 'reads',
  work: async () => (await import('../users/show.ts')).show,
})

const emails = [argument('<email...>', 'the users; - reads them from standard input')]

/** Below a command that changes each of several users in the same way. */
const helpOf = (name: string) => `
Examples:
  leadpush users ${name} user@example.com
  leadpush users ${name} - < emails.txt

Name several users, or give - and their e-mails on standard input, one a line:
each is done, and a summary follows. If a user does not exist, the exit code is
1, or 2 if it is the only one.`

const subscribe = describe({
  name: 'subscribe',
  about: 'Subscribe users to the lead push. Users who were not subscribed get the subscription push now.',
  arguments: emails,
  options: [jsonLines()],
  help: helpOf('subscribe'),
  settings: pushSettings,
  needs: pushNeeds,
  database: 'changes',
  work: async () => (await import('../users/change.ts')).subscribe,
})

const unsubscribe = describe({
  name: 'unsubscribe',
  about: 'End a subscription and its owed deliveries that are not begun. Second attempts are still made.',
  arguments: emails,
  options: [jsonLines()],
  help: helpOf('unsubscribe'),
  database: 'changes',
  work: async () => (await import('../users/change.ts')).unsubscribe,
})

const remove = describe({
  name: 'remove',
  about: 'Remove users, end their owed deliveries, and revoke their integrations; the platforms are told.',
  arguments: emails,
  options: [jsonLines(), dryRun('remove nobody; show what would be removed')],
  help: helpOf('remove'),
  settings: ['allowInsecureHooks', 'hookHosts'],
  database: 'changes',
  work: async () => (await import('../users/change.ts')).remove,
})

const forget = describe({
  name: 'forget',
  about: 'Remove users for good: later imports leave their records out, and count them as erased.',
  arguments: [argument('<email...>', 'the users; - reads them from standard input')],
  options: [jsonLines(), dryRun('forget nobody; show what would be removed')],
  help: `
Examples:
  leadpush users forget user@example.com
  leadpush users forget - < emails.txt

It does what \`users remove\` does, and keeps a keyed hash of the e-mail, which
recognises it in later imports; there is no way back. The e-mail of nobody is
kept out all the same, with exit code 1. The history of the shell keeps an
e-mail of the command line: give - instead, and e-mails on standard input.`,
  settings: ['allowInsecureHooks', 'hookHosts'],
  database: 'works',
  work: async () => (await import('../users/change.ts')).forget,
})

export const users = describeGroup({
  name: 'users',
  about: 'Import, export, list, subscribe, unsubscribe, remove and forget users.',
  commands: [imports, exports, list, show, subscribe, unsubscribe, remove, forget],
})
