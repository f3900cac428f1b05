/**
 * Worlds in which faults belong together: a theme says whom the receiver always fails for, how, and since when, or which trouble
 * everybody gets. All faults of such a world come from its theme, and each theme is a row of the table at the end.
 */
import { rangeUsersMin } from '../../src/push/whom/planned-pushes.ts'
import type { Random } from '../chaos/random.ts'
import type { Manner, Push, Scenario } from './scenario.ts'

/** The users whom a receiver always fails for, by what they have in common. Numbers count from 0. */
export type Whom =
  | { by: 'place'; places: readonly string[] }
  /** Their receiver keys begin with it. */
  | { by: 'key'; prefix: string }
  /** They get one of these listings. */
  | { by: 'listing'; listings: readonly number[] }
  /** They get so many leads. */
  | { by: 'size'; leadsMin: number }
  /** The first or last of them, in the order in which they are served. */
  | { by: 'order'; end: 'first' | 'last'; count: number }

type Users = Pick<Scenario, 'users' | 'listings'>

export const receiverKeyOf = (user: number) => `key-${user}`

/** The numbers of those users. */
export function findUsersOf(whom: Whom, { users, listings }: Users): Set<number> {
  const numbers = [...users.keys()]
  const placesOf = (user: number) => users[user]?.places ?? []
  const having = (some: readonly (string | undefined)[]) =>
    numbers.filter((user) => placesOf(user).some((place) => some.includes(place)))
  switch (whom.by) {
    case 'place':
      return new Set(having(whom.places))
    case 'key':
      return new Set(numbers.filter((user) => receiverKeyOf(user).startsWith(whom.prefix)))
    case 'listing':
      return new Set(having(whom.listings.map((at) => listings[at])))
    case 'size': {
      const leads = (user: number) => listings.filter((place) => placesOf(user).includes(place)).length
      return new Set(numbers.filter((user) => leads(user) >= whom.leadsMin))
    }
    case 'order': {
      const homeOf = (user: number) => placesOf(user)[0] ?? ''
      const inOrder = numbers
        .filter((user) => placesOf(user).length > 0)
        .sort((a, b) => (homeOf(a) < homeOf(b) ? -1 : homeOf(a) > homeOf(b) ? 1 : a - b))
      return new Set(whom.end === 'first' ? inOrder.slice(0, whom.count) : inOrder.slice(-whom.count))
    }
  }
}

type Phases = Scenario['receiver']

/** A world while it is made. */
class ThemedWorld {
  readonly random: Random
  readonly places: readonly string[]
  readonly users: Scenario['users']
  readonly listings: Scenario['listings']
  readonly latencyMs: number

  constructor(random: Random) {
    this.random = random
    const count = random.from(2, 12)
    this.places = Array.from({ length: count }, (_, n) => String(10_001 + n))
    const users = random.one([random.from(2, 12), random.from(20, 60), random.from(20, 60), random.from(60, 110)])
    this.users = Array.from({ length: random.chance(0.03) ? 3 * users : users }, () => {
      const own = random.chance(0.95) ? [random.one(this.places)] : [random.one(this.places), random.one(this.places)]
      return { places: random.chance(0.03) ? [] : own, subscribed: random.chance(0.96) }
    })
    this.listings = Array.from({ length: random.from(count, 2 * count) }, () => random.one(this.places))
    this.latencyMs = random.from(5, 80)
  }

  /** Some users: seldom more than half of all. */
  some(by: Whom['by']): Whom {
    const { random, places, users, listings } = this
    switch (by) {
      case 'place': {
        const count = Math.min(random.one([1, 2, places.length]), places.length >> 1)
        const first = random.one([0, random.from(0, places.length - count), places.length - count])
        return { by, places: places.slice(first, first + count) }
      }
      case 'key':
        return { by, prefix: receiverKeyOf(random.from(1, 9)) }
      case 'listing': {
        // one, or all of a source
        const first = random.from(0, listings.length - 1)
        const every = random.one([listings.length, 4])
        return { by, listings: [...listings.keys()].filter((at) => at % every === first % every) }
      }
      case 'size':
        return { by, leadsMin: random.from(1, 4) }
      case 'order':
        return { by, end: random.one(['first', 'last'] as const), count: random.from(1, users.length >> 1) }
    }
  }

  /** How a receiver fails always for the same users. */
  failure(): Manner {
    const { random, latencyMs } = this
    const status = random.one([401, 404, 413, 422, 500])
    return random.one<Manner>([
      ...[1, 2, 3, 4, 5].map((): Manner => ({ is: 'status', status, latencyMs })),
      { is: 'hangs', latencyMs },
      { is: 'page', latencyMs },
      { is: 'not ok', latencyMs },
    ])
  }

