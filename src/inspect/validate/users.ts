/**
 * Checks every user, key and query for `validate`: the rules of contract 4.1, 4.9 and 4.11, the columns that follow from other
 * columns, and what is allowed but probably a mistake. It reads pages of bounded size.
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { formatPath } from '../../base/errors.ts'
import { describeIssues } from '../../base/issues.ts'
import { queriesPerUserMax } from '../../base/limits.ts'
import { rideOut } from '../../db/away.ts'
import type { Database } from '../../db/open.ts'
import { type RefusedSearch, type ResolvedSearch, resolverVersion, resolveSearch } from '../../matching/search.ts'
import type { Places } from '../../places/places.ts'
import { receiverKeyOf } from '../../secrets/cipher.ts'
import { openIntact, type Vault } from '../../secrets/vault.ts'
import { deliveredQuerySchema, type Query, queryHash, serialiseQuery } from '../../users/query.ts'
import { emailSchema, receiverKeySchema } from '../../users/user.ts'
import type { Finding, Findings } from './finding.ts'

interface UserRow {
  id: number
  email: string
  receiver_key: string
  subscribed: boolean
}

interface QueryRow extends Query {
  user_id: number
  position: number
  hash: string
  json: string
  meaning: string | null
  resolver: number | null
}

export interface UserCounts {
  users: number
  subscribed: number
  queries: number
}

const usersPerPage = 1_000
const queriesPerPage = 4_000
/** Many users have the same queries. What is known of a query is kept without its places, and so is small. */
const queriesKept = 20_000

const importAgain = 'Import the user again with `leadpush users import`.'

/** The queries of the users from `firstId` to `lastId`, by user and position. */
async function* findQueries(db: Database, firstId: number, lastId: number): AsyncGenerator<QueryRow> {
  let cursor = { user_id: firstId, position: -1 }
  for (;;) {
    const { user_id, position } = cursor
    const { rows } = await rideOut(() =>
      sql<QueryRow>`
        select q.user_id, q.position, q.type, q.value, q.radius, q.hash, q.json, s.resolver,
          encode(s.meaning_sha256, 'hex') as meaning
        from (
          select * from queries where (user_id, position) > (${user_id}, ${position}) and user_id <= ${lastId}
          order by user_id, position limit ${queriesPerPage}
        ) q left join searches s on s.id = q.search_id
        order by q.user_id, q.position
      `.execute(db),
    )
    yield* rows
    const last = rows.at(-1)
    if (last === undefined || rows.length < queriesPerPage) return
    cursor = last
  }
}

/** What a query resolves to, as far as it is checked here. */
type Resolved = RefusedSearch | { meaning: string; radiusIgnored: boolean; isNowhere: boolean }

/** What is known of a query, whoever has it. */
type KnownQuery = { issues: Parameters<typeof describeIssues>[0] } | { hash: string; json: string; resolved: Resolved }

class KnownQueries {
  private readonly places: Places
  private readonly kept = new LRUCache<string, KnownQuery>({ max: queriesKept })

  constructor(places: Places) {
    this.places = places
  }

  find(query: Query): KnownQuery {
    const key = `${query.type} ${query.radius} ${query.value}`
    const kept = this.kept.get(key)
    if (kept) return kept
    const parsed = deliveredQuerySchema.safeParse(query)
    const known = parsed.success
      ? { hash: queryHash(query), json: serialiseQuery(query), resolved: this.resolve(query) }
      : { issues: parsed.error.issues }
    this.kept.set(key, known)
    return known
  }

  private resolve(query: Query): Resolved {
    const search = resolveSearch(this.places, query)
    return 'refused' in search ? search : this.describe(search)
  }

  private describe({ meaningSha256, radiusIgnored, places }: ResolvedSearch): Resolved {
    const isNowhere = places !== null && !places.some((code) => this.places.byCode.has(code))
    return { meaning: meaningSha256.toString('hex'), radiusIgnored, isNowhere }
  }
}

class UserCheck {
  private readonly found: Finding[] = []
  private readonly user: UserRow
  private readonly receiverKey: string | undefined
  private readonly known: KnownQueries

  /** `receiverKey` is undefined where the stored one is damaged. */
  constructor(user: UserRow, receiverKey: string | undefined, known: KnownQueries) {
    this.user = user
    this.receiverKey = receiverKey
    this.known = known
  }

