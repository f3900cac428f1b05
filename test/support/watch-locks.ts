/** Counts the locks that an import holds, each time that it merges a file. */
import type { OpenDatabase } from '../../src/db/open.ts'

export function watchLocks({ pool }: OpenDatabase) {
  let most = 0
  let counting: Promise<void> = Promise.resolve()
  const count = async () => {
    // other tests share the server
    const { rows } = await pool.query(
      `select count(*) as n from pg_locks join pg_database on pg_database.oid = database
       where datname = current_database() group by pid order by 1 desc limit 1`,
    )
    most = Math.max(most, rows[0]?.n ?? 0)
  }
  return {
    onProgress({ phase }: { phase: string }): void {
      if (phase === 'merging') counting = counting.then(count)
    },
    /** The most locks that a session held at once. */
    async most(): Promise<number> {
      await counting
      return most
    },
  }
}
