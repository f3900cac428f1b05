/**
 * Fills tables that are empty. PostgreSQL looks up each row's foreign keys, and enters the row in each index, one by one, which costs
 * more than the row. Of an empty table foreign keys and indexes can be dropped first and be made again after: that checks all rows in
 * one join, and sorts all entries at once.
 */
import { codeOf } from '../base/errors.ts'
import type { Connection } from './transaction.ts'

/** Whoever uses one of the tables at that moment is not waited for longer. */
const lockMsMax = 1_000
const lockNotAvailable = '55P03'

/** A foreign key, another constraint that is an index, or an index: the statements that drop it and make it again. */
interface Part {
  drop: string
  make: string
  /** The tables that are locked for that. */
  tables: string[]
}

/**
 * Runs `fill`, which writes many rows to `tables` (names of ours) and looks none of them up. Whichever of them is empty, if this role may
 * change it, nobody else can read until the transaction ends, nor the tables that it refers to. In one with a row, or while somebody
 * uses one of these tables, each row is checked and entered as ever.
 */
export async function fillEmpty<T>(
  connection: Connection,
  tables: readonly string[],
  fill: () => Promise<T>,
): Promise<T> {
  const parts: Part[] = []
  for (const table of tables) parts.push(...(await findParts(connection, table)))
  const isDropped = parts.length > 0 && (await dropParts(connection, parts))
  const filled = await fill()
  if (isDropped) for (const { make } of parts.toReversed()) await connection.query(make)
  return filled
}

/** The parts of `table` in the order in which they can be dropped, but those that a foreign key needs; none of a table with a row. */
async function findParts(connection: Connection, table: string): Promise<Part[]> {
  const { rows } = await connection.query<Part>(
    `with constraints as (
      select c.contype = 'f' as is_foreign, format('alter table %s drop constraint %I', conrelid::regclass, conname) as drop,
        format('alter table %s add constraint %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) as make,
        array[conrelid, case when contype = 'f' then confrelid else conrelid end]::regclass[]::text[] as tables
      from pg_constraint c where conrelid = '${table}'::regclass and contype in ('f', 'p', 'u')
        and (contype = 'f' or not exists (select from pg_constraint f where f.contype = 'f' and f.conindid = c.conindid))
    ),
    parts as (
      select * from constraints
      union all
      select false, format('drop index %s', indexrelid::regclass), pg_get_indexdef(indexrelid), array['${table}']
      from pg_index where indrelid = '${table}'::regclass
        and not exists (select from pg_constraint where conindid = indexrelid)
    )
    select drop, make, tables from parts where not exists (select from ${table}) and not exists (
      select from parts p, unnest(p.tables) name join pg_class t on t.oid = name::regclass where not pg_has_role(t.relowner, 'usage')
    )
    order by is_foreign desc`,
  )
  return rows
}

/** Whether the parts are dropped: not where that would have to wait. */
async function dropParts(connection: Connection, parts: readonly Part[]): Promise<boolean> {
  await connection.query('savepoint filling')
  try {
    const before = await connection.query(`select current_setting('lock_timeout') as lock_timeout`)
    await connection.query(`set local lock_timeout = ${lockMsMax}`)
    const tables = new Set(parts.flatMap((part) => part.tables))
    await connection.query(`lock table ${[...tables].join(', ')} in access exclusive mode`)
    await connection.query(`select set_config('lock_timeout', $1, true)`, [before.rows[0].lock_timeout])
    await connection.query(parts.map(({ drop }) => drop).join(';'))
    await connection.query('release savepoint filling')
    return true
  } catch (error) {
    if (codeOf(error) !== lockNotAvailable) throw error
    await connection.query('rollback to savepoint filling; release savepoint filling')
    return false
  }
}
