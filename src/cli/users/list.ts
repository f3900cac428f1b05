/** Lists users and their queries, never a key. */
import { oneAhead } from '../../base/one-ahead.ts'
import { toned } from '../../base/table.ts'
import { type ListedUser, listUsers } from '../../users/users.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { toJsonLine } from '../output.ts'

const columns = [{ head: 'user', wide: true }, { head: 'subscribed' }, { head: 'queries', wide: true }]

const toRow = ({ email, subscribed, queries }: ListedUser) => [
  email,
  subscribed ? 'yes' : toned('no', 'faint'),
  queries.map(describeQuery).join('; '),
]

export async function list({ io, open }: AtDatabase): Promise<ExitCode> {
  return await open(async ({ db }) => {
    const tables = io.out.tables(columns)
    let users = 0
    for await (const page of oneAhead(listUsers(db))) {
      users += page.length
      if (io.out.isJson) await io.out.write(page.map((user) => toJsonLine({ type: 'user', ...user })).join(''))
      else await tables.add(...page.map(toRow))
    }
    await tables.end()
    if (users === 0 && !io.out.isJson)
      await io.out.line('There are no users yet: `leadpush users import FILE` brings them in.')
    return 0
  })
}

const describeQuery = ({ value, radius }: { value: string; radius: number }) =>
  radius > 0 ? `${value} (${radius} mi)` : value
