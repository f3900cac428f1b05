/**
 * Gathers the lines of a users file that is CSV: lines with one e-mail are one user, wherever they stand (contract 4.18). The
 * lines are staged like records; the database sorts them, and the process holds one user and a page of lines at a time.
 */
import { queriesPerUserMax, recordBytesMax } from '../base/limits.ts'
import { copyInto } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'
import { type Problem, serialiseProblem } from '../records/staged-rejects.ts'
import { markOf } from '../secrets/cipher.ts'
import { isSameQuery, type Query, queryHash, serialiseQuery } from './query.ts'
import { addStaged, type StagedUser, stagedUsers, takeLines } from './staged-users.ts'
import { describeSameHash, tooManyQueries } from './user.ts'

const linesPerPage = 1_000

/** A line of CSV that was read, or its problem as `serialiseProblem` writes it. */
export interface UserLine {
  n: number
  line: number
  email: string
  receiver_key: string | null
  subscribed: boolean | null
  queries: string[] | null
  home_key: string | null
  problem: string | null
}

/** A value that several lines may give, and the first line that gave it. */
interface Given<T> {
  value: T
  line: number
}

/** One user, as the lines so far have them. */
export class GatheredUser {
  readonly n: number
  readonly email: string
  line: number
  problem: Problem | undefined
  folded = 0
  private homeKey = ''
  private lines = 0
  private receiverKey: Given<string> | undefined
  private subscribed: Given<boolean> | undefined
  private readonly queries = new Map<string, Given<Query>>()

  constructor({ n, line, email }: UserLine) {
    this.n = n
    this.line = line
    this.email = email
  }

  add({ line, receiver_key, subscribed, queries, home_key, problem }: UserLine): void {
    this.lines++
    if (this.problem) return
    if (problem !== null) {
      const [path, message] = JSON.parse(problem)
      this.reject(line, path, message)
      return
    }
    this.receiverKey = this.agree('receiverApiKey', this.receiverKey, receiver_key, line, markOf)
    this.subscribed = this.agree('subscribed', this.subscribed, subscribed, line)
    this.homeKey ||= home_key ?? ''
    for (const query of queries ?? []) this.addQuery(JSON.parse(query), line)
  }

  private reject(line: number, path: string, message: string): void {
    if (this.problem) return
    this.line = line
    this.problem = { path, message }
  }

  private agree<T>(
    path: string,
    known: Given<T> | undefined,
    value: T | null,
    line: number,
    meaningOf: (value: T) => unknown = (value) => value,
  ) {
    if (value === null) return known
    if (known === undefined) return { value, line }
    if (meaningOf(known.value) !== meaningOf(value))
      this.reject(line, path, `differs between line ${known.line} and line ${line}, which are one user's`)
    return known
  }

  private addQuery(query: Query, line: number): void {
    const hash = queryHash(query)
    const known = this.queries.get(hash)
    if (known === undefined) {
      if (this.queries.size === queriesPerUserMax) this.reject(line, 'queries', tooManyQueries)
      else this.queries.set(hash, { value: query, line })
    } else if (isSameQuery(known.value, query)) this.folded++
    else {
      const [earlier, later] = [known, { value: query, line }].map(
        ({ value, line }) => [`the query on line ${line}`, value] as const,
      )
      if (earlier && later) this.reject(line, 'value', describeSameHash(earlier, later))
    }
  }

  /** The user as one record. Queries are absent where no line has one: the user's then stay. */
  get staged(): StagedUser {
    const { n, line, email, told, folded } = this
    // `keepLines` fills it
    const raw = Buffer.alloc(0)
    if (told) return { n, line, email, raw, problem: serialiseProblem(told), folded }
    const queries = [...this.queries.values()].map(({ value }) => serialiseQuery(value))
    return {
      ...{ n, line, email, folded },
      receiverKey: this.receiverKey?.value,
      subscribed: this.subscribed?.value,
      ...(queries.length > 0 && { queries, homeKey: this.homeKey }),
      raw: this.receiverKey ? undefined : raw,
    }
  }

  get hasKey(): boolean {
    return this.receiverKey !== undefined
  }

  /** The problem, with how many lines it costs. */
  get told(): Problem | undefined {
    if (!this.problem || this.lines === 1) return this.problem
    const { path, message } = this.problem
    return { path, message: `${message} (so all ${this.lines} lines of ${this.email} are rejected)` }
  }
}

async function stageUsers(connection: Connection, users: readonly GatheredUser[]): Promise<void> {
  if (users.length === 0) return
  await copyInto(connection, stagedUsers, async (rows, flush) => {
    for (const { staged } of users) {
      addStaged(rows, staged)
      if (rows.isFull) await flush()
    }
  })
}

/** Keeps the lines of users who are, or may be, rejected, as they came: the first 8 MiB of them. */
async function keepLines(connection: Connection): Promise<void> {
  await connection.query('analyze staged_lines (email), staged_users (email)')
  await connection.query(
    `update staged_users u set raw = l.raw from (
       select email, string_agg(raw, '\\x0a'::bytea order by n) as raw from (
         select email, n, raw, sum(octet_length(raw)) over (partition by email order by n) - octet_length(raw) as before
         from staged_lines where email in (
           select email from staged_users s where raw is not null
             and (problem is not null or not exists (select from users where email = s.email))
         )
       ) l where before <= ${recordBytesMax} group by email
     ) l where l.email = u.email`,
  )
}

/**
 * Makes the lines that were copied into `staged_users` the lines of users, and `staged_users` the users. Lines without an e-mail
 * that can be read are rejected, each as one record. Returns the number of records.
 */
export async function gatherLines(connection: Connection, signal?: AbortSignal): Promise<number> {
  await takeLines(connection)
  const { rowCount } = await connection.query(`insert into staged_users select * from staged_lines where email is null`)
  let records = rowCount ?? 0
  await connection.query(
    `declare gathered no scroll cursor for
     select n, line, email, receiver_key, subscribed, queries, home_key, problem from staged_lines
     where email is not null order by email collate "C", n`,
  )
  let current: GatheredUser | undefined
  for (;;) {
    signal?.throwIfAborted()
    const { rows } = await connection.query<UserLine>(`fetch ${linesPerPage} from gathered`)
    const complete: GatheredUser[] = []
    for (const row of rows) {
      if (current?.email !== row.email) {
        if (current) complete.push(current)
        current = new GatheredUser(row)
      }
      current.add(row)
    }
    if (rows.length < linesPerPage && current) complete.push(current)
    await stageUsers(connection, complete)
    records += complete.length
    if (rows.length < linesPerPage) break
  }
  await connection.query('close gathered')
  await keepLines(connection)
  return records
}
