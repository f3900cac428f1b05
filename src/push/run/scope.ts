/**
 * Whom a run serves, as a value: all in which the forms of `push` differ. What a run does follows from its scope, so a new form is one
 * more value here, and one more pass where it serves other users.
 */
import type { Takeover } from '../../deliveries/ledger.ts'
import type { RunCommand } from '../../deliveries/runs.ts'
import type { UserToServe } from '../whom/pass.ts'

/** What a push is asked for. */
export type PushRequest =
  /** `limit`: how many users are served at most. */
  | { what: 'all'; force: boolean; limit?: number | undefined }
  | { what: 'resume' }
  | { what: 'failed'; unknown: boolean }
  /** The subscription pushes of all users: those that are owed, and the rest of those that were begun. */
  | { what: 'owed' }
  /**
   * `owedOnly`: only the subscription push that is owed, or the rest of one that was begun. `further`: users who subscribed with `user`, and
   * are served alike. */
  | { what: 'user'; user: UserToServe; owed: boolean; owedOnly?: boolean; further?: readonly UserToServe[] }

export interface Scope {
  /** By what its row is called. */
  command: RunCommand
  /** How many users of the passes it serves at most. */
  limit: number
  /** Which abandoned deliveries it takes over. */
  takeover: Takeover
  /** Whether it goes on with runs that left users of theirs. */
  resumes: boolean
  /** The subscription pushes that are owed: whether it sends them, and looks for more until there are none. */
  owed: 'none' | 'once' | 'untilNone'
  /** The users it was asked for by name. */
  named: readonly UserToServe[]
  /** Who is left where they were not served: all whom its passes mean, those that it was asked for, or nobody. */
  left: 'everybody' | 'asked' | 'nobody'
  /** When it looks once more for work: until nobody is left, once the leases of others are over, or never. */
  looksAgain: 'untilNobodyIsLeft' | 'afterLeases' | 'never'
  /** It waits for no second attempt for long, and says nothing of who needed nothing. */
  owedOnly: boolean
  /** Whether it heeds what is known of the receiver. */
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
  left: 'asked',
  looksAgain: 'never',
  owedOnly: false,
  heedsReceiver: true,
}

export function scopeOf(request: PushRequest): Scope {
  switch (request.what) {
    case 'all': {
      const { force, limit = some.limit } = request
      const left = limit === some.limit ? 'everybody' : 'nobody'
      const looksAgain = 'untilNobodyIsLeft'
      const command = force ? 'force' : 'all'
      return { ...some, command, limit, takeover: 'all', resumes: true, owed: 'once', left, looksAgain }
    }
    case 'resume':
      return {
        ...some,
        command: 'resume',
        takeover: 'all',
        resumes: true,
        owed: 'once',
        left: 'everybody',
        looksAgain: 'afterLeases',
      }
    case 'failed':
      return { ...some, command: 'failed', left: 'nobody' }
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

/** Whether `--resume` may go on with a run of that scope: of all users, whoever is left is still to be served. */
export const isResumable = ({ command, left }: Scope): boolean => command !== 'resume' && left === 'everybody'
