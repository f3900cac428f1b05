/** Checks the database: presence, writing, durability, schema, rights and connections. */
import { parseDatabaseUrl } from '../../base/database-url.ts'
import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { isDatabaseError } from '../../db/away.ts'
import { belongsToNobody } from '../../db/embedded/account.ts'
import { findPaths } from '../../db/embedded/paths.ts'
import { hasEmbedded } from '../../db/embedded.ts'
import { schemaState, schemaTroubles } from '../../db/migrate.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { findRights, findServerFacts, type ServerFacts } from '../../db/survey.ts'
import { adviseOnDatabase, findDatabaseTrouble } from '../../db/trouble.ts'
import { type Found, note, problem } from '../finding.ts'
import { type Check, type CheckContext, factsOf, openedOf } from './check.ts'
import { isLocalHost } from './settings.ts'
import { judgeStandbys } from './standbys.ts'

const unreachable = 'the database cannot be reached'
/** Longer than connecting may take; the embedded server may have to recover first. */
const openMsMax = 15_000
/** The most connections that one process takes. */
const connectionsWanted = 8

async function checkDatabase(context: CheckContext): Promise<Found[]> {
  const { settings, wrong } = context.inspection
  const { databaseUrl, home = '' } = settings
  const wrongName = wrong.has('databaseUrl') ? 'DATABASE_URL' : wrong.has('home') ? 'LEADPUSH_HOME' : undefined
  if (databaseUrl === undefined && wrongName !== undefined) {
    context.noDatabase = `${wrongName} is wrong`
    return []
  }
  context.noDatabase = unreachable
  try {
    if (databaseUrl === undefined && !(await hasEmbedded(home))) {
      context.noDatabase = 'there is none yet'
      const what = `There is none yet: DATABASE_URL is not set, and ${home} holds no embedded one`
      const toDo = 'Set DATABASE_URL; or import something (`leadpush leads import FILE`), which makes the embedded one.'
      return [problem(what, toDo)]
    }
    const opened = await context.open({ databaseUrl, home })
    context.opened = opened
    context.facts = await findServerFacts(opened)
    context.noDatabase = undefined
    const isShared = databaseUrl === undefined && (await belongsToNobody(await findPaths(home)))
    return judgeConnection(opened, context.facts, databaseUrl, isShared)
  } catch (error) {
    return [judgeDatabaseError(error)]
  }
}

/** Puts an error from opening the database into words; an error of an unknown kind keeps its own message. */
function judgeDatabaseError(error: unknown): Found {
  const cause = error instanceof LeadpushError ? error.cause : error
  const [code, message] = [codeOf(cause) ?? '', messageOf(cause)]
  const trouble = cause !== undefined && isDatabaseError(cause) ? findDatabaseTrouble(code, message) : undefined
  if (trouble) return problem(`${trouble.what} (${message || code})`, trouble.toDo)
  const hint = error instanceof LeadpushError ? error.hint : undefined
  return problem(messageOf(error), hint ?? adviseOnDatabase('', '', false))
}

/** `isShared`: its files belong to a user as whom other services may run. */
function judgeConnection(
  { description }: OpenDatabase,
  { encrypted }: ServerFacts,
  databaseUrl: string | undefined,
  isShared: boolean,
): Found[] {
  const hosts = databaseUrl === undefined ? [] : parseDatabaseUrl(databaseUrl).hosts
  const abroad = hosts.find(({ host }) => host !== '' && !host.startsWith('/') && !isLocalHost(host))
  const found: Found[] = []
  if (abroad && !encrypted) {
    const what = `${abroad.host} is reached without TLS: receiver keys and contacts travel where others can read them`
    found.push(note(what, 'Add sslmode=verify-full to DATABASE_URL.'))
  }
  if (isShared) {
    const what = `${description}: its files belong to the user nobody, and other services that run as nobody can read and change them`
    const toDo =
      'Make a system user `leadpush` (`useradd --system leadpush`), run `leadpush db backup FILE`, set LEADPUSH_HOME to a new ' +
      'folder, and run `leadpush db restore FILE`: the new files belong to that user.'
    found.push(note(what, toDo))
  }
  return found
}

