/** Lists users and their queries, never a key. */
import { oneAhead } from '../../base/one-ahead.ts'
import { toned } from '../../base/table.ts'
import type { Database } from '../../db/open.ts'
import { type ListedUser, listUsers } from '../../users/users.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'

const columns = [{ head: 'user', wide: true }, { head: 'subscribed' }, { head: 'queries', wide: true }]

const toRow = ({ email, subscribed, queries }: ListedUser) => [
  email,
  subscribed ? 'yes' : toned('no', 'faint'),
  queries.map(describeQuery).join('; '),
]

async function* findAll(db: Database): AsyncGenerator<ListedUser> {
  for await (const page of oneAhead(listUsers(db))) yield* page
}

export async function list({ io, open }: AtDatabase): Promise<ExitCode> {
  return await open(async ({ db }) => {
    await io.out.list(findAll(db), {
      columns,
      toRows: (user) => [toRow(user)],
      toLine: (user) => ({ type: 'user', ...user }),
      none: 'There are no users yet: `leadpush users import FILE` brings them in.',
    })
    return 0
  })
}

const describeQuery = ({ value, radius }: { value: string; radius: number }) =>
  radius > 0 ? `${value} (${radius} mi)` : value
