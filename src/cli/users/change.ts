/**
 * `leadpush users subscribe`, `unsubscribe` and `remove`. One e-mail: a user who does not exist is wrong usage. Several, or
 * standard input: each is done, a summary follows, and one who does not exist makes the exit code 1.
 */
import { plural } from '../../base/amounts.ts'
import type { OpenDatabase } from '../../db/open.ts'
import type { WhatGoes } from '../../inspect/user/what-goes.ts'
import type { ToldHook } from '../../integrations/hook-http.ts'
import type { RemovedHook } from '../../integrations/hooks.ts'
import type { UserToServe } from '../../push/whom/pass.ts'
import type { FoundUser } from '../../users/users.ts'
import { type ExitCode, inShort, openSecrets, settingsSource, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import type { StopCode } from '../signals.ts'
import { findSingle, forEachUser } from './given.ts'

interface JsonOption {
  json?: true
}

/** So many subscription pushes make one run. */
const usersPerPush = 500

export async function subscribe(io: CommandIo, given: string[], options: JsonOption): Promise<ExitCode> {
  const { readPushSettings, sendPush } = await import('../push/command.ts')
  const single = findSingle(given)
  const settings = await readPushSettings(io, {})
  return await withDatabase(io, settings, { ...inShort, writes: true }, async (opened) => {
    const { findUser } = await import('../../users/users.ts')
    const toSend = { ...options, vault: await openSecrets(opened.db, settings) }
    const record = ({ user }: FoundUser) => recordAndTell(io, opened, user, options)
    if (single !== undefined) {
      const { user, isDue } = await record(await findUser(opened.db, single))
      return isDue ? await sendPush(io, opened, settings, { what: 'user', user, further: [], owed: true }, toSend) : 0
    }
    const counts = { subscribed: 0, already: 0 }
    let due: UserToServe[] = []
    let exitCode = 0
    const sendDue = async () => {
      const [user, ...further] = due
      due = []
      if (!user) return
      exitCode = Math.max(
        exitCode,
        await sendPush(io, opened, settings, { what: 'user', user, further, owed: true }, toSend),
      )
    }
    const { unknown, stopCode } = await forEachUser(io, opened.db, given, options, async (found) => {
      const { user, was, isDue } = await record(found)
      counts[was ? 'already' : 'subscribed']++
      if (isDue && !due.some(({ id }) => id === user.id)) due.push(user)
      if (due.length >= usersPerPush) await sendDue()
    })
    // what is due stays owed after a stop
    if (stopCode === undefined) await sendDue()
    return Math.max(exitCode, await end(io, 'users', { ...counts, unknown }, stopCode, options))
  })
}

/** `isDue`: the subscription push is to be sent now. */
async function recordAndTell(io: CommandIo, { db }: OpenDatabase, user: UserToServe, { json }: JsonOption) {
  const { recordSubscription } = await import('../../users/users.ts')
  const { was, owed, tooSoon } = await recordSubscription(db, user.id)
  if (json) await io.out.json({ type: 'user', email: user.email, subscribed: true, was })
  else await io.out.line(was ? `${user.email} is subscribed already.` : `${user.email} is subscribed.`)
  if (tooSoon && !owed) io.log.info('The last subscription push was less than a minute ago: no further one is sent.')
  return { user, was, isDue: !was && owed }
}

/** The line after several users, and the exit code: that of a stop, or 1 if one does not exist. */
async function end(
  io: CommandIo,
  type: string,
  counts: Record<string, number>,
  stopCode: StopCode | undefined,
  { json }: JsonOption,
): Promise<ExitCode> {
  if (json) await io.out.json({ type, ...counts })
  else await io.out.facts(Object.entries(counts).map(([name, count]) => [name, plural(count, 'user')]))
  return stopCode ?? (counts.unknown === 0 ? 0 : 1)
}

export async function unsubscribe(io: CommandIo, given: string[], options: JsonOption): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const settings = readSettings(['databaseUrl', 'home', 'databaseAwayMs', 'logFormat'], settingsSource(io))
  const single = findSingle(given)
  return await withDatabase(io, settings, { ...inShort, writes: true }, async (opened) => {
    const { findUser, recordUnsubscription } = await import('../../users/users.ts')
    if (single !== undefined) {
      const { id, email } = (await findUser(opened.db, single)).user
      await recordUnsubscription(opened.db, id)
      const ended = await endWhatNobodyWants(opened)
      if (options.json) await io.out.json({ type: 'user', email, unsubscribed: true, ended })
      else await io.out.line(`${email} is unsubscribed.${describeEnded(ended)}`)
      return 0
    }
    const counts = { unsubscribed: 0, already: 0 }
    const { unknown, stopCode } = await forEachUser(
      io,
      opened.db,
      given,
      options,
      async ({ user, subscribed: was }) => {
        const { id, email } = user
        await recordUnsubscription(opened.db, id)
        counts[was ? 'unsubscribed' : 'already']++
        if (options.json) await io.out.json({ type: 'user', email, unsubscribed: true, was })
        else await io.out.line(`${email} is unsubscribed${was ? '' : ' already'}.`)
      },
    )
    await endAndTell(io, opened, options)
    return await end(io, 'users', { ...counts, unknown }, stopCode, options)
  })
}

