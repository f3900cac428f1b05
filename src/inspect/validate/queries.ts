/**
 * Checks queries for `validate`: the rules of contract 4.9 and 4.11, the columns that follow from other columns, and probable mistakes.
 * It knows nothing of users.
 */
import { sql } from 'kysely'
import { describeIssues } from '../../base/issues.ts'
import { readColumn } from '../../db/copy.ts'
import type { Database } from '../../db/open.ts'
import { resolverVersion, resolveSearch } from '../../matching/search.ts'
import type { Places } from '../../places/places.ts'
import { deliveredQuerySchema, type Query, queryHash, serialiseQuery } from '../../users/query.ts'
import { type Finding, importAgain, type Level } from '../finding.ts'

/**
 * Many users have the same queries. The facts on a query are kept without its places, and so are small. A full cache is emptied: a cache
 * that knows which entry was used last costs as much for each query as the look-up itself.
 */
const queriesKept = 20_000

/** SQL: the columns of a query that are checked. */
export const queryColumns = 'search_id, type, radius, value, hash, json'

/** A finding on a query, without its user: `path` begins inside the query. */
interface QueryFinding extends Pick<Finding, 'level' | 'what' | 'toDo'> {
  path: readonly PropertyKey[]
}

export interface CheckedQuery {
  /** Undefined if the row has no valid query. */
  hash: string | undefined
  found: readonly QueryFinding[]
}

/** The meaning of a search (sha256 as hexadecimal digits), and the version of the resolver that found it. */
interface Search {
  id: number
  meaning: string
  resolver: number
}

/** Checks queries, equal ones once. Users share queries, so most of a page are known already. */
export class QueryCheck {
  private readonly db: Database
  private readonly places: Places
  private readonly checked = new Map<string, CheckedQuery>()

  constructor(db: Database, places: Places) {
    this.db = db
    this.places = places
  }

  /** Takes the `queryColumns` of each query, as COPY has them. */
  async run(queries: readonly string[]): Promise<CheckedQuery[]> {
    const known = queries.map((query) => this.checked.get(query))
    const unknown = new Set(queries.filter((_, at) => known[at] === undefined))
    if (unknown.size === 0) return known as CheckedQuery[]
    // a copy of each: a slice would keep the text of the whole page in memory
    const anew = await this.runAnew([...unknown].map((query) => Buffer.from(query).toString()))
    return queries.map((query, at) => known[at] ?? (anew.get(query) as CheckedQuery))
  }

  private async runAnew(queries: readonly string[]): Promise<Map<string, CheckedQuery>> {
    const rows = queries.map((query) => query.split('\t'))
    const searches = await this.findSearches(rows.map(([searchId]) => Number(searchId)))
    const anew = rows.map(([searchId, ...columns], at): [string, CheckedQuery] => [
      queries[at] as string,
      this.check(columns.map(readColumn), searches.get(Number(searchId))),
    ])
    if (this.checked.size + anew.length > queriesKept) this.checked.clear()
    for (const [query, checked] of anew) this.checked.set(query, checked)
    return new Map(anew)
  }

  private async findSearches(ids: readonly number[]): Promise<Map<number, Search>> {
    const { rows } = await sql<Search>`
        select id, encode(meaning_sha256, 'hex') as meaning, resolver from searches where id = any (${[...new Set(ids)]})
      `.execute(this.db)
    return new Map(rows.map((search) => [search.id, search]))
  }

  private check(columns: readonly string[], stored: Search | undefined): CheckedQuery {
    const [type = '', radius, value = '', storedHash, storedJson] = columns
    const query = { type: type as Query['type'], value, radius: Number(radius) }
    const parsed = deliveredQuerySchema.safeParse(query)
    const found: QueryFinding[] = []
    const add = (level: Level, path: QueryFinding['path'], what: string, toDo: string) => {
      found.push({ level, path, what, toDo })
    }
    if (!parsed.success) {
      for (const { path, message } of describeIssues(parsed.error.issues, query))
        add('problem', path, message, importAgain)
      return { hash: undefined, found }
    }
    const hash = queryHash(query)
    if (storedHash !== hash) add('problem', [], 'is stored with the hash of another query', importAgain)
    if (storedJson !== serialiseQuery(query))
      add('problem', [], 'is stored with the JSON of another query', importAgain)
    const search = resolveSearch(this.places, query)
    if ('refused' in search) {
      const toDo = 'Write another value, and import the user again.'
      add('problem', ['value'], `can match nothing: it ${search.refused}`, toDo)
      return { hash, found }
    }
    // `checkDatabase` reports once, for all users, that an older program resolved queries
    const isCurrent = stored !== undefined && stored.resolver >= resolverVersion
    if (!stored || (isCurrent && stored.meaning !== search.meaningSha256.toString('hex')))
      add('problem', [], 'is stored with the search of another query', importAgain)
    if (search.placeUnknown) {
      const what = 'looks like a place, but no such place is known: only listings with all these words match'
      add('note', ['value'], what, 'Check its spelling.')
    } else if (search.radiusIgnored) {
      const toDo = 'Name a place with its state at the end, such as `pool Austin, TX`, to search around it.'
      add('note', ['radius'], 'is only passed on: the text names no place to search around', toDo)
    }
    if (search.places !== null && !search.places.some((code) => this.places.has(code))) {
      const what = 'is an unknown postal code: it only matches that very code'
      add('note', ['value'], what, 'Check it for a typing error.')
    }
    return { hash, found }
  }
}
