/**
 * The receiver's health as one state machine (contract 4.5, 4.12): the knowledge of the receiver as a whole, the next state after an
 * event, and what may begin now. Pure: times are milliseconds of one monotonic clock, given by the caller. `test/unit/health.test.ts`
 * walks every state that few users can reach.
 *
 * | state | event | next state |
 * | --- | --- | --- |
 * | unproven | an answer without trouble, or a second attempt with another answer | mixed |
 * | unproven | a first attempt that ends like those before | unproven; at the 20th that trouble |
 * | unproven | a first attempt that ends in another trouble | mixed; unproven if a trouble stands |
 * | unproven | no first attempts are left | that trouble if all of at least 2 ended alike, else unproven, and second ones go |
 * | mixed | a first attempt that ends in trouble | mixed, and second ones wait; at the 20th alike in a row that trouble |
 * | mixed | an answer without trouble, a second attempt with another answer, or no first attempts left | mixed, and second ones go |
 * | trouble | the try is granted | trouble, with the try |
 * | trouble | the granted try is not made | trouble, and the try is given back |
 * | trouble | an attempt that ends alike | trouble, without the try: the next one comes later |
 * | trouble | an answer of another kind | unproven with that answer; the trouble stands until more is known |
 * | trouble (down) | others have reached the receiver | trouble, with one try at once |
 * | trouble (refuses) | others got another answer | unproven |
 * | any | others have found it down | trouble |
 * | any | others have found that it refuses | trouble for a push that begins, else over |
 * | trouble (down) | the patience is over, and no try is due | over |
 * | trouble (refuses) | the next try is more than a minute away | over |
 *
 * A receiver that is down is waited for. One that refuses, or whose successes show nothing, ends the push that finds it so at once.
 */
import {
  alikeMin,
  outageCheckMs,
  outageLookMs,
  outagePauseMs,
  outagePauseMsMax,
  outageSecondMs,
  refusalSecondMs,
  refusalTryMs,
} from '../../base/limits.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { AttemptKind } from '../../deliveries/due.ts'

/** The status with which a receiver refuses every delivery; null: it is down, so that no answer is below 500. */
export type TroubleStatus = number | null

/** An outcome that, if everybody gets it, shows trouble. Those of one `status` are alike. */
export type Trouble =
  /** `httpStatus` null: no answer came. */
  | { is: 'failure'; status: TroubleStatus; httpStatus: number | null; error: string | null }
  /** A success that shows nothing; `says` is a sentence. */
  | { is: 'empty'; status?: undefined; says: string }
/** What an outcome says of the receiver as a whole. */
export type Sign = Trouble | { is: 'well' }

/** A trouble in the receiver's row. Times count from now. */
export interface KnownTrouble {
  status: TroubleStatus
  /** Attempts made since the trouble was found. */
  tries: number
  nextMs: number
  /** In how many milliseconds a second attempt may be made. */
  secondMs: number
}

export type WhyOver =
  | { by: 'outage'; known: boolean }
  | { by: 'refusal'; known: boolean; status: number; untilNextMs: number }
  | { by: 'answers'; inARow: number; says: string }

/** No trouble is known. */
interface Open {
  is: 'open'
  /** Not all first attempts ended alike. Until then the receiver is unproven, and few may begin. */
  isMixed: boolean
  /** How the last attempts ended, if that looks like trouble, and how many of them ended alike. */
  alike: Trouble | undefined
  inARow: number
  /** First attempts may be left: in doubt second ones wait for them. */
  firstsLeft: boolean
  /**
   * Others see a trouble that an answer has ended here. If that answer looks like another trouble, more attempts of either kind decide,
   * second ones one by one.
   */
  stands: boolean
}

/** The receiver is down, or refuses everything alike. */
interface InTrouble {
  is: 'trouble'
  status: TroubleStatus
  since: number
  /** An earlier push has found the trouble. */
  known: boolean
  /** The row says so too. */
  shared: boolean
  tries: number
  nextAt: number
  secondAt: number
  /** The try that this process may make, or is making. */
  mine: AttemptKind | undefined
}

export type Health =
  | Open
  | InTrouble
  /** The push begins nothing more. */
  | { is: 'over'; why: WhyOver }

/** The conditions for trouble. */
export interface Rules {
  /** How long a receiver that is down is waited for; 0: outages are not looked for. */
  patienceMs: number
  refusals: boolean
  empty: boolean
  /** How many attempts in a row prove trouble, if there are so many. */
  inARow: number
}

export type Event =
  | { is: 'outcome'; attempt: 1 | 2; sign: Sign }
  /** The content of the row; `begins`: read by a push that begins, or looks for users once more. */
  | { is: 'row'; known: KnownTrouble | null; begins: boolean }
  /** This process may make the try. */
  | { is: 'granted'; kind: AttemptKind }
  /** The try that was granted cannot be made. */
  | { is: 'not made' }
  /** The receiver shows no sign of life. */
  | { is: 'no sign' }
  | { is: 'no firsts left' }
  /** The push ends; `cutShort`: although attempts are left. */
  | { is: 'end'; cutShort: boolean }

