/** Checks the database: presence, writing, durability, schema, rights and connections. */
import { parseDatabaseUrl } from '../../base/database-url.ts'
import { belongsToNobody } from '../../db/embedded/account.ts'
import { findPaths } from '../../db/embedded/paths.ts'
import { hasEmbedded } from '../../db/embedded.ts'
import { schemaState, schemaTroubles } from '../../db/migrate.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { findRights, findServerFacts, type ServerFacts } from '../../db/survey.ts'
import { isLocalHost } from '../validate/settings.ts'
import {
  type Check,
  type CheckContext,
  failure,
  formatMs,
  judge,
  skipped,
  type Trouble,
  type Verdict,
  warning,
} from './check.ts'
import { judgeDatabaseError } from './database-trouble.ts'
import { standbysCheck } from './standbys.ts'

const unreachable = 'the database cannot be reached'
/** Longer than connecting may take; the embedded server may have to recover first. */
const openMsMax = 15_000
/** The most connections that one process takes. */
const connectionsWanted = 8

async function checkDatabase(context: CheckContext): Promise<Verdict> {
  const { settings, wrong } = context.inspection
  const { databaseUrl, home = '' } = settings
  const wrongName = wrong.has('databaseUrl') ? 'DATABASE_URL' : wrong.has('home') ? 'LEADPUSH_HOME' : undefined
  if (databaseUrl === undefined && wrongName !== undefined) {
    context.noDatabase = `${wrongName} is wrong`
    return skipped(context.noDatabase)
  }
  if (databaseUrl === undefined && !(await hasEmbedded(home))) {
    context.noDatabase = 'there is none yet'
    const message = `There is none yet: DATABASE_URL is not set, and ${home} holds no embedded one.`
    const remedy = 'Set DATABASE_URL; or import something (`leadpush leads import FILE`), which makes the embedded one.'
    return judge('', [failure(message, remedy)])
  }
  context.noDatabase = unreachable
  try {
    const opened = await context.open({ databaseUrl, home })
    context.opened = opened
    context.facts = await findServerFacts(opened)
    context.noDatabase = undefined
    const isShared = databaseUrl === undefined && (await belongsToNobody(await findPaths(home)))
    return judgeConnection(opened, context.facts, databaseUrl, isShared)
  } catch (error) {
    return judge('', [judgeDatabaseError(error)])
  }
}

/** `isShared`: its files belong to a user as whom other services may run. */
function judgeConnection(
  opened: OpenDatabase,
  facts: ServerFacts,
  databaseUrl: string | undefined,
  isShared: boolean,
): Verdict {
  const { version, encoding, pooled, encrypted, roundTripMs } = facts
  const hosts = databaseUrl === undefined ? [] : parseDatabaseUrl(databaseUrl).hosts
  const abroad = hosts.find(({ host }) => host !== '' && !host.startsWith('/') && !isLocalHost(host))
  const way = opened.embedded ? '' : `, ${pooled ? 'through a pooler' : 'direct'}, ${encrypted ? '' : 'no '}TLS`
  const troubles: Trouble[] = []
  if (abroad && !encrypted) {
    const message = `${abroad.host} is reached without TLS: receiver keys and contacts travel where others can read them.`
    troubles.push(warning(message, 'Add sslmode=verify-full to DATABASE_URL.'))
  }
  if (isShared) {
    const message = `${opened.description}: its files belong to the user nobody, and other services that run as nobody can read and change them.`
    const remedy =
      'Make a system user `leadpush` (`useradd --system leadpush`), run `leadpush db backup FILE`, set LEADPUSH_HOME to a new ' +
      'folder, and run `leadpush db restore FILE`: the new files belong to that user.'
    troubles.push(warning(message, remedy))
  }
  return judge(
    `${opened.description}: PostgreSQL ${version}, ${encoding}${way}, ${formatMs(roundTripMs)} there and back`,
    troubles,
  )
}

const factsOf = ({ facts }: CheckContext): ServerFacts => facts as ServerFacts
const openedOf = ({ opened }: CheckContext): OpenDatabase => opened as OpenDatabase

