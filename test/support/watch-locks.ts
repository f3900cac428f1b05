/** Counts the locks that a complete import holds, at the rejected records of its files. */
import type { OpenDatabase } from '../../src/db/open.ts'

export function watchLocks({ pool }: OpenDatabase) {
  const counts: number[] = []
  return {
    counts,
    /** The import waits for it. */
    async onRejected(): Promise<void> {
      // other tests share the server
      const { rows } = await pool.query(
        `select count(*)::integer as n from pg_locks join pg_stat_activity using (pid)
         where datname = current_database() group by pid order by 1 desc limit 1`,
      )
      counts.push(rows[0].n)
    },
  }
}