/** Whether a push may write, and without a time limit of the server. */
export function judgeWriting(facts: Pick<ServerFacts, 'standby' | 'readOnly' | 'statementTimeout'>): Found[] {
  const { standby, readOnly, statementTimeout } = facts
  const found: Found[] = []
  if (standby) {
    found.push(problem('The server is a standby: it only reads', 'Let DATABASE_URL lead to the primary server.'))
  } else if (readOnly) {
    const toDo = 'Take it back with `alter database … reset`, `alter role … reset`, or in postgresql.conf.'
    found.push(problem('default_transaction_read_only is on: nothing can be written', toDo))
  }
  if (statementTimeout !== '0') {
    const what = `statement_timeout is ${statementTimeout}: it ends imports, prune and every other statement that takes longer`
    found.push(note(what, 'Lift it for this role: alter role … set statement_timeout = 0.'))
  }
  return found
}

/** Whether a confirmed commit survives a crash; otherwise an attempt could be repeated. */
export function judgeDurability(facts: Pick<ServerFacts, 'fsync' | 'fullPageWrites' | 'synchronousCommit'>): Found[] {
  const settings = [
    ['fsync', facts.fsync],
    ['full_page_writes', facts.fullPageWrites],
  ] as const
  const found = settings
    .filter(([, isOn]) => !isOn)
    .map(([name]) => {
      const what = `${name} is off: after a crash of its machine the database may have forgotten attempts that were made, and send them again`
      return note(what, `Set ${name} = on in postgresql.conf.`)
    })
  if (facts.synchronousCommit === 'off') {
    const what =
      'synchronous_commit is off: a crash may take the last imports with it (attempts are always written to disk first)'
    found.push(note(what, 'Set synchronous_commit = on.'))
  }
  return found
}

async function checkSchema(context: CheckContext): Promise<Found[]> {
  context.noTables = 'its schema could not be read'
  const { db, embedded } = openedOf(context)
  const state = await schemaState(db)
  context.noTables = state === 'current' ? undefined : 'the schema is not the one of this program'
  if (state === 'current') return []
  const [message, toDo] = schemaTroubles[state]
  const isMended = embedded && state === 'behind'
  return [problem(message, isMended ? `${toDo} Every other command does so by itself.` : toDo)]
}

const shownMax = 5

function listSome(names: readonly string[]): string {
  const more = names.length - shownMax
  return `${names.slice(0, shownMax).join('; ')}${more > 0 ? `; and ${more} more` : ''}`
}

async function checkRights(context: CheckContext): Promise<Found[]> {
  const { missing, mayMigrate, mayStage } = await findRights(openedOf(context).db)
  const { role } = factsOf(context)
  const found: Found[] = []
  if (missing.length > 0) {
    context.noTables ??= 'rights are missing'
    const toDo = `As the owner: grant all on all tables in schema public to "${role}"; grant all on all sequences in schema public to "${role}".`
    found.push(problem(`The role ${role} may not do what is needed (${listSome(missing)})`, toDo))
  }
  if (!mayStage) {
    const what = `The role ${role} may not make temporary tables: imports and triggers need them`
    found.push(problem(what, `As the owner: grant temporary on database … to "${role}".`))
  }
  if (!mayMigrate) {
    const toDo = 'Run `leadpush migrate` as the owner of the tables when a new version asks for it.'
    found.push(note(`The role ${role} may not change the schema`, toDo))
  }
  return found
}

/** Behind a pooler the server's free connections do not matter. */
export function judgeConnections({
  freeConnections,
  connectionsMax,
  pooled,
}: Pick<ServerFacts, 'freeConnections' | 'connectionsMax' | 'pooled'>): Found[] {
  if (freeConnections >= connectionsWanted || pooled) return []
  const what = `Only ${freeConnections} of ${connectionsMax} are free, and a push takes up to ${connectionsWanted}`
  const toDo = 'Raise max_connections, end idle sessions, or put a PgBouncer in transaction mode before it.'
  return [(freeConnections < 1 ? problem : note)(what, toDo)]
}

/** A check of facts that were read when the server was reached. */
const ofFacts = (code: string, title: string, judge: (facts: ServerFacts) => Found[]): Check => ({
  ...{ code, title, needs: 'database' },
  run: (context) => judge(factsOf(context)),
})

export const databaseChecks: readonly Check[] = [
  { code: 'database', title: 'database', limitMs: openMsMax, run: checkDatabase },
  ofFacts('writing', 'writing', judgeWriting),
  ofFacts('durability', 'durability', judgeDurability),
  ofFacts('standbys', 'standbys', judgeStandbys),
  { code: 'schema', title: 'schema', needs: 'database', run: checkSchema },
  { code: 'rights', title: 'rights', needs: 'database', run: checkRights },
  ofFacts('connections', 'connections', judgeConnections),
]
