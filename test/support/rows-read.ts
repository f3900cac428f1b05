/** What statements read: the same on every machine, unlike the time that they take. */
import type pg from 'pg'

/**
 * How many rows and index entries were read so far. The pool must have one connection: the database learns of what a connection reads
 * when that is told to say so.
 */
export async function countRowsRead(pool: pg.Pool): Promise<number> {
  await pool.query('select pg_stat_force_next_flush()')
  const { rows } = await pool.query(`select
    (select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::integer from pg_stat_user_tables) +
    (select sum(idx_tup_read)::integer from pg_stat_user_indexes) as n`)
  return rows[0].n
}
