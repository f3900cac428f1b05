/**
 * Decides whether an error means that the database is away or that a statement is wrong, and rides out a short absence (a
 * failover, a restart).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DatabaseError } from 'pg'
import { plural } from '../base/amounts.ts'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { databaseAwayMsDefault } from '../base/limits.ts'
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
  readonly code = '25006'
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

/** Why this process no longer rides out absences. */
let givenUp: LeadpushError | undefined

/**
 * Whether the database is away, which may pass by itself. A wrong password, a missing database or right, a statement that exceeds its
 * time limit, TLS that one side refuses, and a server that lacks memory or disk do not count. One without a connection left does.
 */
export function isAbsence(error: unknown): boolean {
  if (givenUp || error instanceof LeadpushError || !isDatabaseError(error)) return false
  const code = codeOf(error) ?? ''
  if (/^(28|3D|42501|53(?!300)|57014|25P04|ERR_TLS|ERR_SSL|EPROTO)/.test(code)) return false
  return !refusals.test(messageOf(error))
}

/** Whether the same statement may succeed later. */
const mayPass = (error: unknown) => beginAgain.test(codeOf(error) ?? '') || isAbsence(error)

/** Whether the database answered that it did nothing, because another transaction was in the way. */
const saysItself = (error: unknown) => beginAgain.test(codeOf(error) ?? '') || codeOf(error) === lockTimeout

const remedies = new Set<() => Promise<void>>()

/**
 * Turns trouble with the database into a `database` error with a sentence for the operator; returns any other error
 * unchanged.
 */
export function asDatabaseError(error: unknown): unknown {
  if (error instanceof LeadpushError || !isDatabaseError(error)) return error
  if (givenUp) return givenUp
  const message = messageOf(error)
  // pg's own message about a missing password names a step of the protocol
  const what = /password must be a string/.test(message) ? 'it asks for a password, and none is given' : message
  return new LeadpushError('database', `The database cannot be used: ${what || codeOf(error)}`, {
    // only the embedded database has a remedy
    hint: adviseOnDatabase(codeOf(error) ?? '', message, remedies.size > 0),
    cause: error,
  })
}

/**
 * Registers a remedy that may bring the database back (such as starting the embedded server again); returns a function that
 * removes it.
 */
export function onDatabaseAway(remedy: () => Promise<void>): () => void {
  remedies.add(remedy)
  return () => void remedies.delete(remedy)
}

/** Shared by all callers of `rideOut`, so that they give up together: when the absence began, and when it was last seen. */
const away: { sinceMs: number | undefined; seenMs: number; answeredMs: number } = {
  sinceMs: undefined,
  seenMs: 0,
  answeredMs: 0,
}

function answered(): void {
  away.sinceMs = undefined
  away.answeredMs = performance.now()
}

/** How long an absence is ridden out, for each open database; the last one counts. */
const limits: { awayMsMax: number }[] = []

const findAwayMsMax = () => limits.at(-1)?.awayMsMax ?? databaseAwayMsDefault

/** Sets how long an absence of the database is ridden out (`LEADPUSH_DATABASE_AWAY`). Returns a function that ends this. */
export function limitAbsence(awayMsMax: number): () => void {
  const limit = { awayMsMax }
  limits.push(limit)
  givenUp = undefined
  away.sinceMs = undefined
  return () => {
    limits.splice(limits.indexOf(limit), 1)
    givenUp = undefined
  }
}

/** The wait for the database is over: from now on its trouble does not count as an absence, and is reported as `error`. */
export function giveUp(error: LeadpushError): void {
  givenUp = error
}

/** How long an absence is ridden out, for people. */
export function formatAwayMax(): string {
  const awayMsMax = findAwayMsMax()
  return awayMsMax % 60_000 === 0 ? plural(awayMsMax / 60_000, 'minute') : `${awayMsMax / 1_000} s`
}

/** The message about an absence for an operator; `where` is host and port. */
export function describeAbsence(error: unknown, where?: string): string {
  const cause = messageOf(error) || codeOf(error)
  const place = where === undefined ? '' : ` at ${where}`
  return `The database${place} is away (${cause}): waiting for it, for ${formatAwayMax()} at most.`
}

/** After so long without a statement an absence counts as a new one: a program that runs for weeks may meet several. */
const gapMs = 60_000
/** The database may answer other statements and fail at one for ever: this one is tried for at least so long. */
const ownTroubleMs = 60_000

/** How long the database has been away, for a statement that was tried at `triedMs` and failed with `error` at `nowMs`. */
function findAwayMs(error: unknown, triedMs: number, nowMs: number): number {
  if (nowMs - away.seenMs > gapMs) away.sinceMs = undefined
  away.seenMs = nowMs
  // a silent database was away already when it was asked
  const isSilent = error instanceof SilentDatabase || /timeout/i.test(messageOf(error))
  away.sinceMs ??= isSilent ? Math.max(triedMs, away.answeredMs) : nowMs
  // a failure counts from when its try began: a process that was frozen notes it long after
  return Math.max(0, (isSilent ? nowMs : triedMs) - away.sinceMs)
}

/** Whether to try a statement again that failed with `error` at its last try, `triedMs`, and has failed since `failingSinceMs`. */
function goesOn(error: unknown, triedMs: number, failingSinceMs: number): boolean {
  if (!mayPass(error)) return false
  const nowMs = performance.now()
  const isItsOwn = nowMs - failingSinceMs >= Math.max(ownTroubleMs, 2 * findAwayMsMax())
  if (saysItself(error)) answered()
  return !isItsOwn && (saysItself(error) || findAwayMs(error, triedMs, nowMs) < findAwayMsMax())
}

/** The pause before the second try; twice as long before each later one, and up to twice that, so that processes drift apart. */
const pauseMsMin = 100
const pauseMsMax = 2_000

/**
 * Runs `work` again while the database is away, for `LEADPUSH_DATABASE_AWAY` at most; after that, a `database` error. `work` must be
 * harmless if an earlier call was committed and its answer was lost: `isRepeat` says that this is possible.
 */
export async function rideOut<T>(
  work: (isRepeat: boolean) => Promise<T>,
  onAway?: (error: unknown) => void,
): Promise<T> {
  let isRepeat = false
  let failingSinceMs: number | undefined
  for (let pauseMs = pauseMsMin; ; pauseMs = 2 * pauseMs) {
    const triedMs = performance.now()
    try {
      const result = await work(isRepeat)
      answered()
      return result
    } catch (error) {
      failingSinceMs ??= performance.now()
      if (!goesOn(error, triedMs, failingSinceMs)) throw asDatabaseError(error)
      if (!saysItself(error)) {
        isRepeat = true
        onAway?.(error)
        // a remedy's error is ignored: the next try meets the same trouble
        await Promise.allSettled([...remedies].map((remedy) => remedy()))
      }
    }
    await sleep(Math.min(pauseMs * (1 + Math.random()), pauseMsMax))
  }
}
