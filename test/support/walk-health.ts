/**
 * Walks every state that a run with few users can reach, for all answers and all acts of other processes, and checks in each
 * what a push promises (contract 4.12). The run is the loop in small: it asks, records, sends, and tells what came of it.
 */
import {
  drawsOnly,
  type Event,
  type Health,
  isInDoubt,
  type Rules,
  regardless,
  step,
  unproven,
} from '../../src/push/receiver/health.ts'
import { ask, maySend, type Work } from '../../src/push/receiver/permission.ts'
import { isAlike, type KnownTrouble, type Sign, signOf, type Trouble } from '../../src/push/receiver/trouble.ts'

type Kind = 'first' | 'drawn' | 'second'

const drawnAfter = { unproven: 2, mixed: 1 }
const rules: Rules = { patienceMs: 45_000, refusals: true, empty: true, inARow: 3, drawnAfter }
/** One of each kind, and two refusals. */
export const allSigns: readonly Sign[] = [
  ...[200, 503, null, 401, 403, 429].map((httpStatus) => signOf({ httpStatus, error: '' })),
  signOf({ httpStatus: 415, error: '' }, true),
  { is: 'empty', says: '' },
]
/** Time goes on in such steps; what is further ahead than `farTicks` makes no difference. */
const tickMs = 15_000
const farTicks = 5
/** How many attempts may be open at once. */
const openMax = 2

interface World {
  health: Health
  now: number
  /** Users without an attempt that are planned, and deliveries whose second attempt is due. */
  firsts: number
  seconds: number
  /** Users who are planned, and were drawn from all who are owed. */
  drawn: number
  /** Users who will be planned, or who can be drawn. */
  later: number
  /** How often other processes will find something. */
  others: number
  ready: Kind[]
  wire: Kind[]
  /** What the row says. */
  row: 'well' | Trouble['is']
  /** First attempts that went out before an answer of another kind, as long as the push found no trouble; undefined: there was either. */
  alikeFirsts: { sent: number; sign: string | undefined } | undefined
  /** The last outcomes that were alike: of first attempts, of all. */
  tails: { first: [string, number]; all: [string, number] }
}

const nameOf = (sign: Sign | Trouble) => (sign.is === 'refuses' ? `refuses ${sign.status}` : sign.is)
const isTrouble = ({ is }: Health) => is === 'trouble'
const isBad = ({ is }: Sign) => is === 'down' || is === 'refuses' || is === 'empty'
const hasTry = (health: Health) => health.is === 'trouble' && health.mine !== undefined
const clip = (ms: number) => Math.min(Math.ceil(Math.max(ms, 0) / tickMs), farTicks)
/** Times count from now, and what differs no more is the same. */
const keyOf = ({ now, health, ...world }: World) => {
  const times = health.is === 'trouble' && {
    nextAt: clip(health.nextAt - now),
    secondAt: clip(health.secondAt - now),
    tries: Math.min(health.tries, 2),
    since: health.trouble.is === 'refuses' ? 0 : clip(rules.patienceMs - (now - health.since)),
    own: { ...health.own, alikeSince: 0 },
  }
  const asked = health.is === 'open' && {
    askedAt: health.askedAt === undefined ? undefined : clip(rules.patienceMs - (now - health.askedAt)),
    alikeSince: 0,
    // where one more makes no difference yet
    suspicions: Math.floor(Math.log2(1 + health.suspicions)),
  }
  const why = health.is === 'over' && { why: health.why.by }
  return JSON.stringify({ ...world, health: { ...health, ...times, ...asked, ...why } })
}

/** A promise that a state breaks. */
class Broken extends Error {}

function workOf({ ready, wire, firsts, seconds, drawn, later }: World): Work {
  const inHand = [...ready, ...wire]
  const work = { open: inHand.length, drawn: inHand.filter((kind) => kind === 'drawn').length }
  if (work.open > 0) return work
  return { ...work, next: { is: firsts + drawn + later > 0 ? 'first' : seconds > 0 ? 'second' : 'nothing' } }
}

