/**
 * The receiver's health as one state machine (contract 4.5, 4.12): the knowledge of the receiver as a whole, and the next state after an
 * event; `permission.ts` has what may begin in it. Pure: times are milliseconds of one monotonic clock, given by the caller. ARCHITECTURE.md
 * draws its states, and `test/unit/health.test.ts` walks every one that few users can reach.
 *
 * The users of one place come one after the other, and what fails for them alone shows nothing of the receiver. So after 5 alike in a row
 * (8 while the receiver is unproven), or if another push tells of a refusal, the machine is suspicious: only users drawn at random from all
 * who are owed go on, and only their attempts count, until one ends otherwise. Before the first answer below 500 second attempts go one by
 * one, each after a sign of life, and two alike are trouble. A success of another run since then begins both counts anew.
 */
import { alikeMin, outageCheckMs, outageLookMs } from '../../base/limits.ts'
import type { AttemptKind } from '../../deliveries/due.ts'
import { type BadSign, ends, isAlike, type KnownTrouble, type Sign, type Trouble, troubleRules } from './trouble.ts'

export type WhyOver =
  | { by: 'outage' | 'asking'; known: boolean }
  | { by: 'refusal'; known: boolean; status: number; untilNextMs: number }
  | { by: 'answers'; inARow: number; says: string }

/** No trouble is known. */
export interface Open {
  is: 'open'
  /** Not all first attempts ended alike. Until then the receiver is unproven, and few may begin. */
  isMixed: boolean
  /** How the last attempts ended, if that looks like trouble, since when (lost second ones too), and how many of them count. */
  alike: BadSign | undefined
  alikeSince: number
  inARow: number
  /** Alike too, of attempts from before the suspicion, after another answer or others' word: they count once nobody is left to draw. */
  early: number
  /** Nobody is left to be drawn: those who are left are all there are, and count. */
  isEverybody: boolean
  /** How many suspicions have turned out to be of some users alone: many make the next one need a little more. */
  suspicions: number
  /** First attempts may be left: in doubt second ones wait for them. */
  firstsLeft: boolean
  /** An answer below 500 has come. */
  isAnswered: boolean
  /** Second attempts that were lost before it, when no first ones were left. */
  lostSeconds: number
  /** When the receiver first asked for less since its last success. */
  askedAt: number | undefined
  /**
   * A trouble of the row that this push does not take for its own: an answer has ended it here, others have told of it, or the push goes on
   * regardless. If answers look like trouble again, attempts of either kind decide, second ones one by one.
   */
  theirs: Trouble | undefined
}

/** The receiver is in trouble as a whole. */
interface InTrouble {
  is: 'trouble'
  trouble: Trouble
  since: number
  /** An earlier push has found the trouble. */
  known: boolean
  /** The row says so too. */
  shared: boolean
  /** Tries so far, which set the pause before the next one; counted from below 0 once others have seen the end. */
  tries: number
  nextAt: number
  secondAt: number
  /** The try that this process may make, or is making. */
  mine: AttemptKind | undefined
  /** How its own attempts had all ended before others told of the trouble: if one that ends it is like them, they count. */
  own: Pick<Open, 'alike' | 'alikeSince' | 'inARow'>
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
  /** After how many of them in a row the users of the next ones are drawn. */
  drawnAfter: Record<'unproven' | 'mixed', number>
}

export type Event =
  /** `drawn`: of a user who was drawn from all who are owed. */
  | { is: 'outcome'; attempt: 1 | 2; sign: Sign; drawn?: boolean }
  /** The content of the row; `begins`: read by a push that begins, or looks for users once more. */
  | { is: 'row'; known: KnownTrouble | null; begins: boolean }
  /** Another run had a success then. */
  | { is: 'others well'; at: number }
  /** This process may make the try. */
  | { is: 'granted'; kind: AttemptKind }
  /** The try that was granted is taken back: its attempt does not count. */
  | { is: 'taken back' }
  /** The receiver shows no sign of life. */
  | { is: 'no sign' }
  | { is: 'nobody to draw' }
  | { is: 'no firsts left' }
  /** Time went on. */
  | { is: 'time' }
  /** The push ends; `cutShort`: although attempts are left. */
  | { is: 'end'; cutShort: boolean }

type Outcome = Event & { is: 'outcome' }
type Row = Event & { is: 'row' }

/** News for other processes. */
export type Write =
  | { says: 'well' }
  /** After `inARow` attempts; `error`: how the last one ended. */
  | { says: 'trouble'; trouble: Trouble; inARow: number; error: string | null }
  /** The try, one of `tries` of this trouble, is taken back. */
  | { says: 'taken back'; trouble: Trouble; tries: number; kind: AttemptKind }

export interface HealthStep {
  health: Health
  write?: Write
}

