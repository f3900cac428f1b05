/** Decides whether an error means that the database is away or that a statement is wrong. */
import { DatabaseError } from 'pg'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { adviseOnDatabase, adviseOnReadOnly } from './trouble.ts'

/** Errors of connections, and of the embedded server. Errors of another part of the program may have the same code and message. */
const marked = new WeakSet<object>()

/** Marks `error`, which comes from a connection or the embedded server, as trouble with the database; returns it. */
export function markTrouble<E>(error: E): E {
  if (typeof error === 'object' && error !== null) marked.add(error)
  return error
}

/** Trouble that this folder finds by itself. */
export class DatabaseTrouble extends Error {
  constructor(message: string) {
    super(message)
    markTrouble(this)
  }
}

/**
 * SQLSTATE classes and codes: connection exceptions, authorisation, no such database, resources, operator intervention,
 * missing rights, and a read-only server, to which a failover may lead.
 */
const sqlStates = /^(08|28|53|57P|58|3D000|42501|25006|XX000$)/
/**
 * The server, or a setting of our role, limits the time of statements, locks or transactions; or somebody cancelled the
 * statement.
 */
const timeLimits = /^(57014|55P03|25P0[34])$/
/**
 * PostgreSQL ended this transaction because it conflicted with another (a deadlock, a serialisation failure): a second try may succeed.
 */
const beginAgain = /^(40001|40P01)$/
/** The statement waited too long for a lock: the database is there, and did nothing. */
export const lockTimeout = '55P03'
/** Ends a connection on which nothing came for so long that the database counts as away. */
export class SilentDatabase extends DatabaseTrouble {
  readonly code = 'ETIMEDOUT'
  constructor(silentMs: number) {
    super(`it did not answer for ${silentMs / 1_000} s`)
  }
}

/** SQLSTATE: the transaction only reads. */
export const readOnlyState = '25006'

/** What a server says about whether it can be written to. */
export interface Writability {
  standby: boolean
  reads: boolean
  settled: boolean
}

/**
 * SQL: the columns of `Writability`. A standby is settled if it follows a primary and did so before any failover can have made it a
 * standby (which takes a restart).
 */
export const writability = `pg_is_in_recovery() as standby, current_setting('transaction_read_only')::boolean as reads,
  exists (select from pg_stat_wal_receiver) and pg_postmaster_start_time() < now() - interval '20 s' as settled`

/** A server that takes no writes although they are needed: a standby, or a former primary. */
export class ReadOnlyServer extends DatabaseTrouble {
  readonly code = readOnlyState
  readonly hint = adviseOnReadOnly
  /** It stays a standby: waiting does not help. */
  readonly isSettled: boolean
  constructor({ standby, settled }: Writability) {
    super(standby ? 'it is a standby, and read-only' : 'it is read-only')
    this.isSettled = standby && settled
  }
}

/** Whether `error` says that the database cannot be reached or used, rather than that a statement failed. */
export function isDatabaseError(error: unknown): boolean {
  if (error instanceof LeadpushError) return error.code === 'database'
  if (error instanceof DatabaseError) return sqlStates.test(error.code ?? '') || timeLimits.test(error.code ?? '')
  return marked.has(error as object)
}

/** The server or this program refuses the other: a certificate, TLS or a password is missing or wrong. */
const refusals =
  /certificate|server does not support SSL|SSL required|SASL|password must be a string|WRONG_VERSION_NUMBER/i

/**
 * Whether the database is away, which may pass by itself. A wrong password, a missing database or right, a statement that exceeds its
 * time limit, TLS that one side refuses, and a server that lacks memory or disk do not count. One without a connection left does.
 */
export function isAbsence(error: unknown): boolean {
  if (error instanceof LeadpushError || !isDatabaseError(error)) return false
  const code = codeOf(error) ?? ''
  if (/^(28|3D|42501|53(?!300)|57014|25P04|ERR_TLS|ERR_SSL|EPROTO)/.test(code)) return false
  return !refusals.test(messageOf(error))
}

/** Whether the same statement may succeed later. */
export const mayPass = (error: unknown) => beginAgain.test(codeOf(error) ?? '') || isAbsence(error)

/** Whether the database answered that it did nothing, because another transaction was in the way. */
export const saysItself = (error: unknown) => beginAgain.test(codeOf(error) ?? '') || codeOf(error) === lockTimeout

/**
 * Turns trouble with the database into a `database` error with a sentence for the operator; returns any other error unchanged.
 * `isEmbedded`: the server is the one that this program starts.
 */
export function asDatabaseError(error: unknown, isEmbedded = false): unknown {
  if (error instanceof LeadpushError || !isDatabaseError(error)) return error
  const message = messageOf(error)
  // pg's own message about a missing password names a step of the protocol
  const what = /password must be a string/.test(message) ? 'it asks for a password, and none is given' : message
  return new LeadpushError('database', `The database cannot be used: ${what || codeOf(error)}`, {
    hint: adviseOnDatabase(codeOf(error) ?? '', message, isEmbedded),
    cause: error,
  })
}
