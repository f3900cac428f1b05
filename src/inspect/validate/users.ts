/**
 * Checks every user, key and query for `validate`: the rules of contract 4.1, 4.9 and 4.11, the columns that follow from other
 * columns, and what is allowed but probably a mistake. It reads pages of bounded size.
 */
import { sql } from 'kysely'
import { LRUCache } from 'lru-cache'
import { formatPath } from '../../base/errors.ts'
import { describeIssues } from '../../base/issues.ts'
import { queriesPerUserMax } from '../../base/limits.ts'
import { oneAhead } from '../../base/one-ahead.ts'
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
/** More than a user can have. */
const queriesPerPage = 4_000
/** Many users have the same queries. What is known of a query is kept without its places, and so is small. */
const queriesKept = 20_000

const importAgain = 'Import the user again with `leadpush users import`.'

interface UserWithQueries {
  user: UserRow
  /** By position. */
  queries: QueryRow[]
}

/** The queries of the users from `firstId` to `lastId`, by user and position; of them the first `queriesPerPage`. */
async function findQueries(db: Database, firstId: number, lastId: number): Promise<QueryRow[]> {
  const { rows } = await rideOut(() =>
    sql<QueryRow>`
      select q.user_id, q.type, q.value, q.radius, q.hash, q.json, s.resolver, encode(s.meaning_sha256, 'hex') as meaning
      from (
        select * from queries where user_id between ${firstId} and ${lastId} order by user_id, position limit ${queriesPerPage}
      ) q left join searches s on s.id = q.search_id
      order by q.user_id, q.position
    `.execute(db),
  )
  return rows
}

/** All users in the order of their ids, page by page. */
async function* readUsers(db: Database): AsyncGenerator<UserWithQueries[]> {
  for (let lastId = 0; ; ) {
    const { rows: users } = await rideOut(() =>
      sql<UserRow>`
        select id, email, receiver_key, subscribed from users where id > ${lastId} order by id limit ${usersPerPage}
      `.execute(db),
    )
    const [first, last] = [users[0], users.at(-1)]
    if (first === undefined || last === undefined) return
    const queries = await findQueries(db, first.id, last.id)
    // of a full page the last user's queries may be cut off, so the next page begins with that user
    const isCut = queries.length === queriesPerPage
    lastId = isCut ? Math.max(first.id, (queries.at(-1)?.user_id ?? 0) - 1) : last.id
    const queriesOf = new Map<number, QueryRow[]>(users.map(({ id }) => [id, []]))
    // those of a user who was imported between the two statements are skipped
    for (const query of queries) queriesOf.get(query.user_id)?.push(query)
    const whole = isCut ? users.filter(({ id }) => id <= lastId) : users
    yield whole.map((user) => ({ user, queries: queriesOf.get(user.id) ?? [] }))
  }
}

/** What a query resolves to, as far as it is checked here. */
type Resolved = RefusedSearch | { meaning: string; radiusIgnored: boolean; isNowhere: boolean }

/** What is known of a query, whoever has it. */
type KnownQuery = { query: Query } & (
  | { issues: Parameters<typeof describeIssues>[0] }
  | { hash: string; json: string; resolved: Resolved }
)

class KnownQueries {
  private readonly places: Places
  /** By the stored JSON, which is at hand and names a query unless somebody changed it. */
  private readonly kept = new LRUCache<string, KnownQuery>({ max: queriesKept })

  constructor(places: Places) {
    this.places = places
  }

  find({ type, value, radius, json }: QueryRow): KnownQuery {
    const kept = this.kept.get(json)
    if (kept?.query.value === value && kept.query.radius === radius && kept.query.type === type) return kept
    const query = { type, value, radius }
    const parsed = deliveredQuerySchema.safeParse(query)
    const known = parsed.success
      ? { query, hash: queryHash(query), json: serialiseQuery(query), resolved: this.resolve(query) }
      : { query, issues: parsed.error.issues }
    this.kept.set(json, known)
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
    const known = this.known.find(row)
    if ('issues' in known) {
      for (const issue of describeIssues(known.issues, known.query)) {
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
  for await (const page of oneAhead(readUsers(db))) {
    if (signal?.aborted) return
    for (const { user, queries } of page) {
      counts.users++
      counts.queries += queries.length
      if (user.subscribed) counts.subscribed++
      const receiverKey = await openIntact(vault, user.receiver_key, receiverKeyOf(user.email))
      // not yield*, which waits for the end of each list
      for (const finding of new UserCheck(user, receiverKey, known).run(queries)) yield finding
    }
  }
}
