/**
 * Fills a table that is empty. PostgreSQL checks a foreign key for each row by a look-up of its own, which costs more than the row;
 * of an empty table it can be dropped first, and be made again after, which checks all rows in one join.
 */
import { codeOf } from '../base/errors.ts'
import type { Connection } from './transaction.ts'

/** Whoever uses one of the tables at that moment is not waited for longer. */
const lockMsMax = 1_000
const lockNotAvailable = '55P03'

interface ForeignKey {
  name: string
  definition: string
  /** The table that it refers to. */
  target: string
}

/**
 * Runs `fill`, which writes many rows to `table` (a name of ours). If the table is empty, and this role may change it, nobody else
 * can read it or the tables that it refers to until the transaction ends. Otherwise, or while somebody uses one of these tables, each
 * row is checked as ever.
 */
export async function fillEmpty<T>(connection: Connection, table: string, fill: () => Promise<T>): Promise<T> {
  const keys = await dropForeignKeys(connection, table)
  const filled = await fill()
  if (keys.length > 0) {
    const constraints = keys.map(({ name, definition }) => `add constraint ${name} ${definition}`)
    await connection.query(`alter table ${table} ${constraints.join(', ')}`)
  }
  return filled
}

/** Drops the foreign keys of `table` and returns them, or none where that cannot be at once. */
async function dropForeignKeys(connection: Connection, table: string): Promise<ForeignKey[]> {
  const { rows: keys } = await connection.query<ForeignKey>(
    `select quote_ident(conname) as name, pg_get_constraintdef(c.oid) as definition, confrelid::regclass::text as target
     from pg_constraint c where c.contype = 'f' and c.conrelid = '${table}'::regclass and not exists (select from ${table})
       and not exists (
         select from pg_class t where t.oid in (c.conrelid, c.confrelid) and not pg_has_role(t.relowner, 'usage')
       )`,
  )
  if (keys.length === 0) return []
  await connection.query('savepoint filling')
  try {
    const before = await connection.query(`select current_setting('lock_timeout') as lock_timeout`)
    await connection.query(`set local lock_timeout = ${lockMsMax}`)
    const targets = [...new Set(keys.map(({ target }) => target))]
    await connection.query(`lock table ${[...targets, table].join(', ')} in access exclusive mode`)
    await connection.query(`select set_config('lock_timeout', $1, true)`, [before.rows[0].lock_timeout])
    await connection.query(`alter table ${table} ${keys.map(({ name }) => `drop constraint ${name}`).join(', ')}`)
    await connection.query('release savepoint filling')
    return keys
  } catch (error) {
    if (codeOf(error) !== lockNotAvailable) throw error
    await connection.query('rollback to savepoint filling; release savepoint filling')
    return []
  }
}
