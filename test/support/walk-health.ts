/**
 * Walks every state that a run with few users can reach, for all answers and all acts of other processes, and checks in each
 * what a push promises (contract 4.12). The run is the loop in small: it asks, records, sends, and tells what came of it.
 */
import {
  ask,
  type Event,
  type Health,
  maySend,
  type Rules,
  type Sign,
  signOf,
  step,
  unproven,
  type Work,
} from '../../src/push/receiver/health.ts'

type Kind = 'first' | 'second'

const rules: Rules = { patienceMs: 45_000, refusals: true, empty: true, inARow: 3 }
const signs: readonly Sign[] = [
  { is: 'well' },
  ...[503, null, 401, 403].map((httpStatus) => signOf({ httpStatus, error: '' })),
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
  /** Users who will be planned. */
  later: number
  /** How often other processes will find something. */
  others: number
  ready: Kind[]
  wire: Kind[]
  /** What the row says. */
  row: 'well' | 'down' | 'refuses'
  /** First attempts that went out before an answer of another kind, as long as there was no trouble; undefined: there was either. */
  alikeFirsts: { sent: number; sign: string | undefined } | undefined
  /** The last outcomes that were alike: of first attempts, of all. */
  tails: { first: [string, number]; all: [string, number] }
}

const nameOf = (sign: Sign) => (sign.is === 'failure' ? `failure ${sign.status}` : sign.is)
const isTrouble = ({ is }: Health) => is === 'trouble'
const troubleOf = (status: number | null) => (status === null ? 'down' : 'refuses')
const hasTry = (health: Health) => health.is === 'trouble' && health.mine !== undefined
/** Times count from now, and what differs no more is the same. */
const keyOf = ({ now, health, ...world }: World) => {
  const clip = (ms: number) => Math.min(Math.ceil(Math.max(ms, 0) / tickMs), farTicks)
  const times = health.is === 'trouble' && {
    nextAt: clip(health.nextAt - now),
    secondAt: clip(health.secondAt - now),
    tries: Math.min(health.tries, 2),
    since: health.status === null ? clip(rules.patienceMs - (now - health.since)) : 0,
  }
  const why = health.is === 'over' && { why: health.why.by }
  return JSON.stringify({ ...world, health: { ...health, ...times, ...why } })
}

function workOf({ ready, wire, firsts, seconds, later }: World): Work {
  const open = ready.length + wire.length
  if (open > 0 || (firsts === 0 && later > 0)) return { open }
  return { open, next: { is: firsts > 0 ? 'first' : seconds > 0 ? 'second' : 'nothing' } }
}

function check(holds: boolean, what: string, world: World): void {
  if (!holds) throw new Error(`${what}: ${keyOf(world)}`)
}

/** The world after an event; what is written for others is in the row at once. */
function feel(world: World, event: Event): World {
  const { health, write } = step(world.health, event, world.now, rules)
  if (write?.says === 'trouble') {
    const name = `failure ${write.status}`
    const isProven = Object.values(world.tails).some(([kind, times]) => kind === name && times >= 2)
    check(isProven, `${name} is recorded, and is not proven`, world)
  }
  const row = write?.says === 'well' ? 'well' : write?.says === 'trouble' ? troubleOf(write.status) : world.row
  return { ...world, health, row, alikeFirsts: isTrouble(health) ? undefined : world.alikeFirsts }
}

function end(world: World, kind: Kind, sign: Sign): World {
  const name = nameOf(sign)
  const add = ([before, times]: [string, number]): [string, number] => [
    name,
    Math.min(2, before === name ? times + 1 : 1),
  ]
  const { alikeFirsts, tails } = world
  const isOther = name === 'well' || (alikeFirsts?.sign !== undefined && alikeFirsts.sign !== name)
  const failed = sign.is === 'failure'
  const ended: World = {
    ...world,
    wire: world.wire.slice(1),
    seconds: world.seconds + (kind === 'first' && failed ? 1 : 0),
    tails: { first: kind === 'first' ? add(tails.first) : tails.first, all: add(tails.all) },
    alikeFirsts: isOther || !alikeFirsts ? undefined : { ...alikeFirsts, sign: name },
  }
  const felt = feel(ended, { is: 'outcome', attempt: kind === 'first' ? 1 : 2, sign })
  if (isTrouble(world.health) && sign.is === 'well') check(felt.row === 'well', 'a recovery is not recorded', felt)
  return felt
}

function send(world: World): World {
  const [kind, ...ready] = world.ready as [Kind, ...Kind[]]
  if (isTrouble(world.health)) check(world.wire.length === 0 && hasTry(world.health), 'two tries at once', world)
  const { alikeFirsts } = world
  const sent = alikeFirsts && kind === 'first' ? { ...alikeFirsts, sent: alikeFirsts.sent + 1 } : alikeFirsts
  check((sent?.sent ?? 0) <= rules.inARow, 'too many first attempts before another answer', world)
  return { ...world, ready, wire: [...world.wire, kind], alikeFirsts: sent }
}

function record(world: World, kind: Kind): World {
  const { health } = world
  const isDoubt = health.is === 'open' && health.firstsLeft && (!health.isMixed || health.alike?.is === 'failure')
  check(kind === 'first' || !isDoubt, 'a second attempt in doubt', world)
  const taken = kind === 'first' ? { firsts: world.firsts - 1 } : { seconds: world.seconds - 1 }
  return { ...world, ...taken, ready: [...world.ready, kind] }
}

