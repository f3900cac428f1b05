/**
 * The receiver's health as one state machine (contract 4.5, 4.12): the knowledge of the receiver as a whole, the next state after an
 * event, and what may begin now. Pure: times are milliseconds of one monotonic clock, given by the caller. `test/unit/health.test.ts`
 * walks every state that few users can reach.
 *
 * | state | event | next state |
 * | --- | --- | --- |
 * | unproven | an answer without trouble, or a second attempt with another answer | well |
 * | unproven | a first attempt that ends like those before | unproven; at the 20th that trouble |
 * | unproven | a first attempt that ends in another trouble | doubted; unproven if a trouble stands |
 * | unproven | no first attempts are left, and all of at least 2 ended alike | that trouble |
 * | unproven | no first attempts are left, and at most one was made | calm, which remembers it |
 * | calm | a first attempt that ends in trouble, or first attempts to make again | unproven |
 * | calm | an answer without trouble | well |
 * | well, doubted | a first attempt that ends in trouble | doubted; at the 20th alike in a row that trouble |
 * | doubted | an answer without trouble, a second attempt with another answer, or no first attempts left | well |
 * | down, refuses | the try is granted | the same, with the try |
 * | down, refuses | the granted try is not made | the same, and the try is given back |
 * | down, refuses | an attempt that ends alike | the same, without the try: the next one comes later |
 * | down | an answer below 500 | unproven with that answer; the trouble stands until more is known |
 * | refuses | an answer of another kind | unproven with that answer; the trouble stands until more is known |
 * | down | others have reached the receiver | down, with one try at once |
 * | refuses | others got another answer | unproven |
 * | any but accepted | others have found it down | down |
 * | any but accepted | others have found that it refuses | refuses for a push that begins, else over |
 * | down | the patience is over, and no try is due | over |
 * | refuses | the next try is more than a minute away | over |
 * | accepted | an answer without trouble | accepted, and others are told |
 *
 * The trouble `down` is waited for; `refuses` and `empty` are over at once for the push that finds them.
 */
import {
  alikeMin,
  outageCheckMs,
  outagePauseMs,
  outagePauseMsMax,
  outageSecondMs,
  refusalSecondMs,
  refusalTryMs,
} from '../../base/limits.ts'
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { AttemptKind } from '../../deliveries/due.ts'

export type Trouble =
  /** No answer below 500; `answered`: another one. */
  | { is: 'down'; answered: boolean }
  /** An answer that a receiver gives to everybody if the URL or the keys are wrong. */
  | { is: 'refuses'; status: number }
  /** A success that shows nothing; `says` is a sentence. */
  | { is: 'empty'; says: string }
/** How an attempt ended, as far as it tells of the receiver as a whole. */
export type Sign = Trouble | { is: 'well' }

/** The content of the receiver's row. Times count from now. */
export interface KnownTrouble {
  /** The status that every delivery gets; null: the receiver is down. */
  status: number | null
  /** Attempts made since the trouble was found. */
  tries: number
  nextMs: number
  /** In how many milliseconds a second attempt may be made. */
  secondMs: number
}

interface Tries {
  /** An earlier push has found the trouble. */
  known: boolean
  tries: number
  nextAt: number
  secondAt: number
  /** The try that this process may make, or is making. */
  mine: AttemptKind | undefined
}

export type WhyOver =
  | { by: 'outage'; known: boolean }
  | { by: 'refusal'; known: boolean; status: number; untilNextMs: number }
  | { by: 'answers'; inARow: number; says: string }

export type Health =
  /**
   * All first attempts so far ended alike: no second one goes out. `stands`: an answer ended a trouble that others still see, but looks
   * like another trouble; more attempts of either kind decide, second ones one by one.
   */
  | { is: 'unproven'; alike: Trouble | undefined; inARow: number; stands?: AttemptKind }
  /** No first attempt was left that could show more. */
  | { is: 'calm'; alike: Trouble | undefined; inARow: number }
  | { is: 'well' }
  /** The last first attempts ended alike: second ones wait, unless all were successes. */
  | { is: 'doubted'; alike: Trouble; inARow: number }
  /** `shared`: the row says so too. */
  | ({ is: 'down'; since: number; shared: boolean } & Tries)
  | ({ is: 'refuses'; status: number } & Tries)
  /** The push goes on after any outcome; `stands`: others still see a trouble. */
  | { is: 'accepted'; stands: boolean }
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
  /** The content of the row; `begins`: read by a push that begins. */
  | { is: 'row'; known: KnownTrouble | undefined; begins: boolean }
  /** This process may make the try. */
  | { is: 'granted'; kind: AttemptKind }
  /** The try that was granted cannot be made. */
  | { is: 'not made' }
  /** The receiver shows no sign of life, or nothing can be tried for a while. */
  | { is: 'no sign' }
  | { is: 'no firsts left' }
  /** The push looks for users once more. */
  | { is: 'firsts again' }
  /** The push ends; `cutShort`: although attempts are left. */
  | { is: 'end'; cutShort: boolean }

