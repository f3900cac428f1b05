/**
 * Brings the schema up to date with the numbered files in `sql/`, under a lock and in one transaction. Rows that belong to a
 * migration are in a `.tsv` file of the same name, which its line `-- rows: FILE` demands: one table, with cells in the order of its columns.
 */
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Kysely, sql } from 'kysely'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { packageRoot } from '../base/package-root.ts'
import { locks } from './locks.ts'

const ownFolder = join(packageRoot, 'sql')
export const migrationTable = 'schema_migrations'

// biome-ignore lint/suspicious/noExplicitAny: a migration meets every schema there ever was
type AnyDatabase = Kysely<any>

interface Migration {
  name: string
  text: string
  /** The checksum of the text: the file may have changed since then. */
  checksum: string
}

/** Those in `folder`, in their order. */
async function readMigrations(folder: string): Promise<Migration[]> {
  const files = (await readdir(folder)).filter((file) => /^\d{6}_\w+\.sql$/.test(file)).sort()
  return await Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(folder, file), 'utf8')
      return { name: file.slice(0, -4), text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

async function loadRows(db: AnyDatabase, folder: string, { name, text: statements }: Migration): Promise<void> {
  const file = /^-- rows: (\S+)$/m.exec(statements)?.[1]
  if (file === undefined) return
  const text = await readFile(join(folder, file), 'utf8').catch((error) => {
    throw new LeadpushError('usage', `The file ${file} of this program cannot be read: ${messageOf(error)}`, {
      hint: 'Install leadpush again; nothing was changed.',
    })
  })
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
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

/** The migrations of the database by name, with their checksums; null if the database is older than checksums. */
async function findApplied(db: AnyDatabase): Promise<Map<string, string | null>> {
  const { rows } = await sql<{ found: boolean }>`select to_regclass(${migrationTable}) is not null as found`.execute(db)
  if (!rows[0]?.found) return new Map()
  try {
    const applied = await sql<{ name: string; checksum: string | null }>`
      select name, to_jsonb(m) ->> 'checksum' as checksum from ${sql.table(migrationTable)} m`.execute(db)
    return new Map(applied.rows.map(({ name, checksum }) => [name, checksum]))
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

/**
 * Whether the database's schema is this program's (`current`), older (`behind`), of a newer program (`newer`), or was made by files that have
 * changed since (`changed`).
 */
export type SchemaState = 'current' | 'behind' | 'newer' | 'changed'

function judgeApplied(migrations: readonly Migration[], applied: ReadonlyMap<string, string | null>): SchemaState {
  const checksums = new Map(migrations.map(({ name, checksum }) => [name, checksum]))
  if ([...applied.keys()].some((name) => !checksums.has(name))) return 'newer'
  if ([...applied].some(([name, checksum]) => checksum !== checksums.get(name))) return 'changed'
  return applied.size === migrations.length ? 'current' : 'behind'
}

/** `folder`: where the migrations are, for a test. */
export async function schemaState(db: AnyDatabase, folder = ownFolder): Promise<SchemaState> {
  const [migrations, applied] = await Promise.all([readMigrations(folder), findApplied(db)])
  return judgeApplied(migrations, applied)
}

/** What is wrong with a schema, and what to do; the ends of a command's error messages. */
export const schemaTroubles = {
  behind: ['The schema of the database is behind this program.', 'Run `leadpush migrate` first.'],
  newer: ['The database is newer than this program.', 'Run the newest version of leadpush on this machine too.'],
  changed: [
    'The database was made by an earlier state of this program, whose migrations have changed since.',
    'Take the leadpush that made it, or give this one a new database (another LEADPUSH_HOME, or an empty one in DATABASE_URL) and import again.',
  ],
} as const satisfies Record<Exclude<SchemaState, 'current'>, readonly [what: string, toDo: string]>

export function schemaError(state: keyof typeof schemaTroubles): LeadpushError {
  const [message, hint] = schemaTroubles[state]
  return new LeadpushError('usage', message, { hint })
}

/**
 * Applies the missing migrations and returns their names. Any number of processes may do so at once. Throws `usage` if the database is
 * newer than the program, was made by other files, or has tables of another program. `folder`: where the migrations are, for a test.
 */
export async function migrate(db: AnyDatabase, folder = ownFolder): Promise<string[]> {
  const state = await schemaState(db, folder)
  if (state === 'current') return []
  if (state !== 'behind') throw schemaError(state)
  try {
    return await db.transaction().execute((transaction) => applyMissing(transaction, folder))
  } catch (error) {
    throw codeOf(error) === '42P07' ? anothersTables(error) : error
  }
}

/** Whether this program has all of these migrations. */
export async function knowsMigrations(names: readonly string[]): Promise<boolean> {
  const known = new Set((await readMigrations(ownFolder)).map(({ name }) => name))
  return names.every((name) => known.has(name))
}

/** Gives an empty database the schema that the migrations of these names make. */
export async function migrateTo(db: AnyDatabase, names: readonly string[]): Promise<void> {
  await db.transaction().execute((transaction) => applyMissing(transaction, ownFolder, names))
}

/** `only`: the names of the wanted migrations. */
async function applyMissing(transaction: AnyDatabase, folder: string, only?: readonly string[]): Promise<string[]> {
  // a lock of the transaction: a session's lock would stay with the PgBouncer connection, which others get
  await sql`select pg_advisory_xact_lock(${locks.migration})`.execute(transaction)
  await sql`
    create table if not exists ${sql.table(migrationTable)} (
      name varchar(255) primary key, "timestamp" varchar(255) not null, checksum text not null)
  `.execute(transaction)
  const migrations = await readMigrations(folder)
  const applied = await findApplied(transaction)
  const missing = migrations.filter(({ name }) => !applied.has(name) && (only === undefined || only.includes(name)))
  for (const migration of missing) {
    await sql.raw(migration.text).execute(transaction)
    await loadRows(transaction, folder, migration)
    await sql`insert into ${sql.table(migrationTable)} (name, "timestamp", checksum)
      values (${migration.name}, now()::text, ${migration.checksum})`.execute(transaction)
  }
  return missing.map(({ name }) => name)
}
