/** The users whom a push was asked for by name: it reports each of them. */
import type { PushLine, SkipLine } from '../../index.ts'
import type { UserStore } from '../ledger.ts'
import { skipRemoved } from './agenda.ts'
import type { UserToServe } from './pass.ts'
import type { UserCount } from './user-count.ts'

const takenMeanwhile = 'another process has begun or ended this push meanwhile'

export class NamedUsers {
  private readonly all: readonly UserToServe[]
  /** The e-mails of those with neither a skip line nor a delivery line. */
  private readonly untold: Set<string>

  constructor(users: readonly UserToServe[]) {
    this.all = users
    this.untold = new Set(users.map(({ email }) => email))
  }

  noteLine(line: PushLine): void {
    if ((line.type === 'skip' || line.type === 'delivery') && line.user) this.untold.delete(line.user)
  }

  /** A line for each user whom a finished run has neither served nor reported nor left owed. `users`: those of the run. */
  async findUntold(store: UserStore, users: UserCount): Promise<SkipLine[]> {
    const left = this.all.filter(
      ({ id, email }) => this.untold.has(email) && !users.remembers(id) && !users.leftOwed.has(id),
    )
    if (left.length === 0) return []
    const removed = await store.findRemoved(left)
    return left.map(({ id, email }) =>
      removed.has(id) ? skipRemoved(email) : { type: 'skip', user: email, reason: takenMeanwhile },
    )
  }
}