/** News for other processes. */
export type Write =
  | { says: 'well' }
  /** `instead`: of another trouble that the row has. */
  | { says: 'down'; instead: boolean; inARow: number }
  | { says: 'refuses'; status: number }
  /** The try after `tries` others was not made. */
  | { says: 'not made'; tries: number; kind: AttemptKind }

export interface Step {
  health: Health
  write?: Write
}

export const unproven: Health = { is: 'unproven', alike: undefined, inARow: 0 }
const well: Health = { is: 'well' }
/** An hourly push that begins a moment too early waits: otherwise it would make its try only every other hour. */
const nearlyDueMs = 60_000
/** The time between two looks, which are cheap. */
const lookMs = 250
/** A try that was given back is requested again after so long. */
const againMs = 1_000
/** Statuses that ask for another try, or concern one delivery alone. */
const noRefusals: readonly number[] = [408, 409, 425, 429]

export function signOf({ httpStatus, emptySuccess }: Pick<AttemptOutcome, 'httpStatus' | 'emptySuccess'>): Sign {
  if (httpStatus === null || httpStatus >= 500) return { is: 'down', answered: httpStatus !== null }
  if (emptySuccess !== undefined) return { is: 'empty', says: emptySuccess }
  return httpStatus >= 300 && !noRefusals.includes(httpStatus) ? { is: 'refuses', status: httpStatus } : { is: 'well' }
}

/** The pause before the next try of a receiver that is down, after `tries` of them. */
export const pauseAfter = (tries: number) => Math.min(outagePauseMs * 2 ** tries, outagePauseMsMax)

const isAlike = (one: Trouble, other: Trouble) =>
  one.is === other.is && (one.is !== 'refuses' || one.status === (other as typeof one).status)
const isLookedFor = (sign: Sign, rules: Rules) =>
  sign.is === 'down' ? rules.patienceMs > 0 : sign.is === 'refuses' ? rules.refusals : rules.empty

export function step(health: Health, event: Event, now: number, rules: Rules): Step {
  if (event.is === 'row') return { health: learn(health, event.known, event.begins, now, rules) }
  switch (health.is) {
    case 'over':
      return { health }
    case 'accepted': {
      const isTold = health.stands && event.is === 'outcome' && (event.sign.is === 'well' || event.sign.is === 'empty')
      return isTold ? { health: { is: 'accepted', stands: false }, write: { says: 'well' } } : { health }
    }
    case 'down':
    case 'refuses':
      return inTrouble(health, event, now, rules)
    default:
      if (event.is === 'outcome') return count(health, event.sign, event.attempt, now, rules)
      if (event.is === 'no firsts left') return proveByAll(health, now)
      if (event.is === 'firsts again') return { health: health.is === 'calm' ? { ...health, is: 'unproven' } : health }
      if (event.is === 'end' && !event.cutShort && 'stands' in health) return { health: well, write: { says: 'well' } }
      return { health }
  }
}

type Open = Extract<Health, { is: 'unproven' | 'calm' | 'well' | 'doubted' }>

