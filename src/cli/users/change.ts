/**
 * Subscribes, unsubscribes, removes or forgets users. With one e-mail an unknown user is wrong usage. With several, or standard input, each is
 * done, a summary follows, and an unknown user makes the exit code 1.
 */

import { plural } from '../../base/amounts.ts'
import { usageError } from '../../base/errors.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { rideOut } from '../../db/patience.ts'
import type { Untidied } from '../../db/tidy.ts'
import { endUnwanted } from '../../deliveries/ledger.ts'
import { findWhatGoes, type WhatGoes } from '../../inspect/user/what-goes.ts'
import { hookRulesOf } from '../../integrations/hook-address.ts'
import { sendHookRemovals } from '../../integrations/hook-http.ts'
import type { UserToServe } from '../../push/whom/pass.ts'
import { openVault } from '../../secrets/vault.ts'
import { clearUpForgotten, forgetUser, removeUserWithAll } from '../../upkeep/remove-user.ts'
import { emailSchema } from '../../users/user.ts'
import { type FoundUser, findUser, recordSubscription, recordUnsubscription } from '../../users/users.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { sendPush } from '../push/push.ts'
import type { PushNeed, PushSetting } from '../push/settings.ts'
import { writeTold } from '../told-platforms.ts'
import { tellUntidied } from '../untidied.ts'
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
    const exitCode = await changeGiven(io, given, {
      find: (email) => findUser(opened.db, email),
      counts: { subscribed: 0, already: 0, unknown: 0 },
      async work({ user }) {
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
      atEnd: async (_, stopCode) => (stopCode === undefined ? await sendDue() : undefined),
    })
    return Math.max(pushed, exitCode)
  })
}

export async function unsubscribe({ io, open }: AtDatabase, given: string[]): Promise<ExitCode> {
  checkGiven(given)
  return await open(async (opened) => {
    const work = async ({ user: { id, email }, subscribed: was }: FoundUser, isSingle: boolean) => {
      await recordUnsubscription(opened.db, id)
      const ended = isSingle ? await endWhatNobodyWants(opened, id) : undefined
      const text = `${email} is unsubscribed${was ? '' : ' already'}.${describeEnded(ended)}`
      await io.out.result({ type: 'user', email, unsubscribed: true, was, ended }, text)
      return was ? ('unsubscribed' as const) : ('already' as const)
    }
    const counts = { unsubscribed: 0, already: 0, unknown: 0 }
    return await changeGiven(io, given, {
      find: (email) => findUser(opened.db, email),
      counts,
      work,
      async atEnd(isSingle) {
        await endAndTell(io, opened, isSingle)
        if (counts.unsubscribed + counts.already > 0) await tellLater(io, keepsUnsubscribed)
      },
    })
  })
}

/** What later imports make of the change. */
async function tellLater(io: CommandIo, text: string): Promise<void> {
  if (!io.out.isJson) await io.out.paragraph(text)
}

const keepsUnsubscribed = 'A later import keeps that, unless its file says subscribed.'
const insertsAgain = 'A later import that has them inserts them again; `leadpush users forget` keeps them out for good.'
const keepsOut = 'No later import brings them back: their records count as erased.'

/** Of a single user the line of the user has told it. */
async function endAndTell(io: CommandIo, opened: OpenDatabase, isSingle: boolean): Promise<void> {
  if (isSingle) return
  const ended = await endWhatNobodyWants(opened)
  await io.out.result({ type: 'ended', deliveries: ended }, ended > 0 ? describeEnded(ended).trim() : [])
}

const describeEnded = (ended = 0) => (ended > 0 ? ' What was owed and not begun is ended.' : '')

export function endWhatNobodyWants({ db }: OpenDatabase, userId?: number): Promise<number> {
  return rideOut(db, () => endUnwanted(db, userId))
}

type Removing = AtDatabase<'allowInsecureHooks' | 'hookHosts'>

