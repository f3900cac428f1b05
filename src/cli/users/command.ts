/** `leadpush users`: users in, shown, subscribed, unsubscribed, removed. */
import type { Command } from 'commander'
import type { SettingName } from '../../base/config.ts'
import type { ListedUser } from '../../users/users.ts'
import { type Act, type ExitCode, inShort, openSecrets, settingsSource, usageError, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { withImportDatabase } from '../import-database.ts'
import { toJsonLine } from '../output.ts'
import { paint } from '../painted.ts'
import { commandThatFits, encodingOption, mapFileOption, mapOption } from '../record-options.ts'

interface JsonOption {
  json?: true
}

export function addUsers(program: Command, act: Act): void {
  const users = program.command('users').description('Import, list, subscribe, unsubscribe and remove users.')
  users
    .command('import')
    .description('Import users from NDJSON, a JSON array or CSV; - reads standard input. Sends nothing.')
    .argument('<file...>', 'files, taken in one after the other')
    .option('--complete', 'the files are all users there are: unsubscribe those who are in none of them')
    .option('--accept', 'with --complete: even if the files have fewer than half of the subscribed users')
    .addOption(mapOption())
    .addOption(mapFileOption())
    .addOption(encodingOption())
    .option('--dry-run', 'tell what the import would do, and write nothing')
    .option('--rejects <file>', 'keep the rejected records in a file, as they came')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
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
    )
    .action(act(importFiles))
  users
    .command('list')
    .description('Show the users and their queries, never a key.')
    .option('--json', 'print one JSON object a line')
    .addHelpText('after', '\nExamples:\n  leadpush users list\n  leadpush users list --json | wc -l')
    .action(act(list))
  users
    .command('show')
    .description('Show a user: queries, subscription, what is owed, the last deliveries, integrations; never the key.')
    .argument('<email>', 'the user')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  leadpush users show user@example.com')
    .action(
      act(async (io: CommandIo, email: string, options: JsonOption) => {
        const { show } = await import('./show.ts')
        return await show(io, email, options)
      }),
    )
  addChanges(users, act)
}

const several = `
Name several users, or give - and their e-mails on standard input, one a line:
each is done, and a summary follows. If a user does not exist, the exit code is
1, or 2 if it is the only one.`

/** A command that changes each of several users in the same way. */
function addChange(users: Command, name: string, description: string): Command {
  const examples = [`users ${name} user@example.com`, `users ${name} - < emails.txt`]
  return users
    .command(name)
    .description(description)
    .argument('<email...>', 'the users; - reads them from standard input')
    .option('--json', 'print one JSON object a line')
    .addHelpText('after', `\nExamples:\n${examples.map((line) => `  leadpush ${line}\n`).join('')}${several}`)
}

function addChanges(users: Command, act: Act): void {
  addChange(
    users,
    'subscribe',
    'Subscribe users to the lead push. Who was not subscribed gets the subscription push now.',
  ).action(
    act(async (io: CommandIo, emails: string[], options: JsonOption) => {
      const { subscribe } = await import('./change.ts')
      return await subscribe(io, emails, options)
    }),
  )
  addChange(
    users,
    'unsubscribe',
    'End a subscription, and all that is owed by it and was not begun. Second attempts are still made.',
  ).action(
    act(async (io: CommandIo, emails: string[], options: JsonOption) => {
      const { unsubscribe } = await import('./change.ts')
      return await unsubscribe(io, emails, options)
    }),
  )
  addChange(
    users,
    'remove',
    'Remove users, end all that is owed to them, and revoke their integrations; the platforms are told.',
  )
    .option('--dry-run', 'remove nobody: tell what would go')
    .action(
      act(async (io: CommandIo, emails: string[], options: JsonOption & { dryRun?: true }) => {
        const { remove } = await import('./change.ts')
        return await remove(io, emails, options)
      }),
    )
}

async function readDatabaseSettings<const K extends SettingName = never>(io: CommandIo, more: readonly K[] = []) {
  const { readSettings } = await import('../../base/config.ts')
  return readSettings(['databaseUrl', 'home', 'logFormat', ...more], settingsSource(io))
}

type UserImportOptions = JsonOption & {
  rejects?: string
  complete?: true
  accept?: true
  encoding?: string
  map?: string[]
  mapFile?: string
  dryRun?: true
}

async function importFiles(
  io: CommandIo,
  files: string[],
  options: UserImportOptions,
  command: Command,
): Promise<ExitCode> {
  const settings = await readDatabaseSettings(io, ['databaseAwayMs', 'secretKey'])
  const { findRecordFiles } = await import('../../records/import-each.ts')
  const { importUsers, userFormats } = await import('../../users/import.ts')
  const { runImport } = await import('../import-view.ts')
  const { endWhatNobodyWants } = await import('./change.ts')
  const { checkEncoding } = await import('../../records/encoding.ts')
  const { userMaps } = await import('../../users/field-map.ts')
  const { complete, accept, dryRun } = options
  const encoding = options.encoding === undefined ? undefined : checkEncoding(options.encoding)
  if (accept && !complete) throw usageError('--accept goes with --complete: it overrules its guard.')
  findRecordFiles(files, userFormats)
  const reading = { map: userMaps.read(options), commandThatFits: commandThatFits('users import', files, command) }
  return await withImportDatabase(io, settings, options, async (opened) => {
    const vault = await openSecrets(opened.db, settings, { begins: !dryRun })
    let unsubscribed = 0
    const imported = await runImport(io, { ...options, files }, async (how) => {
      const ways = { ...reading, vault, complete, accept, encoding, isDryRun: dryRun }
      const outcome = await importUsers(opened, files, { ...how, ...ways })
      unsubscribed = outcome.summary.unsubscribed
      return outcome
    })
    if (unsubscribed > 0 && !dryRun) await endWhatNobodyWants(opened)
    return imported
  })
}

/** So many users are a table; more of them are lines, which need no look ahead. */
const tableUsersMax = 200

async function list(io: CommandIo, { json }: JsonOption): Promise<ExitCode> {
  return await withDatabase(io, await readDatabaseSettings(io), inShort, async ({ db }) => {
    const { listUsers } = await import('../../users/users.ts')
    const { oneAhead } = await import('../../base/one-ahead.ts')
    const columns = [{ head: 'user', wide: true }, { head: 'subscribed' }, { head: 'queries', wide: true }]
    const toRow = ({ email, subscribed, queries }: ListedUser) => [
      email,
      subscribed ? 'yes' : paint('dim', 'no'),
      queries.map(describeQuery).join('; '),
    ]
    let rows: string[][] = []
    let users = 0
    for await (const page of oneAhead(listUsers(db))) {
      users += page.length
      if (json) await io.out.write(page.map((user) => toJsonLine({ type: 'user', ...user })).join(''))
      else rows.push(...page.map(toRow))
      for (; rows.length >= tableUsersMax; rows = rows.slice(tableUsersMax))
        await io.out.table(columns, rows.slice(0, tableUsersMax))
    }
    if (rows.length > 0) await io.out.table(columns, rows)
    if (users === 0 && !json) await io.out.line('There are no users yet: `leadpush users import FILE` brings them in.')
    return 0
  })
}

const describeQuery = ({ value, radius }: { value: string; radius: number }) =>
  radius > 0 ? `${value} (${radius} mi)` : value