/** An attempt ended while no trouble is known. */
function count(health: Open, sign: Sign, attempt: 1 | 2, now: number, rules: Rules): Step {
  const stands = health.is === 'unproven' ? health.stands : undefined
  const told: Pick<Step, 'write'> = stands === undefined ? {} : { write: { says: 'well' } }
  if (sign.is === 'well' || !isLookedFor(sign, rules)) return { health: well, ...told }
  const { alike, inARow: before } = 'inARow' in health ? health : { alike: undefined, inARow: 0 }
  const isSame = alike !== undefined && isAlike(alike, sign)
  // a second attempt has failed before: it only shows that an answer differs, unless no first ones are left
  if (attempt === 2 && sign.is !== 'empty' && stands === undefined) {
    const differs = alike !== undefined && !isSame && sign.is !== 'down'
    return { health: differs ? well : health }
  }
  const inARow = isSame ? before + 1 : 1
  if (inARow >= (stands === 'second' ? alikeMin : rules.inARow)) return enter(sign, inARow, stands !== undefined, now)
  if (health.is === 'calm') return { health: { is: 'unproven', alike: sign, inARow } }
  // if a trouble stands, two kinds of trouble in turn do not show that it is over
  const staysUnproven = health.is === 'unproven' && (isSame || alike === undefined || stands !== undefined)
  return { health: staysUnproven ? { ...health, alike: sign, inARow } : { is: 'doubted', alike: sign, inARow } }
}

/** All first attempts are made: fewer than usual may prove trouble now. */
function proveByAll(health: Open, now: number): Step {
  if (health.is === 'doubted') return { health: health.alike.is === 'empty' ? health : well }
  if (health.is !== 'unproven') return { health }
  const { alike, inARow, stands } = health
  if (alike !== undefined && inARow >= alikeMin) return enter(alike, inARow, stands !== undefined, now)
  if (stands === undefined) return { health: { is: 'calm', alike, inARow } }
  return { health: stands === 'second' ? health : { ...health, stands: 'second' } }
}

function enter(trouble: Trouble, inARow: number, instead: boolean, now: number): Step {
  switch (trouble.is) {
    case 'empty':
      return { health: { is: 'over', why: { by: 'answers', inARow, says: trouble.says } } }
    case 'refuses': {
      const { status } = trouble
      const why = { by: 'refusal', known: false, status, untilNextMs: 0 } as const
      return { health: { is: 'over', why }, write: { says: 'refuses', status } }
    }
    case 'down': {
      const tries = { known: false, tries: 0, nextAt: now + pauseAfter(0), secondAt: now, mine: undefined }
      return { health: { is: 'down', since: now, shared: true, ...tries }, write: { says: 'down', instead, inARow } }
    }
  }
}

type Troubled = Extract<Health, { is: 'down' | 'refuses' }>

function inTrouble(health: Troubled, event: Event, now: number, rules: Rules): Step {
  const { tries, mine } = health
  const isDown = health.is === 'down'
  switch (event.is) {
    case 'granted': {
      const nextAt = now + (isDown ? pauseAfter(tries + 1) : refusalTryMs)
      const secondAt = event.kind === 'second' ? now + (isDown ? outageSecondMs : refusalSecondMs) : health.secondAt
      return { health: { ...health, tries: tries + 1, nextAt, secondAt, mine: event.kind } }
    }
    case 'not made': {
      if (mine === undefined) return { health }
      const secondAt = mine === 'second' ? now : health.secondAt
      const back = { ...health, tries: tries - 1, nextAt: now + againMs, secondAt, mine: undefined }
      return { health: back, write: { says: 'not made', tries, kind: mine } }
    }
    case 'no sign':
      return { health: isDown ? { ...health, nextAt: Math.max(health.nextAt, now + outageCheckMs) } : health }
    case 'outcome': {
      const { sign } = event
      if (!isEnd(health, sign)) return { health: { ...health, mine: undefined } }
      // empty successes are counted from here on; they are not the trouble that others see
      const stands = sign.is === 'down' || sign.is === 'refuses' ? ({ stands: 'first' } as const) : {}
      const found = count({ is: 'unproven', alike: undefined, inARow: 0, ...stands }, sign, 1, now, rules)
      return 'stands' in found.health ? found : { write: { says: 'well' }, ...found }
    }
    default:
      return { health }
  }
}

function isEnd(health: Troubled, sign: Sign): boolean {
  if (health.is === 'down') return sign.is !== 'down'
  return sign.is === 'down' ? sign.answered : sign.is !== 'refuses' || sign.status !== health.status
}

