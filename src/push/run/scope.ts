/**
 * The scope of a run as a value: everything in which the forms of `push` differ. A run does what its scope says, so a new form is one
 * more value here, and one more pass if it serves other users.
 */
import type { Takeover } from '../../deliveries/ledger.ts'
import type { RunCommand } from '../../deliveries/runs.ts'
import type { BadEnd, UserToServe } from '../whom/pass.ts'

/** The order for a push. */
export type PushRequest =
  /** `limit`: how many users are served at most. */
  | { what: 'all'; force: boolean; limit?: number | undefined }
  | { what: 'resume' }
  | { what: 'failed'; ends: readonly BadEnd[] }
  /** The subscription pushes of all users: owed ones, and the rest of begun ones. */
  | { what: 'owed' }
  /**
   * `owedOnly`: only an owed subscription push, or the rest of a begun one. `further`: users who subscribed with `user`, and are served
   * in the same way. */
  | { what: 'user'; user: UserToServe; owed: boolean; owedOnly?: boolean; further?: readonly UserToServe[] }

export interface Scope {
  /** The name in its row. */
  command: RunCommand
  /** How many users of the passes it serves at most. */
  limit: number
  /** The abandoned deliveries that it takes over. */
  takeover: Takeover
  /** Whether it resumes runs that left users. */
  resumes: boolean
  /** Whether it sends owed subscription pushes, and looks for more until there are none. */
  owed: 'none' | 'once' | 'untilNone'
  /** The users it was asked for by name. */
  named: readonly UserToServe[]
  /** It is to serve all users of its passes: those who are left keep it from its end. */
  isForAll: boolean
  /** When it looks once more for work: until nobody is left, once the leases of others are over, or never. */
  looksAgain: 'untilNobodyIsLeft' | 'afterLeases' | 'never'
  /** It does not wait long for second attempts, and does not report users who needed nothing. */
  owedOnly: boolean
  /** Whether it heeds the known trouble of the receiver. */
  heedsReceiver: boolean
}

/** As most forms have it, with every field: a copy that has to grow takes a hundred times as long. */
const some: Scope = {
  command: 'all',
  limit: Number.POSITIVE_INFINITY,
  takeover: 'own',
  resumes: false,
  owed: 'none',
  named: [],
  isForAll: false,
  looksAgain: 'never',
  owedOnly: false,
  heedsReceiver: true,
}

/** It does the work that other runs have left. */
const goesOn = { takeover: 'all', resumes: true } as const

export function scopeOf(request: PushRequest): Scope {
  switch (request.what) {
    case 'all': {
      const { force, limit = some.limit } = request
      const isForAll = limit === some.limit
      const looksAgain = 'untilNobodyIsLeft'
      const command = force ? 'force' : 'all'
      // a careful beginning serves so many users and no others
      const owed = isForAll ? 'once' : 'none'
      return { ...some, ...goesOn, command, limit, owed, isForAll, looksAgain }
    }
    case 'resume':
      return { ...some, ...goesOn, command: 'resume', owed: 'once', isForAll: true, looksAgain: 'afterLeases' }
    case 'failed':
      return { ...some, command: 'failed' }
    case 'owed':
      return { ...some, command: 'owed', takeover: 'subscriptions', owed: 'untilNone', owedOnly: true }
    case 'user': {
      const { user, further = [], owedOnly = false } = request
      const command = owedOnly || request.further ? 'owed' : 'user'
      const takeover = owedOnly ? { subscriptionOf: user.id } : 'own'
      return { ...some, command, named: [user, ...further], takeover, owedOnly, heedsReceiver: false }
    }
  }
}

/** Whether `--resume` may continue a run with that scope: only runs for all users, since their other users are still owed. */
export const isResumable = ({ command, isForAll }: Scope): boolean => command !== 'resume' && isForAll