function takeBack(world: World): World {
  const firsts = world.ready.filter((kind) => kind === 'first').length
  const seconds = world.ready.length - firsts
  return { ...world, ready: [], firsts: world.firsts + firsts, seconds: world.seconds + seconds }
}

/** What the run itself does next; undefined: it has ended. */
function act(world: World): World[] | undefined {
  const { health, ready, wire, firsts, seconds, later } = world
  check(!hasTry(health) || ready.length + wire.length > 0, 'a try is kept that nobody makes', world)
  if (ready.length > 0 && maySend(health, wire.length)) return [send(world)]
  const permission = ask(health, workOf(world), world.now, rules)
  if (permission.is !== 'go' && ready.length > 0 && !hasTry(health)) return [takeBack(world)]
  switch (permission.is) {
    case 'go': {
      const acts: World[] = []
      const room = openMax - ready.length - wire.length
      if (firsts > 0 && Math.min(permission.firsts, room) > 0) acts.push(record(world, 'first'))
      if (seconds > 0 && Math.min(permission.seconds, permission.firsts, room) > 0) acts.push(record(world, 'second'))
      if (acts.length > 0 || firsts + later + ready.length + wire.length > 0) return acts
      const felt = feel(world, { is: 'no firsts left' })
      if (felt.health !== health) return [felt]
      return seconds > 0 ? [] : undefined
    }
    case 'try': {
      const granted = feel(world, { is: 'granted', kind: permission.kind })
      // its user may be gone: then nothing is recorded
      const gone = permission.kind === 'first' ? { firsts: firsts - 1 } : { seconds: seconds - 1 }
      return [
        record(granted, permission.kind),
        feel({ ...granted, ...gone }, { is: 'not made' }),
        feel(world, { is: 'no sign' }),
      ]
    }
    case 'wait':
      return []
    case 'end':
      return ready.length + wire.length > 0 ? [] : undefined
  }
}

/** What comes from outside: answers, users, other processes, time. */
function suffer(world: World): World[] {
  const { wire, later, others, health, row } = world
  const found: World[] = []
  const [kind] = wire
  if (kind) {
    for (const sign of signs) found.push(end(world, kind, sign))
    const unmade = {
      ...world,
      wire: wire.slice(1),
      ...(kind === 'first' ? { firsts: world.firsts + 1 } : { seconds: world.seconds + 1 }),
    }
    const { alikeFirsts } = world
    const sent = alikeFirsts && kind === 'first' ? { ...alikeFirsts, sent: alikeFirsts.sent - 1 } : alikeFirsts
    found.push(feel({ ...unmade, alikeFirsts: sent }, { is: 'not made' }))
  }
  if (later > 0) found.push({ ...world, later: later - 1, firsts: world.firsts + 1 }, { ...world, later: 0 })
  const learnt = (status: number | null | undefined, tries: number): World => {
    const known = status === undefined ? null : { status, tries, nextMs: 10_000, secondMs: 0 }
    const says = status === undefined ? 'well' : troubleOf(status)
    return feel({ ...world, others: others - 1, row: says }, { is: 'row', known, begins: false })
  }
  if (others > 0 && row !== 'well' && isTrouble(health)) {
    found.push(learnt(undefined, 0))
    if (health.is === 'trouble') found.push(learnt(health.status === null ? null : 401, health.tries + 1))
  } else if (others > 0 && row === 'well') found.push(learnt(null, 0), learnt(401, 0))
  // a run without anything open waits; a refusal is not waited for longer than a minute
  if (health.is === 'trouble' && world.ready.length + wire.length === 0)
    found.push({ ...world, now: world.now + tickMs })
  return found
}

function* begin(): Generator<World> {
  const known = [
    null,
    { status: null, tries: 2, nextMs: 20_000, secondMs: 0 },
    { status: 401, tries: 0, nextMs: 0, secondMs: 0 },
  ]
  for (const firsts of [0, 1, 3])
    for (const seconds of [0, 1])
      for (const row of known) {
        const world: World = {
          ...{ health: unproven, now: 0, firsts, seconds, later: 1, others: 1, ready: [], wire: [] },
          row: row === null ? 'well' : troubleOf(row.status),
          alikeFirsts: { sent: 0, sign: undefined },
          tails: { first: ['', 0], all: ['', 0] },
        }
        yield feel(world, { is: 'row', known: row, begins: true })
      }
}

/** Throws with the world where a promise is broken. */
export function walkHealth(): { states: number; ends: number } {
  const worlds = new Map([...begin()].map((world) => [keyOf(world), world]))
  const before = new Map<string, string[]>()
  const ended = new Set<string>()
  for (const [key, world] of worlds) {
    const acts = act(world)
    if (acts === undefined) {
      ended.add(key)
      const { health, row } = feel(world, { is: 'end', cutShort: world.health.is === 'over' })
      if (!isTrouble(health) && health.is !== 'over') check(row === 'well', 'the row still says trouble', world)
      continue
    }
    const next = [...acts, ...suffer(world)]
    check(next.length > 0, 'nothing can happen any more', world)
    for (const world of next) {
      const to = keyOf(world)
      before.set(to, [...(before.get(to) ?? []), key])
      if (!worlds.has(to)) worlds.set(to, world)
    }
  }
  const ending = new Set(ended)
  for (const key of ending) for (const one of before.get(key) ?? []) ending.add(one)
  for (const [key, world] of worlds) check(ending.has(key), 'no end can be reached', world)
  return { states: worlds.size, ends: ended.size }
}
