/**
 * `leadpush users subscribe`, `unsubscribe` and `remove`. One e-mail: a user who does not exist is wrong usage. Several, or
 * standard input: each is done, a summary follows, and one who does not exist makes the exit code 1.
 */
import { plural } from '../../base/amounts.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { WhatGoes } from '../../inspect/user/what-goes.ts'
import type { ToldHook } from '../../integrations/hook-http.ts'
import type { RemovedHook } from '../../integrations/hooks.ts'
import type { UserToServe } from '../../push/users-to-serve.ts'
import type { FoundUser } from '../../users/users.ts'
import { type ExitCode, inShort, openSecrets, withDatabase } from '../command.ts'
import type { Log } from '../log.ts'
import { writeFacts, writeJson, writeLine } from '../output.ts'
import { isStopCode } from '../signals.ts'
import { findSingle, forEachUser } from './given.ts'

interface JsonOption {
  json?: true
}

/** So many subscription pushes make one run. */
const usersPerPush = 500

export async function subscribe(log: Log, given: string[], options: JsonOption): Promise<ExitCode> {
  const { readPushSettings, sendPush } = await import('../push/command.ts')
  const single = findSingle(given)
  const settings = await readPushSettings({})
  return await withDatabase(settings, { ...inShort, writes: true }, async (opened) => {
    const { findUser } = await import('../../users/users.ts')
    const toSend = { ...options, vault: await openSecrets(opened.db, settings) }
    const record = ({ user }: FoundUser) => recordAndTell(log, opened, user, options)
    if (single !== undefined) {
      const { user, isDue } = await record(await findUser(opened.db, single))
      return isDue ? await sendPush(log, opened, settings, { what: 'user', user, further: [], owed: true }, toSend) : 0
    }
    const counts = { subscribed: 0, already: 0 }
    let due: UserToServe[] = []
    let exitCode = 0
    const sendDue = async () => {
      const [user, ...further] = due
      due = []
      if (!user || isStopCode(exitCode)) return
      exitCode = Math.max(
        exitCode,
        await sendPush(log, opened, settings, { what: 'user', user, further, owed: true }, toSend),
      )
    }
    const { unknown } = await forEachUser(opened.db, given, options, async (found) => {
      const { user, was, isDue } = await record(found)
      counts[was ? 'already' : 'subscribed']++
      if (isDue && !due.some(({ id }) => id === user.id)) due.push(user)
      if (due.length >= usersPerPush) await sendDue()
    })
    await sendDue()
    return Math.max(exitCode, await end('users', { ...counts, unknown }, options))
  })
}

/** `isDue`: the subscription push is to be sent now. */
async function recordAndTell(log: Log, { db }: OpenDatabase, user: UserToServe, { json }: JsonOption) {
  const { recordSubscription } = await import('../../users/users.ts')
  const { was, owed, tooSoon } = await recordSubscription(db, user.id)
  if (json) await writeJson({ type: 'user', email: user.email, subscribed: true, was })
  else await writeLine(was ? `${user.email} is subscribed already.` : `${user.email} is subscribed.`)
  if (tooSoon && !owed) log.info('The last subscription push was less than a minute ago: no further one is sent.')
  return { user, was, isDue: !was && owed }
}

/** The line after several users, and the exit code: 1 if one does not exist. */
async function end(type: string, counts: Record<string, number>, { json }: JsonOption): Promise<ExitCode> {
  if (json) await writeJson({ type, ...counts })
  else await writeFacts(Object.entries(counts).map(([name, count]) => [name, plural(count, 'user')]))
  return counts.unknown === 0 ? 0 : 1
}

