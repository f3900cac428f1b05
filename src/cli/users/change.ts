/**
 * Subscribes, unsubscribes or removes users. With one e-mail an unknown user is wrong usage. With several, or standard input, each is
 * done, a summary follows, and an unknown user makes the exit code 1.
 */
import { plural } from '../../base/amounts.ts'
import { rideOut } from '../../db/away.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { eraseAnswersOfUser } from '../../deliveries/answers.ts'
import { endUnwanted } from '../../deliveries/ledger.ts'
import { findWhatGoes, type WhatGoes } from '../../inspect/user/what-goes.ts'
import { hookRulesOf } from '../../integrations/hook-address.ts'
import { sendHookRemovals } from '../../integrations/hook-http.ts'
import type { RemovedHook } from '../../integrations/hooks.ts'
import { revokeIntegrationsOf } from '../../integrations/integrations.ts'
import type { UserToServe } from '../../push/whom/pass.ts'
import { openVault } from '../../secrets/vault.ts'
import { type FoundUser, recordSubscription, recordUnsubscription, removeUser } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { sendPush } from '../push/push.ts'
import type { PushNeed, PushSetting } from '../push/settings.ts'
import { writeTold } from '../told-platforms.ts'
import { changeGiven, checkGiven } from './given.ts'

/** One run sends so many subscription pushes. */
const usersPerPush = 500

export async function subscribe({ io, open }: AtDatabase<PushSetting, PushNeed>, given: string[]): Promise<ExitCode> {
  checkGiven(given)
  return await open(async (opened, settings) => {
    const vault = await openVault(opened.db, settings)
    let due: UserToServe[] = []
    let pushed: ExitCode = 0
    const sendDue = async () => {
      const [user, ...further] = due
      due = []
      if (!user) return
      const request = { what: 'user', user, further, owed: true } as const
      pushed = Math.max(pushed, await sendPush(io, opened, settings, request, { vault }))
    }
    const counts = { subscribed: 0, already: 0 }
    const exitCode = await changeGiven(
      io,
      opened.db,
      given,
      counts,
      async ({ user }) => {
        const { was, owed, tooSoon } = await recordSubscription(opened.db, user.id)
        const text = was ? `${user.email} is subscribed already.` : `${user.email} is subscribed.`
        await io.out.result({ type: 'user', email: user.email, subscribed: true, was }, text)
        if (tooSoon && !owed)
          io.log.info('The last subscription push was less than a minute ago: no further one is sent.')
        if (!was && owed && !due.some(({ id }) => id === user.id)) due.push(user)
        if (due.length >= usersPerPush) await sendDue()
        return was ? 'already' : 'subscribed'
      },
      // after a stop due pushes stay owed
      async (_, stopCode) => (stopCode === undefined ? await sendDue() : undefined),
    )
    return Math.max(pushed, exitCode)
  })
}

export async function unsubscribe({ io, open }: AtDatabase, given: string[]): Promise<ExitCode> {
  checkGiven(given)
  return await open(async (opened) => {
    const counts = { unsubscribed: 0, already: 0 }
    const work = async ({ user: { id, email }, subscribed: was }: FoundUser, isSingle: boolean) => {
      await recordUnsubscription(opened.db, id)
      const ended = isSingle ? await endWhatNobodyWants(opened, id) : undefined
      const text = `${email} is unsubscribed${was ? '' : ' already'}.${describeEnded(ended)}`
      await io.out.result({ type: 'user', email, unsubscribed: true, was, ended }, text)
      return was ? 'unsubscribed' : 'already'
    }
    return await changeGiven(io, opened.db, given, counts, work, (isSingle) => endAndTell(io, opened, isSingle))
  })
}

/** Of a single user the line of the user has told it. */
async function endAndTell(io: CommandIo, opened: OpenDatabase, isSingle: boolean): Promise<void> {
  if (isSingle) return
  const ended = await endWhatNobodyWants(opened)
  await io.out.result({ type: 'ended', deliveries: ended }, ended > 0 ? describeEnded(ended).trim() : [])
}

const describeEnded = (ended = 0) => (ended > 0 ? ' What was owed and not begun is ended.' : '')

export function endWhatNobodyWants({ db }: OpenDatabase, userId?: number): Promise<number> {
  return rideOut(() => endUnwanted(db, userId))
}

export async function remove(
  { io, open }: AtDatabase<'allowInsecureHooks' | 'hookHosts'>,
  given: string[],
  { dryRun }: { dryRun?: true },
): Promise<ExitCode> {
  checkGiven(given)
  return await open(async (opened, settings) => {
    if (dryRun) return await tellWhatGoes(io, opened, given)
    const work = async ({ user: { id, email } }: FoundUser, isSingle: boolean) => {
      const removed = await removeOne(opened, id)
      const ended = isSingle ? await endWhatNobodyWants(opened, id) : undefined
      const hooks = await sendHookRemovals(hookRulesOf(settings), removed)
      await io.out.result({ type: 'user', email, removed: true, ended, hooks }, async () => {
        await io.out.line(`${email} is removed.${describeEnded(ended)}`)
        await writeTold(io, hooks)
      })
      return 'removed'
    }
    const counts = { removed: 0 }
    return await changeGiven(io, opened.db, given, counts, work, (isSingle) => endAndTell(io, opened, isSingle))
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

/** `--dry-run`. */
async function tellWhatGoes(io: CommandIo, { db }: OpenDatabase, given: readonly string[]): Promise<ExitCode> {
  const counts = { removed: 0, known: 0 }
  let told = false
  return await changeGiven(io, db, given, counts, async ({ user }) => {
    if (!told && !io.out.isJson) await io.out.line('Nothing was removed. This would go:', '')
    told = true
    const goes = await findWhatGoes(db, user.id)
    const line = { type: 'user', email: user.email, removed: false, dryRun: true, ...goes }
    await io.out.result(line, `${user.email}: ${describeGoes(goes)}.`)
    return 'known'
  })
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