/** News for other processes. */
export type Write =
  | { says: 'well' }
  /** After `inARow` attempts; `error`: how the last one ended. */
  | { says: 'trouble'; status: TroubleStatus; inARow: number; error: string | null }
  /** The try, one of `tries` of this trouble, was not made. */
  | { says: 'not made'; status: TroubleStatus; tries: number; kind: AttemptKind }

export interface Step {
  health: Health
  write?: Write
}

const counted = { alike: undefined, inARow: 0, firstsLeft: true, stands: false }
export const unproven: Open = { is: 'open', isMixed: false, ...counted }
export const well: Open = { is: 'open', isMixed: true, ...counted }
const tellWell = { write: { says: 'well' } } as const
/** An hourly push that begins a moment too early waits: otherwise it would make its try only every other hour. */
const nearlyDueMs = 60_000
/** Statuses that ask for another try, or concern one delivery alone. */
const noRefusals: readonly number[] = [408, 409, 425, 429]

export function signOf(outcome: Pick<AttemptOutcome, 'httpStatus' | 'error' | 'emptySuccess'>): Sign {
  const { httpStatus, error, emptySuccess } = outcome
  if (emptySuccess !== undefined) return { is: 'empty', says: emptySuccess }
  const isDown = httpStatus === null || httpStatus >= 500
  if (!isDown && (httpStatus < 300 || noRefusals.includes(httpStatus))) return { is: 'well' }
  return { is: 'failure', status: isDown ? null : httpStatus, httpStatus, error }
}

/** The pause before the next try of a receiver that is down, after `tries` of them. */
export const pauseAfter = (tries: number) => Math.min(outagePauseMs * 2 ** tries, outagePauseMsMax)

const isLookedFor = (sign: Trouble, rules: Rules) =>
  sign.is === 'empty' ? rules.empty : sign.status === null ? rules.patienceMs > 0 : rules.refusals

export function step(health: Health, event: Event, now: number, rules: Rules): Step {
  if (event.is === 'row') return { health: learn(health, event, now, rules) }
  if (health.is === 'over') return { health }
  if (health.is === 'trouble') return inTrouble(health, event, now, rules)
  switch (event.is) {
    case 'outcome':
      return count(health, event.sign, event.attempt, now, rules)
    case 'no firsts left': {
      const { isMixed, alike, inARow, stands } = health
      // fewer than usual prove trouble now, if all ended alike
      if (!isMixed && alike !== undefined && inARow >= alikeMin) return enter(alike, inARow, stands, now)
      return { health: secondsWait(health) ? { ...health, firstsLeft: false } : health }
    }
    case 'end':
      return health.stands && !health.isMixed && !event.cutShort ? { health: well, ...tellWell } : { health }
    default:
      return { health }
  }
}

/** Whether second attempts wait: they would be lost if the receiver is in trouble. */
const secondsWait = ({ isMixed, alike, firstsLeft }: Open) => firstsLeft && (!isMixed || alike?.is === 'failure')

/** An attempt ended while no trouble is known. */
function count(health: Open, sign: Sign, attempt: 1 | 2, now: number, rules: Rules): Step {
  const { alike, firstsLeft, stands } = health
  if (sign.is === 'well' || !isLookedFor(sign, rules)) {
    // with `--accept` only a success ends what others see
    const isOver = stands && (sign.is !== 'failure' || !health.isMixed)
    return { health: { ...well, stands: stands && !isOver }, ...(isOver && tellWell) }
  }
  const isSame = alike !== undefined && alike.status === sign.status
  const differs = alike !== undefined && !isSame
  // a second attempt has failed before: it only shows that an answer differs, unless no first ones are left
  if (attempt === 2 && sign.is === 'failure' && !stands)
    return { health: differs && sign.status !== null ? well : health }
  const inARow = isSame ? health.inARow + 1 : 1
  if (inARow >= (stands && !firstsLeft ? alikeMin : rules.inARow)) return enter(sign, inARow, stands, now)
  // if a trouble stands, two kinds of trouble in turn do not show that it is over
  const isMixed = health.isMixed || (differs && !stands)
  return { health: { ...health, isMixed, alike: sign, inARow, firstsLeft: firstsLeft || attempt === 1 } }
}

function enter(trouble: Trouble, inARow: number, stands: boolean, now: number): Step {
  if (trouble.is === 'empty') {
    const why = { by: 'answers', inARow, says: trouble.says } as const
    return { health: { is: 'over', why }, ...(stands && tellWell) }
  }
  const { status, error } = trouble
  const write = { says: 'trouble', status, inARow, error } as const
  if (status !== null)
    return { health: { is: 'over', why: { by: 'refusal', known: false, status, untilNextMs: 0 } }, write }
  const found = { since: now, known: false, shared: true, tries: 0, mine: undefined }
  return { health: { is: 'trouble', status, ...found, nextAt: now + pauseAfter(0), secondAt: now }, write }
}