export async function remove(
  { io, open }: Removing,
  given: string[],
  { dryRun }: { dryRun?: true },
): Promise<ExitCode> {
  checkGiven(given)
  return await open(async (opened, settings) => {
    if (dryRun) return await tellWhatGoes(io, opened, given)
    const work = async ({ user: { id, email } }: FoundUser, isSingle: boolean) => {
      const removed = await removeUserWithAll(opened, id)
      const ended = isSingle ? await endWhatNobodyWants(opened, id) : undefined
      const hooks = await sendHookRemovals(hookRulesOf(settings), removed)
      await io.out.result({ type: 'user', email, removed: true, ended, hooks }, async () => {
        await io.out.line(`${email} is removed.${describeEnded(ended)}`)
        await writeTold(io, hooks)
      })
      return 'removed' as const
    }
    const counts = { removed: 0, unknown: 0 }
    return await changeGiven(io, given, {
      find: (email) => findUser(opened.db, email),
      counts,
      work,
      async atEnd(isSingle) {
        await endAndTell(io, opened, isSingle)
        if (counts.removed > 0) await tellLater(io, insertsAgain)
      },
    })
  })
}

const forgottenAs = {
  forgotten: 'is forgotten',
  already: 'was forgotten before',
  unknown: 'was no user, and is kept out from now on',
} as const

/** An e-mail that is nobody's is kept out all the same: the user may have been removed before. */
export async function forget(
  { io, open }: Removing,
  given: string[],
  { dryRun }: { dryRun?: true },
): Promise<ExitCode> {
  checkGiven(given)
  // before anything is done
  for (const each of given) if (each !== '-') readEmail(each)
  return await open(async (opened, settings) => {
    if (dryRun) return await tellWhatGoes(io, opened, given)
    const stop = io.stops.listen(() => {})
    const onWait = () => io.log.info('An import of users is under way: waiting for it.')
    const counts = { forgotten: 0, already: 0, unknown: 0 }
    let untidied: Untidied = new Map()
    const code = await changeGiven(io, given, {
      find: async (email) => readEmail(email),
      counts,
      async work(email, isSingle) {
        const { outcome, removed } = await forgetUser(opened, email, { stop: stop.signal, onWait })
        const ended = isSingle ? await endWhatNobodyWants(opened) : undefined
        const hooks = await sendHookRemovals(hookRulesOf(settings), removed)
        await io.out.result(
          { type: 'user', email, forgotten: true, was: outcome === 'forgotten', ended, hooks },
          async () => {
            await io.out.line(`${email} ${forgottenAs[outcome]}.${describeEnded(ended)}`)
            await writeTold(io, hooks)
          },
        )
        return outcome
      },
      async atEnd(isSingle) {
        await endAndTell(io, opened, isSingle)
        untidied = await clearUpForgotten(opened)
        if (untidied.size > 0) io.log.warn(tellUntidied(untidied))
        await tellLater(io, keepsOut)
      },
    })
    return Math.max(code, Math.min(untidied.size, 1))
  })
}

/** Throws `usage`. */
function readEmail(text: string): string {
  const { data } = emailSchema.safeParse(text.trim())
  if (data !== undefined) return data
  throw usageError(`${JSON.stringify(text)} is no e-mail address.`)
}

/** `--dry-run`. */
async function tellWhatGoes(io: CommandIo, { db }: OpenDatabase, given: readonly string[]): Promise<ExitCode> {
  let told = false
  const work = async ({ user }: FoundUser) => {
    if (!told && !io.out.isJson) await io.out.line('Nothing was removed. This would go:', '')
    told = true
    const goes = await findWhatGoes(db, user.id)
    const line = { type: 'user', email: user.email, removed: false, dryRun: true, ...goes }
    await io.out.result(line, `${user.email}: ${describeGoes(goes)}.`)
    return 'known' as const
  }
  const counts = { removed: 0, known: 0, unknown: 0 }
  return await changeGiven(io, given, { find: (email) => findUser(db, email), counts, work })
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
