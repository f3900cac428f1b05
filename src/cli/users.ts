/** `leadpush users`: users in, shown, subscribed, unsubscribed, removed. */
import type { Command } from 'commander'
import type { OpenDatabase } from '../db/open.ts'
import type { RemovedHook } from '../integrations/hooks.ts'
import { type Act, type ExitCode, inShort, withDatabase } from './command.ts'
import type { Log } from './log.ts'
import { writeJson, writeLine, writeTable } from './output.ts'
import { paint } from './painted.ts'

interface JsonOption {
  json?: true
}

export function addUsers(program: Command, act: Act): void {
  const users = program.command('users').description('Import, list, subscribe, unsubscribe and remove users.')
  users
    .command('import')
    .description('Import users from NDJSON or a JSON array; - reads standard input. Sends nothing.')
    .argument('<file...>', 'files, taken in one after the other')
    .option('--rejects <file>', 'keep the rejected records in a file, as they came')
    .option('--json', 'print one JSON object a line')
    .addHelpText(
      'after',
      `
Examples:
  leadpush users import users.ndjson

A record: {"email":"user@example.com","receiverApiKey":"…","subscribed":true,
           "queries":[{"type":"zipcode","value":"78704","radius":25},
                      {"type":"text","value":"pool"}]}
A field that is left out keeps its value; queries that are given replace those
that the user had.`,
    )
    .action(act(importFiles))
  users
    .command('list')
    .description('Show the users and their queries, never a key.')
    .option('--json', 'print one JSON object a line')
    .addHelpText('after', '\nExamples:\n  leadpush users list\n  leadpush users list --json | wc -l')
    .action(act((_log: Log, options: JsonOption) => list(options)))
  users
    .command('subscribe')
    .description('Subscribe a user to the lead push. A user who was not subscribed gets the subscription push now.')
    .argument('<email>', 'the user')
    .option('--json', 'print one JSON object a line')
    .addHelpText('after', '\nExamples:\n  leadpush users subscribe user@example.com')
    .action(act(subscribe))
  users
    .command('unsubscribe')
    .description('End a subscription, and all that is owed by it and was not begun. Second attempts are still made.')
    .argument('<email>', 'the user')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  leadpush users unsubscribe user@example.com')
    .action(act((_log: Log, email: string, options: JsonOption) => unsubscribe(email, options)))
  users
    .command('remove')
    .description('Remove a user, end all that is owed to them, and revoke their integrations; the platforms are told.')
    .argument('<email>', 'the user')
    .option('--json', 'print one JSON object')
    .addHelpText('after', '\nExamples:\n  leadpush users remove user@example.com')
    .action(act((_log: Log, email: string, options: JsonOption) => remove(email, options)))
}

async function readDatabaseSettings() {
  const { processSource, readSettings } = await import('../base/config.ts')
  return readSettings(['databaseUrl', 'home', 'logFormat'], processSource())
}

async function importFiles(log: Log, files: string[], options: JsonOption & { rejects?: string }): Promise<ExitCode> {
  const settings = await readDatabaseSettings()
  const { findRecordFiles } = await import('../records/import-each.ts')
  const { importUsers, userFormats } = await import('../users/import.ts')
  const { runImport } = await import('./import-view.ts')
  findRecordFiles(files, userFormats)
  return await withDatabase(settings, { create: true }, async (opened) => {
    return await runImport(log, { ...options, files }, (how) => importUsers(opened, files, how))
  })
}

/** So many users are a table; more of them are lines, which need no look ahead. */
const tableUsersMax = 200