  /** How it fails for everybody. */
  trouble(): Manner {
    const { random, latencyMs } = this
    return random.one<Manner>([
      this.failure(),
      this.failure(),
      { is: 'status', status: 503, latencyMs },
      { is: 'status', status: 429, latencyMs, retryAfter: random.from(1, 12) },
      { is: 'unreachable', latencyMs },
      { is: 'breaks', latencyMs },
    ])
  }

  well(gzip = false): Manner {
    return { is: 'well', latencyMs: this.latencyMs, gzip }
  }

  /** `manner` from the first request on, or once some were answered well. */
  since(manner: Manner, before = this.well()): Phases {
    const { random } = this
    if (random.chance(0.7)) return [{ atMs: 0, manner }]
    return [
      { atMs: 0, manner: before },
      { atMs: random.from(20, 2_000), manner },
    ]
  }

  /** One push, or three at once; `later` is a further one, if there is one, so long after. */
  pushes(later?: number): Push[] {
    const { random } = this
    const at = (atMs: number): Push => ({ what: 'all', force: false, atMs })
    const first = Array.from({ length: random.one([1, 1, 3]) }, () => at(random.from(1, 30)))
    if (later === undefined || random.chance(0.5)) return first
    return [...first, random.one<Push>([at(later), { what: 'resume', atMs: later }])]
  }

  settings(): Scenario['settings'] {
    const { random } = this
    return {
      timeoutMs: 1_000,
      retryDelayMs: random.one([0, 100, 1_000, 5_000]),
      concurrency: random.one([1, 4, 16, 16, 16, 64]),
      outageMs: random.one([0, 12_000, 60_000, 60_000, 600_000]),
      compress: random.one(['auto', 'auto', 'gzip', 'off'] as const),
      leaseMs: random.one([9_000, 20_000, 60_000]),
      guard: 'off',
      awayMs: 30_000,
    }
  }

  /** The faults make no difference to anything else. */
  make(faults: Pick<Scenario, 'receiver' | 'pushes'> & Partial<Scenario>): Omit<Scenario, 'seed'> {
    const { users, listings } = this
    return { users, listings, settings: this.settings(), events: [], ...faults }
  }
}

/** The receiver always fails for some users. Before that it may have failed now and then, so that second attempts are due. */
function failsForSome(world: ThemedWorld, by: Whom['by']): Omit<Scenario, 'seed'> {
  const { random, latencyMs } = world
  const manner: Manner = { is: 'fails for', whom: world.some(by), how: world.failure(), latencyMs }
  if (random.chance(0.75)) return world.make({ receiver: world.since(manner), pushes: world.pushes() })
  const settings = { ...world.settings(), retryDelayMs: random.one([1_000, 5_000]) }
  return world.make({
    settings,
    receiver: [
      { atMs: 0, manner: { is: 'mixed', share: 0.5, other: 'status', status: 500, latencyMs } },
      { atMs: 5_000, manner },
    ],
    pushes: [
      { what: 'all', force: false, atMs: 0 },
      ...world.pushes().map((push) => ({ ...push, atMs: 5_000 + push.atMs })),
    ],
    events: [{ is: 'stop', push: 0, atMs: random.from(20, 400) }],
  })
}

const minuteMs = 60_000

/** One after the other, and then all is well. */
function troublesInTurn(world: ThemedWorld, troubles: readonly Manner[]): Omit<Scenario, 'seed'> {
  const { random } = world
  const receiver = [{ atMs: 0, manner: random.chance(0.5) ? world.well() : (troubles[0] as Manner) }]
  let atMs = random.from(20, 2_000)
  for (const manner of troubles) {
    receiver.push({ atMs, manner })
    atMs += random.one([random.from(20, 2_000), random.from(5_000, 40_000), 10 * minuteMs])
    if (random.chance(0.3)) receiver.push({ atMs: atMs - random.from(1, 15), manner: world.well() })
  }
  receiver.push({ atMs, manner: world.well() })
  return world.make({ receiver, pushes: world.pushes(random.one([1_000, 20 * minuteMs, 61 * minuteMs])) })
}

const empty = (world: ThemedWorld): Manner => ({
  is: world.random.one(['page', 'not ok'] as const),
  latencyMs: world.latencyMs,
})

