/**
 * A database that is not there: how it is told from a statement that is wrong, and how a short absence (a failover, a
 * restart) is ridden out.
 */
import pRetry, { AbortError } from 'p-retry'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { databaseAwayMsMax } from '../base/limits.ts'

const networkCodes = new Set([
  'ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'ENOENT', 'EACCES',
  'ENOTFOUND', 'EAI_AGAIN', 'EPERM', 'ERR_SSL_WRONG_VERSION_NUMBER',
]) // biome-ignore format: a list
/**
 * SQLSTATE classes and codes: connection exceptions, authorisation, no such database, resources, operator intervention; rights
 * that are missing; and a server that only reads, which a failover may lead to.
 */
const sqlStates = /^(08|28|53|57P|58|3D000|42501|25006|XX000$)/
/** A time limit that the server, or our role, sets for statements, locks, transactions; or somebody who cancels a statement. */
const timeLimits = /^(57014|55P03|25P0[34])$/
/** Of two transactions that wait for each other PostgreSQL ends one, which was right all the same. */
const beginAgain = /^(40001|40P01)$/
/** It waited too long for a lock: the database is there, and did nothing. */
const lockTimeout = '55P03'
/** What pg says without a code when a connection ends or cannot be had in time. */
const phrases =
  /Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|timeout expired|server does not support SSL|SASL|password must be a string|Query read timeout|self[- ]signed certificate|certificate/i

/** What a connection ends with on which nothing came for so long that the database counts as away. */
export class SilentDatabase extends Error {
  readonly code = 'ETIMEDOUT'
  constructor(silentMs: number) {
    super(`it did not answer for ${silentMs / 1_000} s`)
  }
}

/** Whether `error` says that the database cannot be reached or used, rather than that a statement failed. */
export function isDatabaseError(error: unknown): boolean {
  if (error instanceof LeadpushError) return error.code === 'database'
  const code = codeOf(error)
  if (code !== undefined && (networkCodes.has(code) || code.startsWith('ERR_TLS'))) return true
  if (code !== undefined && (sqlStates.test(code) || timeLimits.test(code))) return true
  return phrases.test(messageOf(error))
}

/**
 * Such trouble may pass by itself: not a wrong password, a database that does not exist, or a right that is missing, nor a
 * statement that takes longer than it may.
 */
function mayPass(error: unknown): boolean {
  const code = codeOf(error) ?? ''
  return beginAgain.test(code) || (isDatabaseError(error) && !/^(28|3D|42501|57014|25P04)/.test(code))
}

/** Whether the database is there and says that it did nothing of the statement, which others were in the way of. */
const saysItself = (error: unknown) => beginAgain.test(codeOf(error) ?? '') || codeOf(error) === lockTimeout

function adviseOn(code: string, message: string): string {
  if (code.startsWith('28') || /password must be a string/.test(message)) {
    return 'Check the user name and the password in DATABASE_URL.'
  }
  if (code === '3D000') return 'Create it (`createdb`), or correct the name in DATABASE_URL.'
  if (code === '42501') return 'The user in DATABASE_URL must own the tables of leadpush, or have all rights to them.'
  if (code === '25006') return 'It only reads: DATABASE_URL must lead to the primary server, not to a standby.'
  if (code === lockTimeout) {
    return 'Another program holds a lock on what is needed (pg_stat_activity shows it); running the command again goes on where it was.'
  }
  if (timeLimits.test(code)) {
    return 'Lift that limit for the user in DATABASE_URL, such as with `alter role … set statement_timeout = 0`; running the command again goes on where it was.'
  }
  if (/certificate/i.test(message)) {
    return 'A certificate authority of your own goes into NODE_EXTRA_CA_CERTS, or as sslrootcert into DATABASE_URL.'
  }
  return 'Check that PostgreSQL runs and that DATABASE_URL is right; running the command again goes on where it was.'
}

/** The same trouble as a sentence for the operator; anything else stays as it is. */
export function asDatabaseError(error: unknown): unknown {
  if (error instanceof LeadpushError || !isDatabaseError(error)) return error
  const message = messageOf(error)
  // what pg says of a missing password names a step of the protocol
  const what = /password must be a string/.test(message) ? 'it asks for a password, and none is given' : message
  return new LeadpushError('database', `The database cannot be used: ${what || codeOf(error)}`, {
    hint: adviseOn(codeOf(error) ?? '', message),
    cause: error,
  })
}

const remedies = new Set<() => Promise<void>>()

/** Registers what may bring the database back (the embedded server is started again); returns how to take that back. */
export function onDatabaseAway(remedy: () => Promise<void>): () => void {
  remedies.add(remedy)
  return () => void remedies.delete(remedy)
}

/** Of all that ride it out together, so that they give up together: since when it is away, and when that was last seen. */
const away: { sinceMs: number | undefined; seenMs: number; answeredMs: number } = {
  sinceMs: undefined,
  seenMs: 0,
  answeredMs: 0,
}

function answered(): void {
  away.sinceMs = undefined
  away.answeredMs = performance.now()
}

/** Since when the database is away, for a statement that was tried at `triedMs` and failed with `error` at `nowMs`. */
function awaySince(error: unknown, triedMs: number, nowMs: number): number {
  // nobody has asked for so long that this is another absence, which a program that runs for weeks may meet
  if (nowMs - away.seenMs > databaseAwayMsMax) away.sinceMs = undefined
  away.seenMs = nowMs
  // one that says nothing was away since it was asked
  const isSilent = error instanceof SilentDatabase || /timeout/i.test(messageOf(error))
  away.sinceMs ??= isSilent ? Math.max(triedMs, away.answeredMs) : nowMs
  return away.sinceMs
}

/**
 * Runs `work` again while the database is away, for `databaseAwayMsMax` at most; after that, a `database` error. `work`
 * must be harmless when an earlier try of it was committed without saying so.
 */
export async function rideOut<T>(work: () => Promise<T>, onAway?: (error: unknown) => void): Promise<T> {
  let triedMs = 0
  let failingSinceMs: number | undefined
  try {
    return await pRetry(
      async () => {
        triedMs = performance.now()
        try {
          const result = await work()
          answered()
          return result
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
        shouldRetry: ({ error }) => {
          const nowMs = performance.now()
          failingSinceMs ??= nowMs
          // the database may answer others, and fail at this for ever
          const isItsOwn = nowMs - failingSinceMs >= 2 * databaseAwayMsMax
          if (saysItself(error)) {
            answered()
            return !isItsOwn
          }
          return !isItsOwn && nowMs - awaySince(error, triedMs, nowMs) < databaseAwayMsMax
        },
        onFailedAttempt: async ({ error }) => {
          if (saysItself(error)) return
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