function check(holds: boolean, what: string): void {
  if (!holds) throw new Broken(what)
}

/** The state as ARCHITECTURE.md draws it. */
const stateOf = (health: Health) => (health.is === 'open' ? (health.isMixed ? 'mixed' : 'unproven') : health.is)
/** Each move from one state to another that a walk has seen. */
const moves = new Set<string>()

/** The world after an event; what is written for others is in the row at once. */
function feel(world: World, event: Event): World {
  const { health, write } = step(world.health, event, world.now, rules)
  const [from, to] = [world.health, health].map(stateOf)
  if (from !== to) moves.add(`${from} --> ${to}`)
  if (write?.says === 'trouble' && write.trouble.is !== 'asks' && event.is !== 'no sign') {
    const name = nameOf(write.trouble)
    const isProven = Object.values(world.tails).some(([kind, times]) => kind === name && times >= 2)
    check(isProven, `${name} is recorded, and is not proven`)
  }
  const row = write?.says === 'well' ? 'well' : write?.says === 'trouble' ? write.trouble.is : world.row
  // what others find is no answer, but what they get is one
  const isFound = (isTrouble(health) && event.is !== 'row') || (event.is === 'others well' && health !== world.health)
  return { ...world, health, row, alikeFirsts: isFound ? undefined : world.alikeFirsts }
}

function end(world: World, kind: Kind, sign: Sign): World {
  const name = nameOf(sign)
  const add = (tail: [string, number]): [string, number] =>
    sign.is === 'nothing' ? tail : [name, Math.min(2, tail[0] === name ? tail[1] + 1 : 1)]
  const { alikeFirsts, tails } = world
  const isOther = !isBad(sign) || (alikeFirsts?.sign !== undefined && alikeFirsts.sign !== name)
  const isSecondNext = kind !== 'second' && sign.is !== 'well' && sign.is !== 'empty'
  const ended: World = {
    ...world,
    wire: world.wire.slice(1),
    seconds: world.seconds + (isSecondNext ? 1 : 0),
    tails: { first: kind === 'second' ? tails.first : add(tails.first), all: add(tails.all) },
    alikeFirsts: isOther || !alikeFirsts ? undefined : { ...alikeFirsts, sign: name },
  }
  const attempt = kind === 'second' ? 2 : 1
  const felt = feel(ended, { is: 'outcome', attempt, sign, drawn: kind === 'drawn' })
  if (isTrouble(world.health) && sign.is === 'well') check(felt.row === 'well', 'a recovery is not recorded')
  return felt
}

const isFirst = (kind: Kind) => kind !== 'second'

function send(world: World, at: number): World {
  const kind = world.ready[at] as Kind
  if (isTrouble(world.health)) check(world.wire.length === 0 && hasTry(world.health), 'two tries at once')
  const { alikeFirsts } = world
  const sent = alikeFirsts && isFirst(kind) ? { ...alikeFirsts, sent: alikeFirsts.sent + 1 } : alikeFirsts
  check((sent?.sent ?? 0) <= rules.inARow, 'too many first attempts before another answer')
  return { ...world, ready: world.ready.toSpliced(at, 1), wire: [...world.wire, kind], alikeFirsts: sent }
}

function record(world: World, kind: Kind): World {
  const { health } = world
  const isDoubt =
    health.is === 'open' && health.firstsLeft && (!health.isMixed || (health.alike && isBad(health.alike)))
  check(isFirst(kind) || !isDoubt || health.alike?.is === 'empty', 'a second attempt in doubt')
  return { ...without(world, kind), ready: [...world.ready, kind] }
}

const without = (world: World, kind: Kind): World =>
  kind === 'second'
    ? { ...world, seconds: world.seconds - 1 }
    : kind === 'drawn'
      ? { ...world, drawn: world.drawn - 1 }
      : { ...world, firsts: world.firsts - 1 }