  private add(type: Finding['type'], path: string, message: string, hint?: string): void {
    this.found.push({ type, where: `user ${this.user.email}`, path, message, ...(hint !== undefined && { hint }) })
  }

  run(queries: readonly QueryRow[]): Finding[] {
    const { email, subscribed } = this.user
    const isAddress = emailSchema.safeParse(email)
    if (!isAddress.success) this.add('problem', 'email', isAddress.error.issues[0]?.message ?? 'is wrong', importAgain)
    else if (isAddress.data !== email) this.add('problem', 'email', 'must be in lower case', importAgain)
    const isKey = receiverKeySchema.safeParse(this.receiverKey)
    if (this.receiverKey === undefined) {
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
    for (const [at, query] of queries.entries()) this.checkQuery(at, query, seen)
    return this.found
  }

  private checkQuery(at: number, row: QueryRow, seen: Map<string, number>): void {
    const path = `queries[${at}]`
    const { type, value, radius } = row
    const query = { type, value, radius }
    const known = this.known.find(query)
    if ('issues' in known) {
      for (const issue of describeIssues(known.issues, query)) {
        this.add('problem', formatPath(['queries', at, ...issue.path]), issue.message, importAgain)
      }
      return
    }
    const { hash, json, resolved } = known
    const earlier = seen.get(hash)
    if (earlier === undefined) seen.set(hash, at)
    else {
      const message = `has the same hash as queries[${earlier}]: to the receiver they are one`
      this.add('problem', path, message, 'Change the value or the radius of one of them, and import the user again.')
    }
    if (row.hash !== hash) this.add('problem', path, 'is stored with the hash of another query', importAgain)
    if (row.json !== json) {
      this.add('problem', path, 'is stored with the JSON of another query', importAgain)
    }
    this.checkMeaning(path, row, resolved)
  }

  private checkMeaning(path: string, row: QueryRow, resolved: Resolved): void {
    if ('refused' in resolved) {
      this.add(
        'problem',
        `${path}.value`,
        `can match nothing: it ${resolved.refused}`,
        'Write another value, and import the user again.',
      )
      return
    }
    // `checkDatabase` reports once, for all users, that an older program resolved queries
    const isCurrent = row.resolver !== null && row.resolver >= resolverVersion
    if (row.meaning === null || (isCurrent && row.meaning !== resolved.meaning)) {
      this.add('problem', path, 'is stored with the search of another query', importAgain)
    }
    if (resolved.radiusIgnored) {
      const hint = 'Name a place with its state at the end, such as `pool Austin, TX`, to search around it.'
      this.add('note', `${path}.radius`, 'is only passed on: the text names no place to search around', hint)
    }
    if (resolved.isNowhere) {
      const hint = 'Check it for a typing error.'
      this.add('note', `${path}.value`, 'is a postal code that is in no table: it matches that very code alone', hint)
    }
  }
}

/** Yields the findings on all users, in the order of their ids; `counts` grows as users are checked. */
export async function* checkUsers(
  db: Database,
  { places, vault }: { places: Places; vault: Vault },
  counts: UserCounts,
  signal?: AbortSignal,
): Findings {
  const known = new KnownQueries(places)
  let lastId = 0
  while (!signal?.aborted) {
    const { rows: users } = await rideOut(() =>
      sql<UserRow>`
        select id, email, receiver_key, subscribed from users where id > ${lastId} order by id limit ${usersPerPage}
      `.execute(db),
    )
    const [first, last] = [users[0], users.at(-1)]
    if (first === undefined || last === undefined) return
    lastId = last.id
    const queries = findQueries(db, first.id, last.id)
    let next = await queries.next()
    for (const user of users) {
      const own: QueryRow[] = []
      // queries of a user who was imported between the two statements are skipped
      while (!next.done && next.value.user_id <= user.id) {
        if (next.value.user_id === user.id) own.push(next.value)
        next = await queries.next()
      }
      counts.users++
      counts.queries += own.length
      if (user.subscribed) counts.subscribed++
      const receiverKey = await openIntact(vault, user.receiver_key, receiverKeyOf(user.email))
      yield* new UserCheck(user, receiverKey, known).run(own)
    }
  }
}
