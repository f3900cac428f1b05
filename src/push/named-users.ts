/** The users whom a push was asked for by name: it ends in silence for none of them. */
import type { PushLine, SkipLine } from '../index.ts'
import type { AgendaRequest } from './agenda.ts'
import type { UserCount } from './user-count.ts'
import type { UserToServe } from './users-to-serve.ts'

const takenMeanwhile = 'another process has begun or ended this push meanwhile'

export class NamedUsers {
  readonly all: readonly UserToServe[]
  /** The e-mails of those who have neither a skip line nor one of a delivery. */
  private readonly untold: Set<string>

  constructor(request: AgendaRequest) {
    this.all = request.what === 'user' ? [request.user, ...(request.further ?? [])] : []
    this.untold = new Set(this.all.map(({ email }) => email))
  }

  noteLine(line: PushLine): void {
    if ((line.type === 'skip' || line.type === 'delivery') && line.user) this.untold.delete(line.user)
  }

  /** A line for each user whom a run that came to its end has neither served nor told, nor left owed. `users`: those of the run. */
  findUntold(users: UserCount): SkipLine[] {
    return this.all
      .filter(({ id, email }) => this.untold.has(email) && !users.remembers(id) && !users.leftOwed.has(id))
      .map(({ email }) => ({ type: 'skip', user: email, reason: takenMeanwhile }))
  }
}