async function endAndTell(io: CommandIo, opened: OpenDatabase, { json }: JsonOption): Promise<void> {
  const ended = await endWhatNobodyWants(opened)
  if (json) await io.out.json({ type: 'ended', deliveries: ended })
  else if (ended > 0) await io.out.line(describeEnded(ended).trim())
}

const describeEnded = (ended: number) => (ended > 0 ? ' What was owed and not begun is ended.' : '')

export async function endWhatNobodyWants({ db }: OpenDatabase): Promise<number> {
  const { rideOut } = await import('../../db/away.ts')
  const { endAbandoned } = await import('../../deliveries/ledger.ts')
  return (await rideOut(() => endAbandoned(db))).length
}

export async function remove(
  io: CommandIo,
  given: string[],
  options: JsonOption & { dryRun?: true },
): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'databaseAwayMs', 'allowInsecureHooks', 'hookHosts', 'logFormat'],
    settingsSource(io),
  )
  const single = findSingle(given)
  return await withDatabase(io, settings, { ...inShort, writes: true }, async (opened) => {
    if (options.dryRun) return await tellWhatGoes(io, opened, given, single, options)
    const { tellPlatforms } = await import('../integrations.ts')
    if (single !== undefined) {
      const { findUser } = await import('../../users/users.ts')
      const { user } = await findUser(opened.db, single)
      const removed = await removeOne(opened, user.id)
      const ended = await endWhatNobodyWants(opened)
      await tellRemoved(io, user.email, await tellPlatforms(settings, removed), ended, options)
      return 0
    }
    let count = 0
    const { unknown, stopCode } = await forEachUser(io, opened.db, given, options, async ({ user }) => {
      const removed = await removeOne(opened, user.id)
      count++
      await tellRemoved(io, user.email, await tellPlatforms(settings, removed), undefined, options)
    })
    await endAndTell(io, opened, options)
    return await end(io, 'users', { removed: count, unknown }, stopCode, options)
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
  io: CommandIo,
  email: string,
  hooks: readonly ToldHook[],
  ended: number | undefined,
  { json }: JsonOption,
): Promise<void> {
  const { writeTold } = await import('../integrations.ts')
  if (json) return await io.out.json({ type: 'user', email, removed: true, ended, hooks })
  await io.out.line(`${email} is removed.${describeEnded(ended ?? 0)}`)
  await writeTold(io, hooks)
}

/** `--dry-run`. */
async function tellWhatGoes(
  io: CommandIo,
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
    if (options.json) await io.out.json({ type: 'user', email: user.email, removed: false, dryRun: true, ...goes })
    else await io.out.line(`${user.email}: ${describeGoes(goes)}.`)
  }
  const head = options.json ? [] : ['Nothing was removed. This would go:', '']
  if (single !== undefined) {
    const found = await findUser(db, single)
    await io.out.line(...head)
    await tell(found)
    return 0
  }
  await io.out.line(...head)
  const { unknown, stopCode } = await forEachUser(io, db, given, options, tell)
  return await end(io, 'users', { removed: 0, known: users, unknown }, stopCode, options)
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
