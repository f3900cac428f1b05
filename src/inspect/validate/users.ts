/**
 * Checks every user and key for `validate`, and their queries by `queries.ts`: the rules of contract 4.1 and 4.11, and probable mistakes.
 * It reads pages of bounded size.
 */

import { formatPath } from '../../base/errors.ts'
import { queriesPerUserMax } from '../../base/limits.ts'
import { oneAhead } from '../../base/one-ahead.ts'
import { copyText, readColumn } from '../../db/copy.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { rideOut } from '../../db/patience.ts'
import type { Places } from '../../places/places.ts'
import { isSealed, receiverKeyOf } from '../../secrets/cipher.ts'
import { openIntact, type Vault } from '../../secrets/vault.ts'
import { emailSchema, receiverKeySchema } from '../../users/user.ts'
import { type Finding, type Findings, importAgain, type Level } from '../finding.ts'
import { type CheckedQuery, QueryCheck, queryColumns } from './queries.ts'

interface UserRow {
  id: number
  email: string
  receiverKey: string
  subscribed: boolean
}

export interface CheckedUsers {
  users: number
  subscribed: number
  queries: number
}

const usersPerPage = 2_000
/** More than a user can have, and than two for each user of a page. */
const queriesPerPage = 4_100

/** The next users by id and their queries, by user and position. */
interface Page {
  users: UserRow[]
  /** The id of the user of each query, and its `queryColumns` in COPY's form. */
  userIds: number[]
  queries: string[]
}

/** All users in the order of their ids, page by page. */
async function* readUsers(opened: OpenDatabase): AsyncGenerator<UserRow[]> {
  for (let lastId: number | undefined = 0; lastId !== undefined; ) {
    const users = await findUsers(opened, lastId)
    lastId = users.at(-1)?.id
    if (lastId !== undefined) yield users
  }
}

/** All users with their queries. The next users are read while the queries of the last ones are. */
async function* readPages(opened: OpenDatabase): AsyncGenerator<Page> {
  for await (const page of oneAhead(readUsers(opened))) {
    const endId = page.at(-1)?.id ?? 0
    for (let users = page; users[0] !== undefined; ) {
      const [firstId, found] = [users[0].id, await findQueries(opened, users[0].id, endId)]
      // the last user's queries may be cut off, so that user comes again
      const isCut = found.queries.length === queriesPerPage
      const lastId = isCut ? Math.max(firstId, (found.userIds.at(-1) ?? 0) - 1) : endId
      const [some, rest] = [users.filter(({ id }) => id <= lastId), users.filter(({ id }) => id > lastId)]
      yield { users: some, ...found }
      users = rest
    }
  }
}

async function findUsers(opened: OpenDatabase, lastId: number): Promise<UserRow[]> {
  const text = await rideOut(opened.db, () =>
    copyText(
      opened,
      `select id, subscribed, receiver_key, email from users where id > ${lastId} order by id limit ${usersPerPage}`,
    ),
  )
  return linesOf(text).map((line) => {
    const [id, subscribed, receiverKey = '', email = ''] = line.split('\t')
    return {
      id: Number(id),
      email: readColumn(email),
      receiverKey: readColumn(receiverKey),
      subscribed: subscribed === 't',
    }
  })
}

/** The queries of the users from `firstId` to `lastId`, of these the first `queriesPerPage`. */
async function findQueries(opened: OpenDatabase, firstId: number, lastId: number) {
  const text = await rideOut(opened.db, () =>
    copyText(
      opened,
      `select user_id, ${queryColumns} from queries
      where user_id between ${firstId} and ${lastId} order by user_id, position limit ${queriesPerPage}`,
    ),
  )
  const lines = linesOf(text)
  const ends = lines.map((line) => line.indexOf('\t'))
  return {
    userIds: lines.map((line, at) => Number(line.slice(0, ends[at]))),
    queries: lines.map((line, at) => line.slice((ends[at] ?? 0) + 1)),
  }
}

const linesOf = (text: string) => text.split('\n').slice(0, -1)

class UserCheck {
  private readonly found: Finding[] = []
  private readonly user: UserRow

  constructor(user: UserRow) {
    this.user = user
  }

  private add(level: Level, path: string, what: string, toDo?: string): void {
    const code = path.startsWith('queries[') ? 'query' : 'user'
    this.found.push({ level, code, where: `user ${this.user.email}`, path, what, toDo })
  }

  /** `receiverKey` is undefined if the stored one is damaged. */
  run(receiverKey: string | undefined, queries: readonly CheckedQuery[]): Finding[] {
    const { email, subscribed } = this.user
    const isAddress = emailSchema.safeParse(email)
    if (!isAddress.success) this.add('problem', 'email', isAddress.error.issues[0]?.message ?? 'is wrong', importAgain)
    else if (isAddress.data !== email) this.add('problem', 'email', 'must be in lower case', importAgain)
    const isKey = receiverKeySchema.safeParse(receiverKey)
    if (receiverKey === undefined) {
      this.add('problem', 'receiverApiKey', 'cannot be decrypted: the stored one was changed', importAgain)
    } else if (!isKey.success) {
      this.add('problem', 'receiverApiKey', isKey.error.issues[0]?.message ?? 'is wrong', importAgain)
    }
    if (queries.length > queriesPerUserMax) {
      const message = `are ${queries.length}: at most ${queriesPerUserMax}`
      this.add('problem', 'queries', message, importAgain)
    }
    if (subscribed && queries.length === 0) {
      const hint = 'Import queries for them, or unsubscribe them.'
      this.add('note', 'queries', 'are none: a push skips this user', hint)
    }
    const seen = new Map<string, number>()
    for (let at = 0; at < queries.length; at++) this.addQuery(at, queries[at] as CheckedQuery, seen)
    return this.found
  }

  private addQuery(at: number, { hash, found }: CheckedQuery, seen: Map<string, number>): void {
    const earlier = hash === undefined ? undefined : seen.get(hash)
    if (earlier !== undefined) {
      const message = `has the same hash as queries[${earlier}]: to the receiver they are one`
      const hint = 'Change the value or the radius of one of them, and import the user again.'
      this.add('problem', `queries[${at}]`, message, hint)
    } else if (hash !== undefined) seen.set(hash, at)
    for (const { level, path, what, toDo } of found) this.add(level, formatPath(['queries', at, ...path]), what, toDo)
  }
}

/** Yields the findings on all users, in the order of their ids; `counts` grows as users are checked. */
export async function* checkUsers(
  opened: OpenDatabase,
  { places, vault }: { places: Places; vault: Vault },
  counts: CheckedUsers,
  signal?: AbortSignal,
): Findings {
  const check = new QueryCheck(opened.db, places)
  for await (const { users, userIds, queries } of oneAhead(readPages(opened))) {
    if (signal?.aborted) return
    const checked = await check.run(queries)
    let at = 0
    for (const user of users) {
      const isBefore = (id: number) => at < userIds.length && (userIds[at] as number) < id
      // those of a user who was imported between the two statements are passed over
      while (isBefore(user.id)) at++
      const begin = at
      while (isBefore(user.id + 1)) at++
      counts.users++
      counts.queries += at - begin
      if (user.subscribed) counts.subscribed++
      const receiverKey = isSealed(user.receiverKey)
        ? await openIntact(vault, user.receiverKey, receiverKeyOf(user.email))
        : user.receiverKey
      // not yield*, which waits for the end of each list
      for (const finding of new UserCheck(user).run(receiverKey, checked.slice(begin, at))) yield finding
    }
  }
}
