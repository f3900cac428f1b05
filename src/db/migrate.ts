/**
 * Brings the schema up to date with the numbered files in `sql/`, under a lock and in one transaction. Rows that belong to a
 * migration are in a `.tsv` file of the same name: one table, with cells in the order of its columns.
 */
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { packageRoot } from '../base/package-root.ts'
import { locks } from './locks.ts'

const folder = join(packageRoot, 'sql')
const table = 'schema_migrations'

// biome-ignore lint/suspicious/noExplicitAny: a migration meets every schema there ever was
type AnyDatabase = Kysely<any>

async function migrationNames(): Promise<string[]> {
  const files = await readdir(folder)
  return files
    .filter((file) => /^\d{6}_\w+\.sql$/.test(file))
    .map((file) => file.slice(0, -4))
    .sort()
}

async function loadRows(db: AnyDatabase, name: string): Promise<void> {
  const text = await readFile(join(folder, `${name}.tsv`), 'utf8').catch(() => '')
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  if (lines.length === 0) return
  const target = name.slice(7)
  // casts each cell to its column's type: a cut text is only text
  const columns = await sql<{ type: string }>`
    select data_type as type from information_schema.columns
    where table_schema = current_schema() and table_name = ${target} order by ordinal_position
  `.execute(db)
  const cells = columns.rows.map(({ type }, at) => sql`cells[${sql.lit(at + 1)}]::${sql.raw(type)}`)
  // one long text reaches the server many times faster than single cells
  await sql`
    insert into ${sql.table(target)} select ${sql.join(cells)}
    from (select string_to_array(line, E'\t') as cells from string_to_table(${lines.join('\n')}, E'\n') as line) as lines
  `.execute(db)
}

async function appliedNames(db: AnyDatabase): Promise<string[]> {
  const { rows } = await sql<{ found: boolean }>`select to_regclass(${table}) is not null as found`.execute(db)
  if (!rows[0]?.found) return []
  try {
    const applied = await sql<{ name: string }>`select name from ${sql.table(table)}`.execute(db)
    return applied.rows.map(({ name }) => name)
  } catch (error) {
    // other frameworks keep a table of this name, with other columns
    if (codeOf(error) === '42703') throw anothersTables(error)
    throw error
  }
}

function anothersTables(error: unknown): LeadpushError {
  return new LeadpushError('usage', `The database holds tables of another program (${messageOf(error)}).`, {
    hint: 'Give leadpush a database of its own; nothing was changed.',
  })
}

/** Whether the database's schema is this program's (`current`), older (`behind`) or of a newer program (`newer`). */
export async function schemaState(db: AnyDatabase): Promise<'current' | 'behind' | 'newer'> {
  const [names, applied] = await Promise.all([migrationNames(), appliedNames(db)])
  if (applied.some((name) => !names.includes(name))) return 'newer'
  return names.every((name) => applied.includes(name)) ? 'current' : 'behind'
}

/**
 * Applies the missing migrations and returns their names. Any number of processes may do so at once. Throws `usage` where the
 * database is newer than the program, or holds tables of another program.
 */
export async function migrate(db: AnyDatabase): Promise<string[]> {
  const state = await schemaState(db)
  if (state === 'current') return []
  if (state === 'newer') {
    throw new LeadpushError('usage', 'The database is newer than this program.', {
      hint: 'Run the newest version of leadpush on this machine too.',
    })
  }
  try {
    return await db.transaction().execute(async (transaction) => applyMissing(transaction, await migrationNames()))
  } catch (error) {
    throw codeOf(error) === '42P07' ? anothersTables(error) : error
  }
}

/** Whether this program has all of these migrations. */
export async function knowsMigrations(names: readonly string[]): Promise<boolean> {
  const known = await migrationNames()
  return names.every((name) => known.includes(name))
}

/** Gives an empty database the schema that the migrations of these names make. */
export async function migrateTo(db: AnyDatabase, names: readonly string[]): Promise<void> {
  await db.transaction().execute((transaction) => applyMissing(transaction, names))
}

async function applyMissing(transaction: AnyDatabase, names: readonly string[]): Promise<string[]> {
  // a lock of the transaction: a session's lock would stay with the PgBouncer connection, which others get
  await sql`select pg_advisory_xact_lock(${locks.migration})`.execute(transaction)
  await sql`
    create table if not exists ${sql.table(table)} (name varchar(255) primary key, "timestamp" varchar(255) not null)
  `.execute(transaction)
  const applied = new Set(await appliedNames(transaction))
  const missing = names.filter((name) => !applied.has(name))
  for (const name of missing) {
    await sql.raw(await readFile(join(folder, `${name}.sql`), 'utf8')).execute(transaction)
    await loadRows(transaction, name)
    await sql`insert into ${sql.table(table)} values (${name}, now()::text)`.execute(transaction)
  }
  return missing
}