const nothingAlike = { alike: undefined, alikeSince: 0, inARow: 0, early: 0, isEverybody: false }
export const unproven: Open = {
  ...{ is: 'open', isMixed: false, ...nothingAlike, suspicions: 0, firstsLeft: true },
  ...{ isAnswered: false, lostSeconds: 0, askedAt: undefined, theirs: undefined },
}
const tellWell = { write: { says: 'well' } } as const
/** The count of tries once others have seen the end: the pauses begin with 20 ms, and ten tries come within 10 s. */
const triesOnceEnded = -10
/** So many suspicions of some users alone make no difference. */
const suspicionsFree = 4

const isBad = (sign: Sign): sign is BadSign => sign.is === 'down' || sign.is === 'refuses' || sign.is === 'empty'

function isLookedFor(sign: BadSign, rules: Rules): boolean {
  if (sign.is === 'empty') return rules.empty
  return sign.is === 'down' ? rules.patienceMs > 0 : rules.refusals
}

export const drawnAfter = ({ isMixed }: Open, rules: Rules) => rules.drawnAfter[isMixed ? 'mixed' : 'unproven']

/** The attempts of one place have ended alike: only those of drawn users show more. */
const isSuspicious = (health: Open, rules: Rules) => health.inARow >= drawnAfter(health, rules) && !health.isEverybody

/** How many in a row prove trouble: a little more after several suspicions, so that a long run does not meet one by chance. */
export const neededInARow = ({ suspicions }: Open, rules: Rules) =>
  rules.inARow + 2 * Math.floor(Math.log2(1 + suspicions / suspicionsFree))

/** Only second attempts are left, and no answer below 500 has come. */
export const isSecondsAlone = ({ firstsLeft, isAnswered }: Open, rules: Rules) =>
  !firstsLeft && !isAnswered && rules.patienceMs > 0

export function step(health: Health, event: Event, now: number, rules: Rules): HealthStep {
  if (health.is === 'over') return { health }
  if (event.is === 'row') return { health: learn(health, event, now, rules) }
  if (health.is === 'trouble') return inTrouble(health, event, now, rules)
  switch (event.is) {
    case 'outcome':
      return lookAtAsking(count(hear(health, event.sign, now), event, now, rules), now, rules)
    case 'time':
      return lookAtAsking({ health }, now, rules)
    case 'others well': {
      // what looks like trouble is of some users: more of them are drawn, as if it had just begun
      const inARow = Math.min(health.inARow, drawnAfter(health, rules))
      const isNews = (health.alike || health.lostSeconds > 0) && event.at > health.alikeSince
      // in an outage second attempts would be lost: those that counted do so again once nobody is left to be drawn
      const early = health.alike?.is === 'down' ? health.inARow - inARow : 0
      const anew = { alikeSince: now, inARow, early, isEverybody: false, lostSeconds: 0 }
      return { health: isNews ? { ...health, ...anew } : health }
    }
    case 'nobody to draw': {
      const { alike, theirs } = health
      const inARow = health.inARow + health.early
      if (alike !== undefined && inARow >= neededInARow(health, rules)) return enter(alike, inARow, theirs, now)
      return { health: { ...health, inARow, early: 0, isEverybody: true } }
    }
    case 'no firsts left': {
      const { isMixed, alike, inARow, theirs } = health
      // fewer than usual prove trouble now, if all ended alike
      if (!isMixed && alike !== undefined && inARow >= alikeMin) return enter(alike, inARow, theirs, now)
      return { health: secondsWait(health) ? { ...health, firstsLeft: false } : health }
    }
    case 'no sign':
      return enter({ is: 'down', status: null, asks: false, error: null }, 0, health.theirs, now)
    case 'end':
      return event.cutShort || leavesRow(health)
        ? { health }
        : { health: { ...health, theirs: undefined }, ...tellWell }
    default:
      return { health }
  }
}

/** Whether what others see stays as it is when the push ends: the push has shown nothing else. */
const leavesRow = ({ theirs, alike }: Open) => !theirs || !alike || isAlike(alike, theirs)

/** Whether second attempts wait: they would be lost if the receiver is in trouble. Behind a page they count as much as first ones. */
export function secondsWait({ firstsLeft, isMixed, alike, askedAt }: Open): boolean {
  return firstsLeft && (!isMixed || (alike !== undefined && alike.is !== 'empty') || askedAt !== undefined)
}

/** What each answer says of itself. `since`: when the receiver began to take nothing, if it asks for less. */
function hear(health: Open, sign: Sign, since: number): Open {
  const isAnswered = health.isAnswered || (sign.is !== 'down' && sign.is !== 'nothing')
  if (sign.is === 'well') return { ...health, isAnswered, askedAt: undefined }
  const asks = sign.is === 'asks' || (sign.is === 'down' && sign.asks)
  return { ...health, isAnswered, askedAt: health.askedAt ?? (asks ? since : undefined) }
}

