/**
 * Kysely's dialect for PostgreSQL, in which each transaction says its isolation. Database, role or server may have another default, and
 * a setting of the session would not reach the server behind a PgBouncer, or would stay there for others.
 */
import {
  type DatabaseConnection,
  PostgresDialect,
  type PostgresDialectConfig,
  PostgresDriver,
  type TransactionSettings,
} from 'kysely'

/**
 * Each statement sees what was committed before it: an erasure ends deliveries that were begun while it waited. A statement alone needs
 * nothing: with another default the server refuses it where it would differ, and `rideOut` repeats it.
 */
export const isolationLevel = 'read committed'

class Driver extends PostgresDriver {
  override async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    await super.beginTransaction(connection, { ...settings, isolationLevel: settings.isolationLevel ?? isolationLevel })
  }
}

export class Dialect extends PostgresDialect {
  private readonly config: PostgresDialectConfig

  constructor(config: PostgresDialectConfig) {
    super(config)
    this.config = config
  }

  override createDriver(): Driver {
    return new Driver(this.config)
  }
}
