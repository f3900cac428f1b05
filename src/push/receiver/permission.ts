/** What may begin now, by the receiver's health (contract 4.12). Pure. */
import { outageLookMs } from '../../base/limits.ts'
import type { AttemptKind } from '../../deliveries/due.ts'
import {
  drawnAfter,
  drawsOnly,
  type Health,
  isSecondsAlone,
  neededInARow,
  type Open,
  type Rules,
  secondsWait,
  type WhyOver,
} from './health.ts'
import { isAlike } from './trouble.ts'

/** An hourly push that begins a moment too early waits: otherwise it would make its try only every other hour. */
const nearlyDueMs = 60_000

/** Whether an attempt that is recorded may go out, beside `onWire` others: in trouble the granted try alone. */
export function maySend(health: Health, onWire: number): boolean {
  return health.is === 'trouble' ? health.mine !== undefined && onWire === 0 : health.is !== 'over'
}

/** The attempts at hand. */
export interface Work {
  /** Attempts that are recorded or being made. */
  open: number
  /** Those of drawn users among them. */
  drawn?: number
  /** The attempt that could be tried; undefined: that is not known yet. `inMs`: when a second one is due. */
  next?: undefined | { is: AttemptKind | 'nothing'; inMs?: number }
}

export type Permission =
  /** So many attempts may be recorded; `drawn`: those of drawn users alone; `looks`: a second one after a sign of life. */
  | { is: 'go'; firsts: number; seconds: number; drawn: boolean; looks: boolean }
  /** One attempt may be made, if other processes leave it to this one. */
  | { is: 'try'; kind: AttemptKind }
  | { is: 'wait'; ms: number }
  | { is: 'end'; why: WhyOver | { by: 'nothing left' } }

const all = Number.POSITIVE_INFINITY

export function ask(health: Health, { open, drawn = 0, next }: Work, now: number, rules: Rules): Permission {
  if (health.is === 'over') return { is: 'end', why: health.why }
  if (health.is === 'open') return go(health, open, drawn, rules)
  if (next === undefined) return { is: 'wait', ms: outageLookMs }
  if (next.is === 'nothing') return { is: 'end', why: { by: 'nothing left' } }
  const { trouble, known, since, secondAt } = health
  const nextAt = next.is === 'second' ? Math.max(health.nextAt, secondAt, now + (next.inMs ?? 0)) : health.nextAt
  const untilNextMs = nextAt - now
  if (untilNextMs <= 0) return { is: 'try', kind: next.is }
  if (trouble.is === 'refuses') {
    if (untilNextMs > nearlyDueMs)
      return { is: 'end', why: { by: 'refusal', known, status: trouble.status, untilNextMs } }
  } else if (now - since >= rules.patienceMs)
    return { is: 'end', why: { by: trouble.is === 'down' ? 'outage' : 'asking', known } }
  return { is: 'wait', ms: Math.min(outageLookMs, untilNextMs) }
}

function go(health: Open, open: number, drawn: number, rules: Rules): Permission {
  const { isMixed, alike, inARow, early, isEverybody, theirs } = health
  const isDrawing = drawsOnly(health, rules)
  const needed = neededInARow(health, rules) - inARow
  // few at first: mostly one of them shows that the receiver is well; all at once where many under way have failed
  const few = 2 + inARow - drawnAfter(health, rules)
  const draws = inARow + early < rules.inARow ? Math.min(few, needed) : needed
  const firsts = isDrawing
    ? Math.max(0, draws - drawn)
    : isMixed
      ? all
      : Math.max(0, (isEverybody ? needed : rules.drawnAfter.unproven - inARow) - open)
  const looks = isSecondsAlone(health, rules)
  const isOneByOne = looks || (theirs && isAlike(alike, theirs)) || (!isMixed && (theirs ?? alike) !== undefined)
  const seconds = isOneByOne ? Math.max(0, 1 - open) : isDrawing ? firsts : all
  return { is: 'go', firsts, seconds: secondsWait(health) ? 0 : seconds, drawn: isDrawing, looks }
}
