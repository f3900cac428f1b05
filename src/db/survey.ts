/**
 * Facts about a PostgreSQL server, for `validate`: its connection, its durability, the rights of this role.
 */
import { sql } from 'kysely'
import { isEncrypted, processIdOf } from './client.ts'
import { migrationTable } from './migrate.ts'
import type { Database, OpenDatabase } from './open.ts'

/** One look at the server; times in milliseconds. */
export interface ServerFacts {
  role: string
  /** A PgBouncer or another pooler answers instead of the server. */
  pooled: boolean
  /** Whether the connection of this process is encrypted. */
  encrypted: boolean
  /** The round trip of a statement, the fastest of some. */
  roundTripMs: number
  /** The database's clock minus this machine's, and how far off that may be. */
  aheadMs: number
  aheadErrorMs: number
  standby: boolean
  readOnly: boolean
  /** This role's limit, such as `30s`; `0` for none. */
  statementTimeout: string
  fsync: boolean
  fullPageWrites: boolean
  synchronousCommit: string
  /** `FIRST 1 (a, b)`; empty: no commit waits for a standby. */
  synchronousNames: string
  /** The `application_name` of each standby that is attached, without subscribers of logical replication and backups. */
  standbys: string[]
  /** The number of standbys that commits may wait for; null: this role may not see it. */
  synchronousStandbys: number | null
  /** How many more connections this role may open, and the limit that leaves the fewest. */
  freeConnections: number
  connectionsMax: number
}

type ServerRow = Omit<ServerFacts, 'pooled' | 'encrypted' | 'roundTripMs' | 'aheadMs' | 'aheadErrorMs'>

// counts sessions of others from data that every role may see
const facts = sql<ServerRow>`
  select current_user as role, pg_is_in_recovery() as standby,
    current_setting('default_transaction_read_only')::boolean as "readOnly",
    current_setting('statement_timeout') as "statementTimeout",
    current_setting('fsync')::boolean as fsync,
    current_setting('full_page_writes')::boolean as "fullPageWrites",
    current_setting('synchronous_commit') as "synchronousCommit",
    current_setting('synchronous_standby_names') as "synchronousNames", r.standbys, r."synchronousStandbys",
    l.most as "connectionsMax", l.free as "freeConnections"
  from (
    select most, most - used as free from (
      select current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
          - coalesce(current_setting('reserved_connections', true), '0')::integer as most,
        (select coalesce(sum(numbackends), 0)::integer from pg_stat_database) as used
      union all
      select datconnlimit, pg_stat_get_db_numbackends(oid) from pg_database
      where datname = current_database() and datconnlimit >= 0
      union all
      select rolconnlimit, (select count(*)::integer from pg_stat_activity where usesysid = r.oid) from pg_roles r
      where rolname = session_user and rolconnlimit >= 0
    ) limits
    order by most - used limit 1
  ) l, (
    -- a role without pg_read_all_stats sees that a standby is there, and not its state
    select coalesce(array_agg(application_name), '{}') as standbys,
      case when count(*) = count(sync_state) then count(*) filter (where sync_state in ('sync', 'quorum'))::integer end
        as "synchronousStandbys"
    from pg_stat_replication
    where state is distinct from 'backup'
      and pid not in (select active_pid from pg_replication_slots where slot_type = 'logical' and active_pid is not null)
  ) r
`

const trips = 3

/** Asks the server on one connection. Throws the database's errors. */
export async function findServerFacts({ db, pool }: OpenDatabase): Promise<ServerFacts> {
  const client = await pool.connect()
  try {
    const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
    // a pooler gives its client a made-up id
    const pooled = rows[0]?.pid !== processIdOf(client)
    let roundTripMs = Number.POSITIVE_INFINITY
    let aheadMs = 0
    for (let trip = 0; trip < trips; trip++) {
      const beganMs = performance.now()
      const answer = await client.query<{ ms: number }>(
        'select (extract(epoch from clock_timestamp()) * 1000)::double precision as ms',
      )
      const tookMs = performance.now() - beganMs
      if (tookMs >= roundTripMs) continue
      roundTripMs = tookMs
      aheadMs = (answer.rows[0]?.ms ?? 0) - (Date.now() - tookMs / 2)
    }
    const { rows: found } = await facts.execute(db)
    return {
      ...(found[0] as ServerRow),
      pooled,
      encrypted: isEncrypted(client),
      roundTripMs,
      aheadMs,
      aheadErrorMs: roundTripMs / 2,
    }
  } finally {
    client.release()
  }
}

/** SQL: whether the row `c` of `pg_class` is in the schema of leadpush, which only extensions share. */
const isInSchema = sql<boolean>`c.relnamespace = (select relnamespace from pg_class where oid = to_regclass(${migrationTable}))
  and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')`

/** SQL: whether the row `c` of `pg_class` is a table of leadpush. */
export const isOurTable = sql<boolean>`(c.relkind = 'r' and ${isInSchema})`

/** The rights of this role on the tables of leadpush. */
export interface Rights {
  /** Missing rights by table and sequence: `users: insert, update`. */
  missing: string[]
  /** Whether the role may bring the schema up to date. */
  mayMigrate: boolean
  /** Whether the role may make temporary tables, as imports and triggers do. */
  mayStage: boolean
}

/** Finds this role's rights. */
export async function findRights(db: Database): Promise<Rights> {
  const { rows } = await sql<{ name: string; lacking: string }>`
    select c.relname::text as name, string_agg(w.held, ', ' order by w.at) as lacking
    from pg_class c cross join lateral string_to_table(
      case c.relkind when 'r' then 'select, insert, update, delete' else 'usage, select, update' end, ', '
    ) with ordinality w (held, at)
    where c.relkind in ('r', 'S') and ${isInSchema}
      and not case c.relkind when 'r' then has_table_privilege(c.oid, w.held) else has_sequence_privilege(c.oid, w.held) end
    group by c.relname order by c.relname
  `.execute(db)
  const { rows: owned } = await sql<Omit<Rights, 'missing'>>`
    select coalesce(has_schema_privilege(current_schema(), 'create'), false)
        and not exists (select from pg_class c where ${isOurTable} and not pg_has_role(c.relowner, 'usage')) as "mayMigrate",
      has_database_privilege(current_database(), 'temporary') as "mayStage"
  `.execute(db)
  const { mayMigrate = false, mayStage = false } = owned[0] ?? {}
  return { missing: rows.map(({ name, lacking }) => `${name}: ${lacking}`), mayMigrate, mayStage }
}
