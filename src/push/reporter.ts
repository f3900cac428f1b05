/** The interface through which a push reports its progress: the lines of `push --json` as values, notes and waits. */
import type { RecordedAnswer } from '../deliveries/answers.ts'
import type { AttemptOutcome } from '../deliveries/attempt.ts'
import type { DeliveryLine, PushLine, SummaryLine } from '../index.ts'
import type { Hold } from './hold.ts'

interface ToldAttempt extends RecordedAnswer, Pick<AttemptOutcome, 'durationMs' | 'httpStatus' | 'error'> {
  runId: number
}

export interface PushReporter {
  /** `hold`: the reason of a skip line for a hold. */
  line(line: PushLine, hold?: Hold): void
  /** An event that people should know of, such as an outage. */
  note(text: string): void
  /** The push now waits for `what`, such as `the database`; undefined: it no longer waits. */
  waits(what: string | undefined): void
  /** About how many attempts a second the receiver allows, once it has asked for less; undefined: it has not. */
  pace(ratePerSecond: number | undefined): void
  /** The number of users to serve. */
  total(users: number): void
  attempt(attempt: ToldAttempt): void
}

/** One reporter that passes everything on to each of `reporters`. */
export function tellAll(...reporters: Partial<PushReporter>[]): PushReporter {
  const each = (tell: (reporter: Partial<PushReporter>) => void) => {
    for (const reporter of reporters) tell(reporter)
  }
  return {
    line: (line, hold) => each((reporter) => reporter.line?.(line, hold)),
    note: (text) => each((reporter) => reporter.note?.(text)),
    waits: (what) => each((reporter) => reporter.waits?.(what)),
    pace: (ratePerSecond) => each((reporter) => reporter.pace?.(ratePerSecond)),
    total: (users) => each((reporter) => reporter.total?.(users)),
    attempt: (attempt) => each((reporter) => reporter.attempt?.(attempt)),
  }
}

type ToldState = Pick<DeliveryLine, 'status' | 'attempts' | 'httpStatus' | 'error'>
type ToldDelivery = Omit<DeliveryLine, 'type' | 'user' | keyof ToldState> & { email: string | null }

/** Takes the fields of the line out of both, which may have more. */
export function toDeliveryLine(delivery: ToldDelivery, state: ToldState): DeliveryLine {
  const { email: user, kind, idempotencyKey, period, part, parts, queries, leads, bytes } = delivery
  const { status, attempts, httpStatus, error } = state
  const facts = { user, kind, idempotencyKey, period, part, parts, queries, leads, bytes }
  return { type: 'delivery', ...facts, status, attempts, httpStatus, error }
}

/** Adds up the lines of a push. */
export class Tally {
  deliveries = 0
  delivered = 0
  failed = 0
  unknown = 0
  pending = 0
  skipped = 0
  leads = 0
  bytes = 0

  /** What a run or a preview adds up to; the rest are counts of users (contract 4.15). */
  summary(of: Pick<SummaryLine, 'period' | 'users' | 'already' | 'elsewhere' | 'owed' | 'seconds'>): SummaryLine {
    const { deliveries, delivered, failed, unknown, skipped, leads, bytes } = this
    const { period, users, already, elsewhere, owed, seconds } = of
    const ended = { deliveries, delivered, failed, unknown }
    return { type: 'summary', period, users, ...ended, skipped, already, elsewhere, owed, leads, bytes, seconds }
  }

  add(line: PushLine): void {
    if (line.type === 'skip' && line.user !== undefined) this.skipped++
    if (line.type !== 'delivery') return
    this.deliveries++
    this.leads += line.leads
    this.bytes += line.bytes
    if (line.status !== 'planned') this[line.status]++
  }
}