export async function unsubscribe(given: string[], options: JsonOption): Promise<ExitCode> {
  const { processSource, readSettings } = await import('../../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'databaseAwayMs', 'logFormat'], processSource())
  const single = findSingle(given)
  return await withDatabase(settings, { ...inShort, writes: true }, async (opened) => {
    const { findUser, recordUnsubscription } = await import('../../users/users.ts')
    if (single !== undefined) {
      const { id, email } = (await findUser(opened.db, single)).user
      await recordUnsubscription(opened.db, id)
      const ended = await endWhatNobodyWants(opened)
      if (options.json) await writeJson({ type: 'user', email, unsubscribed: true, ended })
      else await writeLine(`${email} is unsubscribed.${describeEnded(ended)}`)
      return 0
    }
    const counts = { unsubscribed: 0, already: 0 }
    const { unknown } = await forEachUser(opened.db, given, options, async ({ user, subscribed: was }) => {
      const { id, email } = user
      await recordUnsubscription(opened.db, id)
      counts[was ? 'unsubscribed' : 'already']++
      if (options.json) await writeJson({ type: 'user', email, unsubscribed: true, was })
      else await writeLine(`${email} is unsubscribed${was ? '' : ' already'}.`)
    })
    await endAndTell(opened, options)
    return await end('users', { ...counts, unknown }, options)
  })
}

async function endAndTell(opened: OpenDatabase, { json }: JsonOption): Promise<void> {
  const ended = await endWhatNobodyWants(opened)
  if (json) await writeJson({ type: 'ended', deliveries: ended })
  else if (ended > 0) await writeLine(describeEnded(ended).trim())
}

const describeEnded = (ended: number) => (ended > 0 ? ' What was owed and not begun is ended.' : '')

export async function endWhatNobodyWants({ db }: OpenDatabase): Promise<number> {
  const { rideOut } = await import('../../db/away.ts')
  const { endAbandoned } = await import('../../deliveries/ledger.ts')
  return (await rideOut(() => endAbandoned(db))).length
}

export async function remove(given: string[], options: JsonOption & { dryRun?: true }): Promise<ExitCode> {
  const { processSource, readSettings } = await import('../../base/config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'databaseAwayMs', 'allowInsecureHooks', 'hookHosts', 'logFormat'],
    processSource(),
  )
  const single = findSingle(given)
  return await withDatabase(settings, { ...inShort, writes: true }, async (opened) => {
    if (options.dryRun) return await tellWhatGoes(opened, given, single, options)
    const { tellPlatforms } = await import('../integrations.ts')
    if (single !== undefined) {
      const { findUser } = await import('../../users/users.ts')
      const { user } = await findUser(opened.db, single)
      const removed = await removeOne(opened, user.id)
      const ended = await endWhatNobodyWants(opened)
      await tellRemoved(user.email, await tellPlatforms(settings, removed), ended, options)
      return 0
    }
    let count = 0
    const { unknown } = await forEachUser(opened.db, given, options, async ({ user }) => {
      const removed = await removeOne(opened, user.id)
      count++
      await tellRemoved(user.email, await tellPlatforms(settings, removed), undefined, options)
    })
    await endAndTell(opened, options)
    return await end('users', { removed: count, unknown }, options)
  })
}

async function removeOne({ db }: OpenDatabase, userId: number): Promise<RemovedHook[]> {
  const { rideOut } = await import('../../db/away.ts')
  const { removeUser } = await import('../../users/users.ts')
  const { eraseAnswersOfUser } = await import('../../deliveries/answers.ts')
  const { revokeIntegrationsOf } = await import('../../integrations/integrations.ts')
  let removed: RemovedHook[] = []
  await rideOut(() =>
    db.transaction().execute(async (transaction) => {
      const found = await revokeIntegrationsOf(transaction, userId)
      // after a try whose answer was lost nothing is found any more
      if (found.length > 0) removed = found
      await eraseAnswersOfUser(transaction, userId)
      await removeUser(transaction, userId)
    }),
  )
  return removed
}

async function tellRemoved(
  email: string,
  hooks: readonly ToldHook[],
  ended: number | undefined,
  { json }: JsonOption,
): Promise<void> {
  const { writeTold } = await import('../integrations.ts')
  if (json) return await writeJson({ type: 'user', email, removed: true, ended, hooks })
  await writeLine(`${email} is removed.${describeEnded(ended ?? 0)}`)
  await writeTold(hooks)
}

/** `--dry-run`. */
async function tellWhatGoes(
  { db }: OpenDatabase,
  given: readonly string[],
  single: string | undefined,
  options: JsonOption,
): Promise<ExitCode> {
  const { findUser } = await import('../../users/users.ts')
  const { findWhatGoes } = await import('../../inspect/user/what-goes.ts')
  let users = 0
  const tell = async ({ user }: FoundUser) => {
    const goes = await findWhatGoes(db, user.id)
    users++
    if (options.json) await writeJson({ type: 'user', email: user.email, removed: false, dryRun: true, ...goes })
    else await writeLine(`${user.email}: ${describeGoes(goes)}.`)
  }
  const head = options.json ? [] : ['Nothing was removed. This would go:', '']
  if (single !== undefined) {
    const found = await findUser(db, single)
    await writeLine(...head)
    await tell(found)
    return 0
  }
  await writeLine(...head)
  const { unknown } = await forEachUser(db, given, options, tell)
  return await end('users', { removed: 0, known: users, unknown }, options)
}

function describeGoes({ queries, pending, owed, integrations, hooks, triggers }: WhatGoes): string {
  const parts = [
    plural(queries, 'query'),
    pending > 0 && `${plural(pending, 'delivery')} that would end`,
    owed && 'an owed subscription push',
    integrations > 0 && `${plural(integrations, 'integration')} with ${plural(hooks, 'hook')}`,
    triggers > 0 && plural(triggers, 'due trigger'),
  ]
  return ['the user', ...parts.filter((part) => part !== false)].join(', ')
}