function learn(health: Health, row: KnownTrouble | undefined, begins: boolean, now: number, rules: Rules): Health {
  if (health.is === 'over' || 'stands' in health) return health
  const known = row?.status === null && rules.patienceMs === 0 ? undefined : row
  const before = health.is === 'down' || health.is === 'refuses' ? health : undefined
  if (known === undefined) {
    // an attempt of its own shows whether this process reaches the receiver too
    if (before?.is === 'down' && before.shared)
      return { ...before, shared: false, nextAt: before.mine ? before.nextAt : now }
    return before?.is === 'refuses' ? unproven : health
  }
  const { status, tries } = known
  const secondAt = now + known.secondMs
  const isSame = before !== undefined && (before.is === 'down') === (status === null)
  // its own clock counts on for what it has read
  if (isSame && before.tries === tries) return { ...before, secondAt, ...(before.is === 'down' && { shared: true }) }
  const mine = isSame ? before.mine : undefined
  const found = { known: isSame ? before.known : begins, tries, secondAt, mine }
  if (status === null) {
    const since = before?.is === 'down' ? before.since : now
    return { is: 'down', since, shared: true, ...found, nextAt: now + (begins ? 0 : known.nextMs) }
  }
  if (begins || mine !== undefined) return { is: 'refuses', status, ...found, nextAt: now + known.nextMs }
  const untilNextMs = known.nextMs
  return { is: 'over', why: { by: 'refusal', known: found.known, status, untilNextMs } }
}

/** Whether the process has a try that is not over. */
export const hasTry = (health: Health): boolean => 'mine' in health && health.mine !== undefined

/** Whether an attempt that is recorded may go out, beside `onWire` others. */
export function maySend(health: Health, onWire: number): boolean {
  return health.is === 'down' || health.is === 'refuses' ? hasTry(health) && onWire === 0 : health.is !== 'over'
}

/** The attempts at hand. */
export interface Work {
  /** Attempts that are recorded or being made. */
  open: number
  /** Nothing is open, nor is an outcome on its way to the ledger. */
  isIdle: boolean
  /** The next attempt; undefined: it was not looked up. `planning`: no first attempt so far; `inMs`: when a second one is due. */
  next?: undefined | { is: 'first' | 'planning' | 'nothing' } | { is: 'second'; inMs: number }
}

export type Permission =
  /** So many attempts may be recorded. */
  | { is: 'go'; firsts: number; seconds: number }
  /** The caller looks up the next attempt, and asks again. */
  | { is: 'look' }
  /** One attempt may be made, if other processes leave it to this one. */
  | { is: 'try'; kind: AttemptKind }
  | { is: 'wait'; ms: number }
  | { is: 'end'; why: WhyOver | { by: 'nothing left' } }

const all = Number.POSITIVE_INFINITY

export function ask(health: Health, work: Work, now: number, rules: Rules): Permission {
  const { open } = work
  const few = Math.max(0, rules.inARow - open)
  switch (health.is) {
    case 'over':
      return { is: 'end', why: health.why }
    case 'accepted':
    case 'well':
      return { is: 'go', firsts: all, seconds: all }
    case 'calm':
      return { is: 'go', firsts: Math.max(0, few - health.inARow), seconds: all }
    case 'doubted':
      return { is: 'go', firsts: all, seconds: health.alike.is === 'empty' ? all : 0 }
    case 'unproven': {
      const firsts = Math.max(0, few - health.inARow)
      return { is: 'go', firsts, seconds: health.stands === 'second' ? Math.max(0, 1 - open) : 0 }
    }
    default:
      return askInTrouble(health, work, now, rules)
  }
}

function askInTrouble(health: Troubled, { isIdle, next }: Work, now: number, rules: Rules): Permission {
  if (!isIdle) return { is: 'wait', ms: lookMs }
  if (next?.is === 'nothing') return { is: 'end', why: { by: 'nothing left' } }
  const isSecond = next?.is === 'second'
  const nextAt = isSecond ? Math.max(health.nextAt, health.secondAt, now + next.inMs) : health.nextAt
  const untilNextMs = Math.max(0, nextAt - now)
  const wait: Permission = { is: 'wait', ms: Math.min(lookMs, untilNextMs || lookMs) }
  if (health.is === 'down') {
    if (untilNextMs > 0 && now - health.since >= rules.patienceMs)
      return { is: 'end', why: { by: 'outage', known: health.known } }
    if (untilNextMs > 0) return wait
  } else if (untilNextMs > nearlyDueMs && next !== undefined && next.is !== 'planning') {
    return { is: 'end', why: { by: 'refusal', known: health.known, status: health.status, untilNextMs } }
  } else if (untilNextMs > 0 && untilNextMs <= nearlyDueMs) return wait
  if (next === undefined) return { is: 'look' }
  return next.is === 'planning' ? wait : { is: 'try', kind: next.is }
}
