/**
 * Subscribes, unsubscribes or removes users. With one e-mail an unknown user is wrong usage. With several, or standard input, each is
 * done, a summary follows, and an unknown user makes the exit code 1.
 */
import { plural } from '../../base/amounts.ts'
import { rideOut } from '../../db/away.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { eraseAnswersOfUser } from '../../deliveries/answers.ts'
import { endAbandoned } from '../../deliveries/ledger.ts'
import { findWhatGoes, type WhatGoes } from '../../inspect/user/what-goes.ts'
import type { ToldHook } from '../../integrations/hook-http.ts'
import type { RemovedHook } from '../../integrations/hooks.ts'
import { revokeIntegrationsOf } from '../../integrations/integrations.ts'
import type { UserToServe } from '../../push/whom/pass.ts'
import { openVault } from '../../secrets/vault.ts'
import { type FoundUser, findUser, recordSubscription, recordUnsubscription, removeUser } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { sendPush } from '../push/push.ts'
import type { PushNeed, PushSetting } from '../push/settings.ts'
import type { StopCode } from '../signals.ts'
import { tellPlatforms, writeTold } from '../told-platforms.ts'
import { findSingle, forEachUser } from './given.ts'

/** One run sends so many subscription pushes. */
const usersPerPush = 500

export async function subscribe({ io, open }: AtDatabase<PushSetting, PushNeed>, given: string[]): Promise<ExitCode> {
  const single = findSingle(given)
  return await open(async (opened, settings) => {
    const vault = await openVault(opened.db, settings)
    const send = ([user, ...further]: UserToServe[]) =>
      user ? sendPush(io, opened, settings, { what: 'user', user, further, owed: true }, { vault }) : 0
    if (single !== undefined) {
      const { user, isDue } = await recordAndTell(io, opened, (await findUser(opened.db, single)).user)
      return await send(isDue ? [user] : [])
    }
    const counts = { subscribed: 0, already: 0 }
    let due: UserToServe[] = []
    let exitCode = 0
    const sendDue = async () => {
      const users = due
      due = []
      exitCode = Math.max(exitCode, await send(users))
    }
    const { unknown, stopCode } = await forEachUser(io, opened.db, given, async (found) => {
      const { user, was, isDue } = await recordAndTell(io, opened, found.user)
      counts[was ? 'already' : 'subscribed']++
      if (isDue && !due.some(({ id }) => id === user.id)) due.push(user)
      if (due.length >= usersPerPush) await sendDue()
    })
    // after a stop due pushes stay owed
    if (stopCode === undefined) await sendDue()
    return Math.max(exitCode, await end(io, { ...counts, unknown }, stopCode))
  })
}

/** `isDue`: the subscription push is to be sent now. */
async function recordAndTell(io: CommandIo, { db }: OpenDatabase, user: UserToServe) {
  const { was, owed, tooSoon } = await recordSubscription(db, user.id)
  const text = was ? `${user.email} is subscribed already.` : `${user.email} is subscribed.`
  await io.out.result({ type: 'user', email: user.email, subscribed: true, was }, text)
  if (tooSoon && !owed) io.log.info('The last subscription push was less than a minute ago: no further one is sent.')
  return { user, was, isDue: !was && owed }
}

/** The line after several users, and the exit code: that of a stop, or 1 if a user does not exist. */
async function end(io: CommandIo, counts: Record<string, number>, stopCode: StopCode | undefined): Promise<ExitCode> {
  await io.out.result({ type: 'users', ...counts }, () =>
    io.out.facts(Object.entries(counts).map(([name, count]) => [name, plural(count, 'user')])),
  )
  return stopCode ?? (counts.unknown === 0 ? 0 : 1)
}

