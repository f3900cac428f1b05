/**
 * Takes a database back to an earlier state while programs use it, as an asynchronous standby does that takes over without the last
 * changes: what they had been told is committed is gone, and the server is another one by its name.
 */
import { randomBytes } from 'node:crypto'
import type pg from 'pg'

/** What pushes write. */
const tables = [
  'workers',
  'runs',
  'run_sources',
  'forced_scopes',
  'user_ranges',
  'claims',
  'deliveries',
  'answers',
  'erased_deliveries',
  'duties',
  'subscription_pushes',
]

/** Notes the state; the function that it returns takes the database back to it. */
export async function rememberState(pool: pg.Pool): Promise<() => Promise<void>> {
  const schema = `kept_${randomBytes(4).toString('hex')}`
  await pool.query(`begin isolation level repeatable read; create schema ${schema};
    ${tables.map((table) => `create table ${schema}.${table} as table ${table};`).join('\n')}
    commit`)
  return async () => {
    await pool.query(`begin; truncate ${tables.join()};
      ${tables.map((table) => `insert into ${table} select * from ${schema}.${table};`).join('\n')}
      create or replace function this_server() returns text language sql stable as $$ select '${schema}'::text $$; commit`)
  }
}
