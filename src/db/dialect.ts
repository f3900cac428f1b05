/**
 * Kysely's dialect for PostgreSQL. A statement outside of a transaction is ridden out with the patience of the open database if it reads,
 * or if its author marked it as `repeatable`; each try takes a connection of its own. Each transaction says its isolation: database,
 * role or server may have another default, and a setting of the session would not reach the server behind a PgBouncer.
 */
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Driver as PooledDriver,
  PostgresDialect,
  type PostgresDialectConfig,
  PostgresDriver,
  type QueryResult,
  type RawBuilder,
  sql,
  type TransactionSettings,
} from 'kysely'
import type { Patience } from './patience.ts'

/**
 * Each statement sees what was committed before it: an erasure ends deliveries that were begun while it waited. A statement alone needs
 * nothing: with another default the server refuses it where it would differ, and it is tried again.
 */
export const isolationLevel = 'read committed'

/**
 * SQL that marks a writing statement as repeatable: it does no harm if it was committed, its answer was lost, and it runs again. `why`
 * says so to the reader.
 */
export const repeatable = (why: string): RawBuilder<never> => sql.raw(`/* repeatable: ${why} */`)

const marked = /\/\* repeatable: /
const comment = /--[^\n]*/g
const reading = /^[\s(]*(select|with)\b/i
/** Words of statements that write or lock, and functions that do; a value never stands in the text. */
const writing =
  /\b(insert|update|delete|merge|share|record_\w+|hold_data_key|set_config|pg_\w*advisory\w*|nextval|setval|pg_notify)\b/i

/** Whether a statement may be tried again although its first try may have been committed. */
export function mayRepeat(text: string): boolean {
  if (marked.test(text)) return true
  const bare = text.replace(comment, '')
  return reading.test(bare) && !writing.test(bare)
}

/** Takes a connection of the pool for each statement, until a transaction keeps one. */
class LooseConnection implements DatabaseConnection {
  private kept: DatabaseConnection | undefined
  private readonly pool: PooledDriver
  private readonly patience: Patience | undefined

  constructor(pool: PooledDriver, patience: Patience | undefined) {
    this.pool = pool
    this.patience = patience
  }

  async keep(): Promise<void> {
    this.kept = await this.pool.acquireConnection()
  }

  async release(): Promise<void> {
    if (this.kept) await this.pool.releaseConnection(this.kept)
    this.kept = undefined
  }

  async executeQuery<R>(query: CompiledQuery): Promise<QueryResult<R>> {
    if (this.kept) return await this.kept.executeQuery<R>(query)
    const once = async () => {
      const connection = await this.pool.acquireConnection()
      try {
        return await connection.executeQuery<R>(query)
      } finally {
        await this.pool.releaseConnection(connection)
      }
    }
    return this.patience && mayRepeat(query.sql) ? await this.patience.rideOut(once) : await once()
  }

  streamQuery(): never {
    throw new Error('no statement is streamed: leadpush reads by pages')
  }
}

class Driver extends PostgresDriver {
  private readonly pooled: PostgresDriver
  private readonly patience: Patience | undefined

  constructor(config: PostgresDialectConfig, patience: Patience | undefined) {
    super(config)
    this.pooled = new PostgresDriver(config)
    this.patience = patience
  }

  override async init(): Promise<void> {
    await this.pooled.init()
  }

  override async acquireConnection(): Promise<LooseConnection> {
    return new LooseConnection(this.pooled, this.patience)
  }

  override async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    await (connection as LooseConnection).keep()
    await super.beginTransaction(connection, { ...settings, isolationLevel: settings.isolationLevel ?? isolationLevel })
  }

  override async releaseConnection(connection: DatabaseConnection): Promise<void> {
    await (connection as LooseConnection).release()
  }

  override async destroy(): Promise<void> {
    await this.pooled.destroy()
  }
}

export class Dialect extends PostgresDialect {
  private readonly config: PostgresDialectConfig
  private readonly patience: Patience | undefined

  /** Without `patience` each statement is tried once. */
  constructor(config: PostgresDialectConfig, patience?: Patience) {
    super(config)
    this.config = config
    this.patience = patience
  }

  override createDriver(): Driver {
    return new Driver(this.config, this.patience)
  }
}
