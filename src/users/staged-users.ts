/** The staging table of a users import: a row for each record of the file, good ones by field, bad ones with their problem. */
import type { CopyRows } from '../db/copy.ts'
import type { Connection } from '../db/transaction.ts'

/** A record as it is staged. */
export interface StagedUser {
  /** Counts records, from 1. */
  n: number
  line: number
  /** Also of a bad record, where it can be read. */
  email: string | undefined
  /** As it is stored; a field that the record does not have is absent. */
  receiverKey?: string | undefined
  subscribed?: boolean | undefined
  /** Each as `serialiseQuery` gives it, no two alike. */
  queries?: readonly string[] | undefined
  /** The postal key of the first query that names a place, empty for none; absent where there are no `queries`. */
  homeKey?: string | undefined
  /** The record as it came, where it is, or may still be, rejected. */
  raw: Buffer | undefined
  /** As `serialiseProblem` gives it; absent for a good record. */
  problem?: string | undefined
  /** How many queries of the record were the same as an earlier one of it. */
  folded: number
}

export const stagedUsers =
  'staged_users (n, line, email, receiver_key, subscribed, queries, home_key, raw, problem, folded)'

/** Makes the temporary tables of an import of users. `staged_lines` has the lines of CSV until they are gathered. */
export async function createUserStaging(connection: Connection): Promise<void> {
  await connection.query(`
    create temp table staged_users (
      n integer not null, line bigint not null, email text, receiver_key text, subscribed boolean, queries text[], home_key text,
      raw bytea, problem text, folded integer not null
    ) on commit drop;
    create temp table staged_lines (like staged_users) on commit drop;
    create temp table changed_users (
      id bigint, added bigint, part bigint not null, email text not null, receiver_key text, subscribed boolean, queries text[],
      home_key text
    ) on commit drop;
    create index on changed_users (part);
    create temp table given_queries (
      type text not null, value text not null, radius double precision not null, hash text not null, json text not null,
      search_id bigint not null
    ) on commit drop;
    create temp table changed_queries (like queries) on commit drop;
    create temp table listed_users (email text not null) on commit drop`)
}

/** Makes what is staged the lines that are to be gathered; `staged_users` is then empty. */
export async function takeLines(connection: Connection): Promise<void> {
  await connection.query(`
    alter table staged_lines rename to staged_none;
    alter table staged_users rename to staged_lines;
    alter table staged_none rename to staged_users`)
}

/** Adds a row of `stagedUsers`. */
export function addStaged(rows: CopyRows, user: StagedUser): void {
  rows.begin(10)
  rows.integer(user.n)
  rows.bigint(user.line)
  rows.text(user.email)
  rows.text(user.receiverKey)
  rows.boolean(user.subscribed)
  rows.texts(user.queries)
  rows.text(user.homeKey)
  rows.bytea(user.raw)
  rows.text(user.problem)
  rows.integer(user.folded)
}