/** What is taken back is due again; nobody remembers who was drawn. */
function takeBack(world: World, isTaken: (kind: Kind) => boolean): World {
  const taken = world.ready.filter(isTaken)
  const firsts = taken.filter(isFirst).length
  const ready = world.ready.filter((kind) => !isTaken(kind))
  return { ...world, ready, firsts: world.firsts + firsts, seconds: world.seconds + taken.length - firsts }
}

const draw = (world: World): World => ({ ...world, later: world.later - 1, drawn: world.drawn + 1 })

/** What the run itself does next; undefined: it has ended. */
function act(world: World): World[] | undefined {
  const { health, ready, wire, firsts, seconds, drawn, later } = world
  const open = ready.length + wire.length
  check(!hasTry(health) || open > 0, 'a try is kept that nobody makes')
  const isDrawing = drawsOnly(health, rules)
  if (isDrawing && ready.some((kind) => kind !== 'drawn')) return [takeBack(world, (kind) => kind !== 'drawn')]
  if (ready.length > 0 && maySend(health, wire.length)) return [send(world, 0)]
  const permission = ask(health, workOf(world), world.now, rules)
  if (permission.is !== 'go' && ready.length > 0 && !hasTry(health)) return [takeBack(world, () => true)]
  switch (permission.is) {
    case 'go':
      return goOn(world, permission)
    case 'try': {
      if (permission.kind === 'first' && drawn === 0 && later > 0) return [draw(world)]
      const kind = permission.kind === 'second' ? 'second' : drawn > 0 ? 'drawn' : 'first'
      const granted = feel(world, { is: 'granted', kind: permission.kind })
      // its user may be gone: then nothing is recorded
      return [record(granted, kind), feel(without(granted, kind), { is: 'taken back' }), feel(world, { is: 'no sign' })]
    }
    case 'wait':
      return []
    case 'end':
      return open > 0 ? [] : undefined
  }
  function goOn(world: World, { firsts: allowed, seconds: second, drawn: draws, looks }: Go): World[] | undefined {
    if (draws && allowed > 0 && drawn === 0) return later > 0 ? [draw(world)] : [feel(world, { is: 'nobody to draw' })]
    const room = openMax - open
    const acts: World[] = []
    if (drawn > 0 && Math.min(allowed, room) > 0) return [record(world, 'drawn')]
    if (!draws && firsts > 0 && Math.min(allowed, room) > 0) acts.push(record(world, 'first'))
    if (!draws && seconds > 0 && Math.min(second, allowed, room) > 0) {
      acts.push(record(world, 'second'))
      if (looks) acts.push(feel(world, { is: 'no sign' }))
    }
    if (acts.length > 0 || firsts + drawn + open > 0) return acts
    if (isInDoubt(health, world.seconds > 0) && later > 0) return [draw(world)]
    if (later > 0) return []
    const felt = feel(world, { is: 'no firsts left' })
    if (felt.health !== health) return [felt]
    return seconds > 0 ? [] : undefined
  }
}

type Go = ReturnType<typeof ask> & { is: 'go' }

/** What comes from outside: answers, users, other processes, time. */
function suffer(world: World, signs: readonly Sign[]): World[] {
  const { wire, later, others, health, row } = world
  const found: World[] = []
  const [kind] = wire
  if (kind) {
    for (const sign of signs) found.push(end(world, kind, sign))
    const unmade = {
      ...world,
      wire: wire.slice(1),
      ...(isFirst(kind) ? { firsts: world.firsts + 1 } : { seconds: world.seconds + 1 }),
    }
    const { alikeFirsts } = world
    const sent = alikeFirsts && isFirst(kind) ? { ...alikeFirsts, sent: alikeFirsts.sent - 1 } : alikeFirsts
    found.push(feel({ ...unmade, alikeFirsts: sent }, { is: 'taken back' }))
  }
  if (later > 0) found.push({ ...world, later: later - 1, firsts: world.firsts + 1 }, { ...world, later: 0 })
  const learnt = (trouble: Trouble | undefined, tries: number): World => {
    const known: KnownTrouble | null = trouble ? { trouble, tries, nextMs: 10_000, secondMs: 0 } : null
    const says = trouble?.is ?? 'well'
    return feel({ ...world, others: others - 1, row: says }, { is: 'row', known, begins: false })
  }
  if (others > 0) found.push(feel({ ...world, others: others - 1 }, { is: 'others well', at: world.now + 1 }))
  if (others > 0 && row !== 'well' && isTrouble(health)) {
    found.push(learnt(undefined, 0))
    if (health.is === 'trouble') found.push(learnt(health.trouble, health.tries + 1))
  } else if (others > 0 && row === 'well') found.push(learnt({ is: 'down' }, 0), learnt(is401, 0))
  // a run without anything open waits; a refusal is not waited for longer than a minute
  const waits = health.is === 'trouble' || (health.is === 'open' && health.askedAt !== undefined)
  if (waits && world.ready.length + wire.length === 0) {
    const later = { ...world, now: world.now + tickMs }
    found.push(health.is === 'open' ? feel(later, { is: 'time' }) : later)
  }
  return found
}

