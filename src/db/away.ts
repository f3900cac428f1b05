/**
 * A database that is not there: how it is told from a statement that is wrong, and how a short absence (a failover, a
 * restart) is ridden out.
 */
import pRetry, { AbortError } from 'p-retry'
import { codeOf, LeadpushError, messageOf } from '../errors.ts'
import { databaseAwayMsMax } from '../limits.ts'

const networkCodes = new Set([
  'ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOENT', 'EACCES',
  'ENOTFOUND', 'EAI_AGAIN', 'EPERM', 'ERR_SSL_WRONG_VERSION_NUMBER',
]) // biome-ignore format: a list
/**
 * SQLSTATE classes and codes: connection exceptions, authorisation, no such database, resources, operator intervention; and a
 * server that only reads, which a failover may lead to.
 */
const sqlStates = /^(08|28|53|57P|58|3D000|25006|XX000$)/
/** Of two transactions that wait for each other PostgreSQL ends one, which was right all the same. */
const beginAgain = /^(40001|40P01)$/
/** What pg says without a code when a connection ends or cannot be had in time. */
const phrases =
  /Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|timeout expired|server does not support SSL|SASL|password must be a string|Query read timeout|self[- ]signed certificate|certificate/i

/** Whether `error` says that the database cannot be reached or used, rather than that a statement failed. */
export function isDatabaseError(error: unknown): boolean {
  if (error instanceof LeadpushError) return error.code === 'database'
  const code = codeOf(error)
  if (code !== undefined && (networkCodes.has(code) || sqlStates.test(code) || code.startsWith('ERR_TLS'))) return true
  return phrases.test(messageOf(error))
}

/** Such trouble may pass by itself: not a wrong password, not a database that does not exist. */
function mayPass(error: unknown): boolean {
  const code = codeOf(error) ?? ''
  return beginAgain.test(code) || (isDatabaseError(error) && !/^(28|3D)/.test(code))
}

/** The same trouble as a sentence for the operator; anything else stays as it is. */
export function asDatabaseError(error: unknown): unknown {
  if (error instanceof LeadpushError || !isDatabaseError(error)) return error
  return new LeadpushError('database', `The database cannot be used: ${messageOf(error) || codeOf(error)}`, {
    hint: 'Check that PostgreSQL runs and that DATABASE_URL is right; running the command again goes on where it was.',
    cause: error,
  })
}

const remedies = new Set<() => Promise<void>>()

/** Registers what may bring the database back (the embedded server is started again); returns how to take that back. */
export function onDatabaseAway(remedy: () => Promise<void>): () => void {
  remedies.add(remedy)
  return () => void remedies.delete(remedy)
}

/**
 * Runs `work` again while the database is away, for `databaseAwayMsMax` at most; after that, a `database` error. `work`
 * must be harmless when an earlier try of it was committed without saying so.
 */
export async function rideOut<T>(work: () => Promise<T>, onAway?: (error: unknown) => void): Promise<T> {
  const awaySince: { at?: number } = {}
  try {
    return await pRetry(
      async () => {
        try {
          return await work()
        } catch (error) {
          // p-retry keeps network-like TypeErrors apart; what is worth a retry is decided here alone
          throw mayPass(error) ? (error as Error) : new AbortError(error as Error)
        }
      },
      {
        retries: Number.POSITIVE_INFINITY,
        minTimeout: 100,
        maxTimeout: 2_000,
        randomize: true,
        shouldRetry: () => {
          awaySince.at ??= Date.now()
          return Date.now() - awaySince.at < databaseAwayMsMax
        },
        onFailedAttempt: async ({ error }) => {
          onAway?.(error)
          // what they fail with, the next try meets too
          await Promise.allSettled([...remedies].map((remedy) => remedy()))
        },
      },
    )
  } catch (error) {
    throw asDatabaseError(error)
  }
}