/** A receiver that asks for less, and takes nothing, is given up like one that is down. */
function lookAtAsking(step: HealthStep, now: number, rules: Rules): HealthStep {
  const { health } = step
  if (health.is !== 'open' || health.askedAt === undefined || rules.patienceMs === 0) return step
  if (now - health.askedAt < rules.patienceMs) return step
  const write = { says: 'trouble', trouble: { is: 'asks' }, inARow: 0, error: null } as const
  return { health: { is: 'over', why: { by: 'asking', known: false } }, write }
}

/** An attempt ended while no trouble is known. */
function count(health: Open, { attempt, sign, drawn }: Outcome, now: number, rules: Rules): HealthStep {
  const { alike, firstsLeft, theirs } = health
  const isOver = theirs !== undefined && ends(theirs, sign)
  if (sign.is === 'nothing') return isOver ? { health: { ...health, theirs: undefined }, ...tellWell } : { health }
  // it asks for less again
  if (sign.is === 'asks' && isAlike(theirs, sign) && rules.patienceMs > 0)
    return { health: { ...health, ...nothingAlike } }
  if (!isBad(sign) || !isLookedFor(sign, rules))
    return { health: { ...mixed(health, rules), theirs: isOver ? undefined : theirs }, ...(isOver && tellWell) }
  const isSame = isAlike(alike, sign)
  const differs = alike !== undefined && !isSame
  // a second attempt has failed before: it only shows that an answer differs, unless no first ones are left
  if (attempt === 2 && sign.is !== 'empty' && theirs === undefined) {
    if (isSecondsAlone(health, rules)) return loseSecond(health, sign, now)
    return { health: differs && sign.is !== 'down' ? mixed(health, rules) : health }
  }
  // before another answer few attempts have begun, and all count; but others' word alone makes a push suspicious at once
  const isEarly = isSame && isSuspicious(health, rules) && !drawn && (health.isMixed || isAlike(theirs, sign))
  if (isEarly) return { health: { ...health, early: health.early + 1 } }
  const inARow = isSame ? health.inARow + 1 : 1
  const needed = theirs !== undefined && !firstsLeft ? alikeMin : neededInARow(health, rules)
  if (inARow >= needed) return enter(sign, inARow, theirs, now)
  // if others see a trouble, two kinds of trouble in turn do not show that it is over
  const isMixed = health.isMixed || (differs && theirs === undefined)
  const before = differs ? mixed(health, rules) : health
  const alikeSince = isSame ? health.alikeSince : now
  return { health: { ...before, isMixed, alike: sign, alikeSince, inARow, firstsLeft: firstsLeft || attempt === 1 } }
}

/** Without an answer two lost second attempts are trouble: no first ones can show more. */
function loseSecond(health: Open, sign: BadSign, now: number): HealthStep {
  const lostSeconds = health.lostSeconds + 1
  if (lostSeconds >= alikeMin) return enter(sign, lostSeconds, undefined, now)
  return { health: { ...health, lostSeconds, alikeSince: health.alike ? health.alikeSince : now } }
}

/** Not all ended alike: whatever was suspected was of some users alone. */
function mixed(health: Open, rules: Rules): Open {
  const suspicions = health.suspicions + (isSuspicious(health, rules) ? 1 : 0)
  return { ...health, ...nothingAlike, isMixed: true, suspicions, firstsLeft: true }
}

function enter(sign: BadSign, inARow: number, theirs: Trouble | undefined, now: number): HealthStep {
  if (sign.is === 'empty') {
    const why = { by: 'answers', inARow, says: sign.says } as const
    return { health: { is: 'over', why }, ...(theirs && tellWell) }
  }
  const { error } = sign
  if (sign.is === 'refuses') {
    const write = { says: 'trouble', trouble: { is: 'refuses', status: sign.status }, inARow, error } as const
    const why = { by: 'refusal', known: false, status: sign.status, untilNextMs: 0 } as const
    // others have told of it, or have seen its end meanwhile
    return { health: { is: 'over', why }, ...(!isAlike(theirs, sign) && { write }) }
  }
  const trouble = { is: 'down' } as const
  const found = { trouble, since: now, known: false, shared: true, tries: 0, mine: undefined, own: nothingAlike }
  const nextAt = now + troubleRules.down.pauseMs(0)
  const write = { says: 'trouble', trouble, inARow, error } as const
  return { health: { is: 'trouble', ...found, nextAt, secondAt: now }, write }
}