export async function unsubscribe({ io, open }: AtDatabase, given: string[]): Promise<ExitCode> {
  const single = findSingle(given)
  return await open(async (opened) => {
    if (single !== undefined) {
      const { id, email } = (await findUser(opened.db, single)).user
      await recordUnsubscription(opened.db, id)
      const ended = await endWhatNobodyWants(opened)
      const text = `${email} is unsubscribed.${describeEnded(ended)}`
      await io.out.result({ type: 'user', email, unsubscribed: true, ended }, text)
      return 0
    }
    const counts = { unsubscribed: 0, already: 0 }
    const { unknown, stopCode } = await forEachUser(io, opened.db, given, async ({ user, subscribed: was }) => {
      const { id, email } = user
      await recordUnsubscription(opened.db, id)
      counts[was ? 'unsubscribed' : 'already']++
      const text = `${email} is unsubscribed${was ? '' : ' already'}.`
      await io.out.result({ type: 'user', email, unsubscribed: true, was }, text)
    })
    await endAndTell(io, opened)
    return await end(io, { ...counts, unknown }, stopCode)
  })
}

async function endAndTell(io: CommandIo, opened: OpenDatabase): Promise<void> {
  const ended = await endWhatNobodyWants(opened)
  await io.out.result({ type: 'ended', deliveries: ended }, ended > 0 ? describeEnded(ended).trim() : [])
}

const describeEnded = (ended: number) => (ended > 0 ? ' What was owed and not begun is ended.' : '')

export async function endWhatNobodyWants({ db }: OpenDatabase): Promise<number> {
  return (await rideOut(() => endAbandoned(db))).length
}

export async function remove(
  { io, open }: AtDatabase<'allowInsecureHooks' | 'hookHosts'>,
  given: string[],
  { dryRun }: { dryRun?: true },
): Promise<ExitCode> {
  const single = findSingle(given)
  return await open(async (opened, settings) => {
    if (dryRun) return await tellWhatGoes(io, opened, given, single)
    if (single !== undefined) {
      const { user } = await findUser(opened.db, single)
      const removed = await removeOne(opened, user.id)
      const ended = await endWhatNobodyWants(opened)
      await tellRemoved(io, user.email, await tellPlatforms(settings, removed), ended)
      return 0
    }
    let count = 0
    const { unknown, stopCode } = await forEachUser(io, opened.db, given, async ({ user }) => {
      const removed = await removeOne(opened, user.id)
      count++
      await tellRemoved(io, user.email, await tellPlatforms(settings, removed), undefined)
    })
    await endAndTell(io, opened)
    return await end(io, { removed: count, unknown }, stopCode)
  })
}

async function removeOne({ db }: OpenDatabase, userId: number): Promise<RemovedHook[]> {
  let removed: RemovedHook[] = []
  await rideOut(() =>
    db.transaction().execute(async (transaction) => {
      const found = await revokeIntegrationsOf(transaction, userId)
      // a repeated try, after a lost answer, finds nothing any more
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
): Promise<void> {
  await io.out.result({ type: 'user', email, removed: true, ended, hooks }, async () => {
    await io.out.line(`${email} is removed.${describeEnded(ended ?? 0)}`)
    await writeTold(io, hooks)
  })
}

/** `--dry-run`. */
async function tellWhatGoes(
  io: CommandIo,
  { db }: OpenDatabase,
  given: readonly string[],
  single: string | undefined,
): Promise<ExitCode> {
  let users = 0
  const tell = async ({ user }: FoundUser) => {
    const goes = await findWhatGoes(db, user.id)
    users++
    const line = { type: 'user', email: user.email, removed: false, dryRun: true, ...goes }
    await io.out.result(line, `${user.email}: ${describeGoes(goes)}.`)
  }
  const head = io.out.isJson ? [] : ['Nothing was removed. This would go:', '']
  if (single !== undefined) {
    const found = await findUser(db, single)
    await io.out.line(...head)
    await tell(found)
    return 0
  }
  await io.out.line(...head)
  const { unknown, stopCode } = await forEachUser(io, db, given, tell)
  return await end(io, { removed: 0, known: users, unknown }, stopCode)
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