async function list({ json }: JsonOption): Promise<ExitCode> {
  return await withDatabase(await readDatabaseSettings(), inShort, async ({ db }) => {
    const { listUsers } = await import('../users/users.ts')
    let rows: string[][] = []
    const flush = async () => {
      const columns = [{ head: 'user', wide: true }, { head: 'subscribed' }, { head: 'queries', wide: true }]
      if (rows.length > 0) await writeTable(columns, rows)
      rows = []
    }
    let users = 0
    for await (const { email, subscribed, queries } of listUsers(db)) {
      users++
      if (json) await writeJson({ type: 'user', email, subscribed, queries })
      else rows.push([email, subscribed ? 'yes' : paint('dim', 'no'), queries.map(describeQuery).join('; ')])
      if (rows.length >= tableUsersMax) await flush()
    }
    await flush()
    if (users === 0 && !json) await writeLine('There are no users yet: `leadpush users import FILE` brings them in.')
    return 0
  })
}

const describeQuery = ({ value, radius }: { value: string; radius: number }) =>
  radius > 0 ? `${value} (${radius} mi)` : value

async function subscribe(log: Log, email: string, options: JsonOption): Promise<ExitCode> {
  const { readPushSettings, sendPush } = await import('./push/command.ts')
  const settings = await readPushSettings({})
  return await withDatabase(settings, inShort, async (opened) => {
    const { findUser, recordSubscription } = await import('../users/users.ts')
    const { user } = await findUser(opened.db, email)
    const { was, owed, tooSoon } = await recordSubscription(opened.db, user.id)
    if (options.json) await writeJson({ type: 'user', email: user.email, subscribed: true, was })
    else await writeLine(was ? `${user.email} is subscribed already.` : `${user.email} is subscribed.`)
    if (tooSoon && !owed) log.info('The last subscription push was less than a minute ago: no further one is sent.')
    return was || !owed ? 0 : await sendPush(log, opened, settings, { what: 'user', user, owed }, options)
  })
}

async function unsubscribe(email: string, { json }: JsonOption): Promise<ExitCode> {
  return await withDatabase(await readDatabaseSettings(), inShort, async (opened) => {
    const { findUser, recordUnsubscription } = await import('../users/users.ts')
    const { user } = await findUser(opened.db, email)
    await recordUnsubscription(opened.db, user.id)
    const ended = await endWhatNobodyWants(opened)
    if (json) await writeJson({ type: 'user', email: user.email, unsubscribed: true, ended })
    else await writeLine(`${user.email} is unsubscribed.${describeEnded(ended)}`)
    return 0
  })
}

async function remove(email: string, { json }: JsonOption): Promise<ExitCode> {
  const { processSource, readSettings } = await import('../base/config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'allowInsecureHooks', 'hookHosts', 'logFormat'],
    processSource(),
  )
  return await withDatabase(settings, inShort, async (opened) => {
    const { rideOut } = await import('../db/away.ts')
    const { findUser, removeUser } = await import('../users/users.ts')
    const { eraseAnswersOfUser } = await import('../deliveries/answers.ts')
    const { revokeIntegrationsOf } = await import('../integrations/integrations.ts')
    const { tellPlatforms, writeTold } = await import('./integrations.ts')
    const { user } = await findUser(opened.db, email)
    let removed: RemovedHook[] = []
    await rideOut(() =>
      opened.db.transaction().execute(async (transaction) => {
        const found = await revokeIntegrationsOf(transaction, user.id)
        // after a try whose answer was lost nothing is found any more
        if (found.length > 0) removed = found
        await eraseAnswersOfUser(transaction, user.id)
        await removeUser(transaction, user.id)
      }),
    )
    const ended = await endWhatNobodyWants(opened)
    const hooks = await tellPlatforms(settings, removed)
    if (json) await writeJson({ type: 'user', email: user.email, removed: true, ended, hooks })
    else {
      await writeLine(`${user.email} is removed.${describeEnded(ended)}`)
      await writeTold(hooks)
    }
    return 0
  })
}

const describeEnded = (ended: number) => (ended > 0 ? ' What was owed and not begun is ended.' : '')

async function endWhatNobodyWants({ db }: OpenDatabase): Promise<number> {
  const { rideOut } = await import('../db/away.ts')
  const { endAbandoned } = await import('../deliveries/ledger.ts')
  return (await rideOut(() => endAbandoned(db))).length
}