function inTrouble(health: InTrouble, event: Event, now: number, rules: Rules): HealthStep {
  const { trouble, tries, mine, nextAt } = health
  const { pauseMs, secondPauseMs } = troubleRules[trouble.is]
  switch (event.is) {
    case 'granted': {
      const secondAt = event.kind === 'second' ? now + secondPauseMs : health.secondAt
      return { health: { ...health, tries: tries + 1, nextAt: now + pauseMs(tries + 1), secondAt, mine: event.kind } }
    }
    case 'taken back': {
      if (mine === undefined) return { health }
      const secondAt = mine === 'second' ? now : health.secondAt
      const back: InTrouble = { ...health, tries: tries - 1, nextAt: now + outageLookMs, secondAt, mine: undefined }
      return { health: back, write: { says: 'taken back', trouble, tries, kind: mine } }
    }
    case 'no sign':
      return { health: { ...health, nextAt: Math.max(nextAt, now + outageCheckMs) } }
    case 'outcome': {
      const { sign } = event
      if (!ends(trouble, sign)) return { health: { ...health, mine: undefined, own: nothingAlike } }
      const heard = hear({ ...unproven, ...health.own, theirs: trouble }, sign, health.since)
      return count(heard, { ...event, attempt: 1 }, now, rules)
    }
    default:
      return { health }
  }
}

function learn(from: Open | InTrouble, { known: row, begins }: Row, now: number, rules: Rules): Health {
  const health = from.is === 'open' && begins ? { ...from, firstsLeft: true, isEverybody: false } : from
  // others have seen the end of what they had told
  if (health.is === 'open' && health.theirs)
    return !row && isAlike(health.alike, health.theirs) ? { ...health, ...nothingAlike, theirs: undefined } : health
  const before = health.is === 'trouble' ? health : undefined
  if (row === null) {
    if (!before?.shared) return health
    if (!troubleRules[before.trouble.is].isWaitedFor) return unproven
    // attempts of its own show whether this process reaches the receiver too; the first may be of users for whom it fails
    return { ...before, shared: false, tries: triesOnceEnded, since: now, nextAt: now, secondAt: now }
  }
  const { trouble, tries, nextMs } = row
  const { isWaitedFor } = troubleRules[trouble.is]
  // this push does not heed such trouble: a success of its own ends what others see
  if (health.is === 'open' && !(isWaitedFor ? rules.patienceMs > 0 : rules.refusals))
    return begins ? { ...health, theirs: trouble } : health
  const secondAt = now + row.secondMs
  const same = isAlike(before?.trouble, trouble) ? before : undefined
  // its own clock counts on: within one count the time stays, as the row's statements have it
  if (same?.shared && same.tries === tries) return { ...same, secondAt }
  if (trouble.is === 'refuses' && !begins && same === undefined)
    return hearOfRefusal(health.is === 'open' ? health : unproven, trouble, now, rules)
  const own = health.is === 'trouble' ? health.own : ownSoFar(health)
  const { since, known, mine } = same ?? { since: now, known: begins, mine: undefined }
  const nextAt = now + (isWaitedFor && begins ? 0 : nextMs)
  return { is: 'trouble', trouble, since, known, shared: true, tries, nextAt, secondAt, mine, own }
}

/** Another push may have met only users whom the receiver refuses: this one is suspicious, and its first success ends that for all. */
function hearOfRefusal(health: Open, trouble: Trouble & { is: 'refuses' }, now: number, rules: Rules): Open {
  const isSame = isAlike(health.alike, trouble)
  // what it has seen itself goes on to count; an unproven one with nobody to draw makes no more than before
  if (health.alike && health.firstsLeft && !isSame) return { ...health, theirs: trouble }
  const own = isSame ? health : { ...health, ...nothingAlike, alikeSince: now }
  const [inARow, isEverybody] = [Math.max(own.inARow, drawnAfter(own, rules)), own.isEverybody && !own.isMixed]
  return { ...own, alike: { ...trouble, error: null }, inARow, isEverybody, theirs: trouble }
}

/** While the receiver is unproven, and first attempts are left, no second one comes between them. */
const ownSoFar = ({ isMixed, firstsLeft, alike, alikeSince, inARow }: Open) =>
  isMixed || !firstsLeft ? nothingAlike : { alike, alikeSince, inARow }

/** A push that goes on regardless begins as if nothing were known; its first success ends what others see. */
export const regardless = (known: KnownTrouble | null): Open => ({ ...unproven, theirs: known?.trouble })

/** Whether only the attempts of drawn users may go out. */
export const drawsOnly = (health: Health, rules: Rules) => health.is === 'open' && isSuspicious(health, rules)

/** Whether those who are left decide if the receiver is in trouble, so that they must be all who are owed. `isDue`: attempts are left. */
export const isInDoubt = (health: Health, isDue: boolean) =>
  health.is === 'open' && !health.isMixed && (isDue || health.alike !== undefined)