const is401: Trouble = { is: 'refuses', status: 401 }

function* begin(): Generator<World> {
  const known: (KnownTrouble | null)[] = [
    null,
    { trouble: { is: 'down' }, tries: 2, nextMs: 20_000, secondMs: 0 },
    { trouble: { is: 'asks' }, tries: 2, nextMs: 20_000, secondMs: 0 },
    { trouble: is401, tries: 0, nextMs: 0, secondMs: 0 },
  ]
  for (const firsts of [0, 1, 3])
    for (const seconds of [0, 2])
      for (const row of known) {
        const world: World = {
          ...{ health: unproven, now: 0, firsts, seconds, drawn: 0, later: 2, others: 1, ready: [], wire: [] },
          row: row?.trouble.is ?? 'well',
          alikeFirsts: { sent: 0, sign: undefined },
          tails: { first: ['', 0], all: ['', 0] },
        }
        yield feel(world, { is: 'row', known: row, begins: true })
        if (row) yield { ...world, health: regardless(row) }
      }
}

/** Throws with the worlds on the way to the one where a promise is broken. `signs`: what an attempt may tell. */
export function walkHealth(signs: readonly Sign[] = allSigns): { states: number; ends: number; moves: string[] } {
  const worlds = new Map([...begin()].map((world) => [keyOf(world), world]))
  const first = new Map<string, string>()
  const before = new Map<string, string[]>()
  const ended = new Set<string>()
  const wayTo = (key: string): string => {
    const way = [key]
    for (let at = first.get(key); at !== undefined; at = first.get(at)) way.unshift(at)
    return way.join('\n')
  }
  for (const [key, world] of worlds) {
    try {
      const acts = act(world)
      if (acts === undefined) {
        ended.add(key)
        const { health } = world
        const { row } = feel(world, { is: 'end', cutShort: health.is === 'over' })
        // one that has seen nothing else, or that last, and has nobody left to try, leaves it at what others told
        const isOthers =
          health.is === 'open' && health.theirs && (!health.alike || isAlike(health.alike, health.theirs))
        if (health.is === 'open') check(row === (isOthers ? world.row : 'well'), 'the row does not say what was seen')
        continue
      }
      const next = [...acts, ...suffer(world, signs)]
      check(next.length > 0, 'nothing can happen any more')
      for (const world of next) {
        const to = keyOf(world)
        const keys = before.get(to)
        if (keys) keys.push(key)
        else before.set(to, [key])
        if (worlds.has(to)) continue
        worlds.set(to, world)
        first.set(to, key)
      }
    } catch (error) {
      if (error instanceof Broken) throw new Error(`${error.message}:\n${wayTo(key)}`)
      throw error
    }
  }
  const ending = new Set(ended)
  for (const key of ending) for (const one of before.get(key) ?? []) ending.add(one)
  for (const key of worlds.keys()) if (!ending.has(key)) throw new Error(`no end can be reached:\n${wayTo(key)}`)
  return { states: worlds.size, ends: ended.size, moves: [...moves] }
}