/** Everybody gets answers that show nothing. Somebody may stop a push that warns of one after the other. */
function pagesForAll(world: ThemedWorld): Omit<Scenario, 'seed'> {
  const { random } = world
  const events: Scenario['events'] = random.chance(0.3) ? [{ is: 'stop', push: 0, atMs: random.from(20, 3_000) }] : []
  return { ...troublesInTurn(world, [empty(world)]), events }
}

/** The receiver fails for the last users alone, who are so few that one of several processes has nobody else. */
function failsForLast(world: ThemedWorld): Omit<Scenario, 'seed'> {
  const { random, latencyMs } = world
  const [place, last] = ['10001', '10002']
  const ranges = random.from(1, 3)
  const whole = ranges * rangeUsersMin
  const users = Array.from({ length: whole + random.from(2, 7) }, (_, n) => {
    return { places: [n < whole ? place : last], subscribed: true }
  })
  const whom: Whom = { by: 'place', places: [last] }
  const manner: Manner = { is: 'fails for', whom, how: world.failure(), latencyMs }
  const pushes = Array.from(
    { length: ranges + 1 },
    (_, n): Push => ({ what: 'all', force: false, atMs: 10 * n + random.from(1, 20) }),
  )
  return world.make({ users, receiver: [{ atMs: 0, manner }], pushes })
}

/**
 * Whom the receiver fails for live behind nearly all others: a draw from those who are left then hardly meets anybody else. One push: a
 * process beside others may get these users alone, and judges by what it has seen.
 */
function failsForThoseBehind(world: ThemedWorld): Omit<Scenario, 'seed'> {
  const { random, latencyMs } = world
  const [failing, last] = ['10098', '10099']
  const users = Array.from({ length: random.from(60, 120) }, () => {
    const place = random.chance(0.45) ? failing : random.chance(0.05) ? last : random.one(world.places)
    return { places: [place], subscribed: true }
  })
  const whom: Whom = { by: 'place', places: [failing] }
  const manner: Manner = { is: 'fails for', whom, how: world.failure(), latencyMs }
  return world.make({ users, receiver: [{ atMs: 0, manner }], pushes: world.pushes().slice(0, 1) })
}

const makers = {
  place: (world) => failsForSome(world, 'place'),
  key: (world) => failsForSome(world, 'key'),
  listing: (world) => failsForSome(world, 'listing'),
  size: (world) => failsForSome(world, 'size'),
  order: (world) => failsForSome(world, 'order'),
  'last users': failsForLast,
  behind: failsForThoseBehind,
  everybody: (world) => world.make({ receiver: world.since(world.trouble()), pushes: world.pushes(61 * minuteMs) }),
  deploy(world) {
    const begunMs = world.random.from(20, 2_000)
    const over = { atMs: begunMs + 10 * minuteMs, manner: world.well() }
    const receiver = [{ atMs: 0, manner: world.well() }, { atMs: begunMs, manner: world.trouble() }, over]
    return world.make({ receiver, pushes: world.pushes(world.random.from(1, 15) * minuteMs) })
  },
  page: pagesForAll,
  'asks for less': (world) => {
    const asked = world.random.chance(0.5) ? { retryAfter: world.random.from(1, 12) } : {}
    const manner: Manner = { is: 'status', status: 429, latencyMs: world.latencyMs, ...asked }
    return world.make({ receiver: world.since(manner), pushes: world.pushes() })
  },
  /** A receiver that no longer takes compressed bodies. */
  'no gzip': (world) => {
    const plain: Manner = { is: 'plain alone', latencyMs: world.latencyMs, gzip: world.random.chance(0.3) }
    const compress = world.random.one(['auto', 'gzip'] as const)
    const receiver = world.since(plain, world.well(true))
    return world.make({ receiver, pushes: world.pushes(), settings: { ...world.settings(), compress } })
  },
  /** The machine of the push has too few file descriptors. */
  shortage: (world) => {
    const manner: Manner = { is: 'shortage', most: world.random.from(1, 60), latencyMs: world.latencyMs }
    return world.make({ receiver: world.since(manner), pushes: world.pushes() })
  },
  'two troubles': (world) => troublesInTurn(world, [world.trouble(), world.trouble()]),
} satisfies Record<string, (world: ThemedWorld) => Omit<Scenario, 'seed'>>

export type FaultTheme = keyof typeof makers

export const faultThemes = Object.keys(makers) as FaultTheme[]

export const makeThemed = (theme: FaultTheme, random: Random): Omit<Scenario, 'seed'> =>
  makers[theme](new ThemedWorld(random))