/** Whether a push may write, and without a time limit of the server. */
export function judgeWriting(facts: Pick<ServerFacts, 'standby' | 'readOnly' | 'statementTimeout'>): Verdict {
  const { standby, readOnly, statementTimeout } = facts
  const troubles: Trouble[] = []
  if (standby) {
    troubles.push(failure('The server is a standby: it only reads.', 'Let DATABASE_URL lead to the primary server.'))
  } else if (readOnly) {
    const remedy = 'Take it back with `alter database … reset`, `alter role … reset`, or in postgresql.conf.'
    troubles.push(failure('default_transaction_read_only is on: nothing can be written.', remedy))
  }
  if (statementTimeout !== '0') {
    const message = `statement_timeout is ${statementTimeout}: it ends imports, prune and every other statement that takes longer.`
    troubles.push(warning(message, 'Lift it for this role: alter role … set statement_timeout = 0.'))
  }
  return judge('it is a primary server, and may be written to', troubles)
}

/** Whether what the server confirms survives a crash; without that, an attempt could be repeated. */
export function judgeDurability(facts: Pick<ServerFacts, 'fsync' | 'fullPageWrites' | 'synchronousCommit'>): Verdict {
  const troubles: Trouble[] = []
  const settings = [
    ['fsync', facts.fsync],
    ['full_page_writes', facts.fullPageWrites],
  ] as const
  for (const [name, isOn] of settings) {
    if (isOn) continue
    const message = `${name} is off: after a crash of its machine the database may have forgotten attempts that were made, and send them again.`
    troubles.push(warning(message, `Set ${name} = on in postgresql.conf.`))
  }
  if (facts.synchronousCommit === 'off') {
    const message =
      'synchronous_commit is off: a crash may take the last imports with it (attempts are always written to disk first).'
    troubles.push(warning(message, 'Set synchronous_commit = on.'))
  }
  return judge('what it confirmed survives a crash of its machine', troubles)
}

async function checkSchema(context: CheckContext): Promise<Verdict> {
  context.noTables = 'its schema could not be read'
  const { db, embedded } = openedOf(context)
  const state = await schemaState(db)
  context.noTables = state === 'current' ? undefined : 'the schema is not the one of this program'
  if (state === 'current') return judge('it is the one of this program', [])
  const [message, remedy] = schemaTroubles[state]
  const isMended = embedded && state === 'behind'
  return judge('', [failure(message, isMended ? `${remedy} Every other command does so by itself.` : remedy)])
}

const shownMax = 5

function listSome(names: readonly string[]): string {
  const more = names.length - shownMax
  return `${names.slice(0, shownMax).join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}

async function checkRights(context: CheckContext): Promise<Verdict> {
  const { missing, mayMigrate, mayStage } = await findRights(openedOf(context).db)
  const { role } = factsOf(context)
  const troubles: Trouble[] = []
  if (missing.length > 0) {
    context.noTables ??= 'rights are missing'
    const remedy = `As the owner: grant all on all tables in schema public to "${role}"; grant all on all sequences in schema public to "${role}".`
    troubles.push(failure(`The role ${role} may not do what is needed (${listSome(missing)}).`, remedy))
  }
  if (!mayStage) {
    const message = `The role ${role} may not make temporary tables: imports and triggers need them.`
    troubles.push(failure(message, `As the owner: grant temporary on database … to "${role}".`))
  }
  if (!mayMigrate) {
    const message = `The role ${role} may not change the schema.`
    troubles.push(warning(message, 'Run `leadpush migrate` as the owner of the tables when a new version asks for it.'))
  }
  return judge(`${role} may do all that is needed`, troubles)
}

/** Behind a pooler the server's free connections do not matter. */
export function judgeConnections({ freeConnections, connectionsMax, pooled }: ServerFacts): Verdict {
  const well = `${freeConnections} of ${connectionsMax} are free`
  if (freeConnections >= connectionsWanted || pooled) return judge(pooled ? `${well} behind the pooler` : well, [])
  const message = `Only ${freeConnections} of ${connectionsMax} are free, and a push takes up to ${connectionsWanted}.`
  const remedy = 'Raise max_connections, end idle sessions, or put a PgBouncer in transaction mode before it.'
  return judge('', [freeConnections < 1 ? failure(message, remedy) : warning(message, remedy)])
}

export const databaseChecks: readonly Check[] = [
  { name: 'database', title: 'Database', limitMs: openMsMax, run: checkDatabase },
  { name: 'writing', title: 'Writing', needs: 'database', run: async (context) => judgeWriting(factsOf(context)) },
  {
    name: 'durability',
    title: 'Durability',
    needs: 'database',
    run: async (context) => judgeDurability(factsOf(context)),
  },
  standbysCheck,
  { name: 'schema', title: 'Schema', needs: 'database', run: checkSchema },
  { name: 'rights', title: 'Rights', needs: 'database', run: checkRights },
  {
    name: 'connections',
    title: 'Connections',
    needs: 'database',
    run: async (context) => judgeConnections(factsOf(context)),
  },
]