function inTrouble(health: InTrouble, event: Event, now: number, rules: Rules): Step {
  const { status, tries, mine, nextAt } = health
  const isDown = status === null
  switch (event.is) {
    case 'granted': {
      const { kind } = event
      const secondAt = kind === 'second' ? now + (isDown ? outageSecondMs : refusalSecondMs) : health.secondAt
      const pauseMs = isDown ? pauseAfter(tries + 1) : refusalTryMs
      return { health: { ...health, tries: tries + 1, nextAt: now + pauseMs, secondAt, mine: kind } }
    }
    case 'not made': {
      if (mine === undefined) return { health }
      const secondAt = mine === 'second' ? now : health.secondAt
      const back: InTrouble = { ...health, tries: tries - 1, nextAt: now + outageLookMs, secondAt, mine: undefined }
      return { health: back, write: { says: 'not made', status, tries, kind: mine } }
    }
    case 'no sign':
      return { health: { ...health, nextAt: Math.max(nextAt, now + outageCheckMs) } }
    case 'outcome': {
      const { sign } = event
      const isOther = sign.is !== 'failure' || (sign.httpStatus !== null && sign.status !== status)
      if (isOther) return count({ ...unproven, stands: true }, sign, 1, now, rules)
      return { health: { ...health, mine: undefined } }
    }
    default:
      return { health }
  }
}

function learn(from: Health, { known: row, begins }: Event & { is: 'row' }, now: number, rules: Rules): Health {
  const health = from.is === 'open' && begins ? { ...from, firstsLeft: true } : from
  if (health.is === 'over' || (health.is === 'open' && health.stands)) return health
  const before = health.is === 'trouble' ? health : undefined
  if (row === null || (row.status === null && rules.patienceMs === 0)) {
    if (before === undefined) return health
    if (before.status !== null) return unproven
    // an attempt of its own shows whether this process reaches the receiver too
    return before.shared ? { ...before, shared: false, nextAt: before.mine ? before.nextAt : now } : before
  }
  const { status, tries, nextMs } = row
  const secondAt = now + row.secondMs
  const same = before?.status === status ? before : undefined
  // its own clock counts on for what it has read
  if (same?.tries === tries) return { ...same, secondAt, shared: true }
  const { since, known, mine } = same ?? { since: now, known: begins, mine: undefined }
  if (status !== null && !begins && mine === undefined)
    return { is: 'over', why: { by: 'refusal', known, status, untilNextMs: nextMs } }
  const nextAt = now + (status === null && begins ? 0 : nextMs)
  return { is: 'trouble', status, since, known, shared: true, tries, nextAt, secondAt, mine }
}

/** Whether an attempt that is recorded may go out, beside `onWire` others: in trouble the granted try alone. */
export function maySend(health: Health, onWire: number): boolean {
  return health.is === 'trouble' ? health.mine !== undefined && onWire === 0 : health.is !== 'over'
}

/** The attempts at hand. */
export interface Work {
  /** Attempts that are recorded or being made. */
  open: number
  /** The attempt that could be tried; undefined: that is not known yet. `inMs`: when a second one is due. */
  next?: undefined | { is: AttemptKind | 'nothing'; inMs?: number }
}

export type Permission =
  /** So many attempts may be recorded. */
  | { is: 'go'; firsts: number; seconds: number }
  /** One attempt may be made, if other processes leave it to this one. */
  | { is: 'try'; kind: AttemptKind }
  | { is: 'wait'; ms: number }
  | { is: 'end'; why: WhyOver | { by: 'nothing left' } }

const all = Number.POSITIVE_INFINITY

export function ask(health: Health, { open, next }: Work, now: number, rules: Rules): Permission {
  if (health.is === 'over') return { is: 'end', why: health.why }
  if (health.is === 'open') {
    const { isMixed, inARow, stands } = health
    const firsts = isMixed ? all : Math.max(0, rules.inARow - open - inARow)
    const seconds = stands && !isMixed ? Math.max(0, 1 - open) : all
    return { is: 'go', firsts, seconds: secondsWait(health) ? 0 : seconds }
  }
  if (next === undefined) return { is: 'wait', ms: outageLookMs }
  if (next.is === 'nothing') return { is: 'end', why: { by: 'nothing left' } }
  const { status, known, since, secondAt } = health
  const nextAt = next.is === 'second' ? Math.max(health.nextAt, secondAt, now + (next.inMs ?? 0)) : health.nextAt
  const untilNextMs = nextAt - now
  if (untilNextMs <= 0) return { is: 'try', kind: next.is }
  if (status === null && now - since >= rules.patienceMs) return { is: 'end', why: { by: 'outage', known } }
  if (status !== null && untilNextMs > nearlyDueMs)
    return { is: 'end', why: { by: 'refusal', known, status, untilNextMs } }
  return { is: 'wait', ms: Math.min(outageLookMs, untilNextMs) }
}
