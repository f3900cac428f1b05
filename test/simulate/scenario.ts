/** What a simulated run is made of, as values that a seed decides and that can be left out one by one. */
import type { PushSettings } from '../../src/push/run-push.ts'
import { type BadEnd, badEnds } from '../../src/push/whom/pass.ts'
import { Random } from '../chaos/random.ts'
import { type FaultTheme, faultThemes, makeThemed, type Whom } from './themes.ts'

export interface Scenario {
  seed: number
  /** What it was made from. */
  theme?: Theme
  users: readonly SimulatedUser[]
  /** The places of the listings. */
  listings: readonly string[]
  settings: Partial<PushSettings> & { awayMs: number }
  /** Each manner lasts until the next one begins; the first begins with the run. */
  receiver: readonly { atMs: number; manner: Manner }[]
  pushes: readonly Push[]
  events: readonly Event[]
}

export interface SimulatedUser {
  places: readonly string[]
  subscribed: boolean
  /** Leads in the weekly delivery of the week before, with the same queries. */
  leadsBefore?: number
}

type OtherManner = 'status' | 'hangs' | 'breaks' | 'page' | 'unreachable'

/** How the receiver answers, after how long. */
export type Manner = { latencyMs: number; gzip?: boolean } & (
  | { is: 'well' }
  | { is: 'status'; status: number; retryAfter?: number }
  /** So many requests a second, and so many at once; a 429 beyond. */
  | { is: 'limited'; ratePerSecond: number; burst: number; retryAfter?: number }
  | { is: 'hangs' }
  | { is: 'unreachable' }
  /** It takes the request and ends the connection. */
  | { is: 'breaks' }
  | { is: 'page' }
  /** A success whose body says that it is none. */
  | { is: 'not ok' }
  /** It always fails for the same users. */
  | { is: 'fails for'; whom: Whom; how: Manner }
  /** Well; of the requests at once that go beyond `most`, none leaves the machine. */
  | { is: 'shortage'; most: number }
  /** A share of the requests ends in another way; and `hangs` of them hang. */
  | { is: 'mixed'; share: number; other: OtherManner; status: number; hangs?: number }
  /** It takes no compressed delivery. */
  | { is: 'plain alone' }
)

export type Push = {
  atMs: number
  accept?: boolean
} & (
  | { what: 'all'; force: boolean; limit?: number; only?: readonly number[] }
  | { what: 'resume' }
  | { what: 'failed'; ends: readonly BadEnd[] }
  | { what: 'owed' }
  | { what: 'user'; user: number; owedOnly: boolean }
)

/** `lagMs` after the `nth` statement of that name that a push sends; without a lag it comes first. */
export interface Moment {
  push: number
  statement: string
  nth: number
  lagMs: number
}

/** `aimed`: it happens then, and not at `atMs`. */
export type Event = { atMs: number; aimed?: Moment } & (
  | { is: 'stop' | 'kill'; push: number }
  | { is: 'freeze'; push: number; forMs: number }
  /** The database is away; `server`: another one answers afterwards, without what was committed in the last `lostMs`. */
  | { is: 'away'; forMs: number; server: boolean; lostMs: number }
  /** Statements are carried out, and their answers are lost. */
  | { is: 'lose'; forMs: number; share: number }
  | { is: 'erase'; listings: readonly number[] }
  | { is: 'subscribe' | 'unsubscribe' | 'remove'; user: number }
  | { is: 'import'; user: number; places: readonly string[] }
  | { is: 'listing'; place: string }
)

/** From `min` to `max`, small numbers as often as large ones ten times as large. */
const wide = (random: Random, min: number, max: number) => Math.round(min * (max / min) ** random.next())

const allPlaces = ['10001', '10002', '10003', '10004', '10005', '10006']

/** What a run is about: some things happen together too rarely by chance. */
const chanceThemes = [
  ...(['anything', 'anything', 'anything', 'anything', 'one user', 'guard', 'newcomers', 'crowd'] as const),
  ...(['aimed', 'aimed', 'aimed user', 'trouble', 'trouble', 'steady', 'forced'] as const),
]
type ChanceTheme = (typeof chanceThemes)[number]
export type Theme = ChanceTheme | FaultTheme
export const themes: readonly Theme[] = [...new Set(chanceThemes), ...faultThemes]
/** A run in so many has a theme of faults that belong together. */
const runsPerFaultTheme = 5

/** Where it matters whether something happens before, within or after a statement. */
const critical = [
  ...['recordPushes', 'recordPushes', 'recordPushes', 'recordDue', 'recordDue', 'recordOutcomes', 'recordOutcomes'],
  ...['takeRange', 'takeBack', 'releaseDeliveries', 'endAbandoned', 'findNextDue', 'findErasures', 'countOfPass'],
  ...['end', 'closeInterrupted', 'takeBack', 'releaseRanges'],
]
const criticalInTrouble = ['takeTry', 'takeTry', 'takeTry', 'tellReceiver', 'readReceiver', 'recordDue', 'recordPushes']

class ScenarioMaker {
  private readonly random: Random
  private readonly theme: ChanceTheme
  private readonly places: readonly string[]
  private readonly users: number
  private readonly listings: number
  private readonly spanMs: number

  constructor(theme: ChanceTheme, random: Random) {
    this.random = random
    this.theme = theme
    this.users = this.countUsers()
    this.listings = this.theme === 'guard' ? random.from(4, 7) : random.from(1, 7)
    this.places = this.theme === 'guard' ? allPlaces.slice(0, 1) : allPlaces
    this.spanMs = wide(random, 500, 60_000)
  }

  private countUsers(): number {
    const { random, theme } = this
    if (theme === 'crowd') return random.from(21, random.chance(0.1) ? 200 : 45)
    if (theme === 'steady') return random.from(25, random.chance(0.1) ? 120 : 60)
    if (theme === 'trouble') return random.chance(0.5) ? random.from(2, 6) : random.from(7, 30)
    if (theme === 'aimed user') return random.from(1, 2)
    return random.chance(0.85) ? random.from(1, 6) : random.from(7, 30)
  }

  make(): Omit<Scenario, 'seed'> {
    const { random, theme, users, listings, spanMs, places } = this
    const pushes = Array.from({ length: this.countPushes() }, () => this.makePush())
    const phases = theme === 'steady' ? 1 : random.one([1, 1, 2, 3])
    const events = this.makeEvents(pushes)
    if (theme === 'anything' && random.chance(0.06))
      events.push({
        ...{ is: 'away', forMs: wide(random, 10, 3_000), server: true, lostMs: wide(random, 20, 2_000) },
        atMs: random.from(50, spanMs),
      })
    return {
      users: Array.from({ length: users }, () => this.makeUser()),
      listings: Array.from({ length: listings }, () => random.one(places)),
      settings: this.makeSettings(),
      receiver: Array.from({ length: phases }, (_, n) => ({
        atMs: n === 0 ? 0 : random.from(0, spanMs),
        manner: this.makeMannerOf(n),
      })).sort((a, b) => a.atMs - b.atMs),
      pushes,
      events,
    }
  }

  private countPushes(): number {
    const { random, theme } = this
    if (theme === 'steady') return 1
    const isAlone = theme === 'one user' || theme === 'newcomers' || theme === 'aimed user'
    if (isAlone) return random.one([1, 1, 2])
    return theme === 'trouble' || theme === 'forced' ? random.one([2, 2, 3, 4]) : random.one([1, 1, 1, 2, 2, 2, 3, 4])
  }

  private makeEvents(pushes: readonly Push[]): Event[] {
    const { random, theme } = this
    switch (theme) {
      case 'steady':
        return []
      case 'aimed':
      case 'aimed user':
        return Array.from({ length: random.from(1, 2) }, () => this.aim(pushes, random.one(critical))).flat()
      case 'trouble':
        return Array.from({ length: random.from(0, 2) }, () => this.aim(pushes, random.one(criticalInTrouble))).flat()
      default:
        return random.chance(0.1) ? [] : Array.from({ length: random.from(0, 6) }, () => this.makeEvent(pushes))
    }
  }

  /** One thing that keeps a statement from its answer, or its push from going on, and often another while it does. */
  private aim(pushes: readonly Push[], statement: string): Event[] {
    const { random, users, listings, theme } = this
    const push = random.from(0, pushes.length - 1)
    const by = pushes[push]
    const user = by?.what === 'user' ? by.user : random.from(0, users - 1)
    const aimed = { push, statement, nth: random.one([1, 1, 1, 2, 3]), lagMs: 0 }
    const at = { atMs: by?.atMs ?? 0, aimed }
    const later = { atMs: by?.atMs ?? 0, aimed: { ...aimed, lagMs: wide(random, 1, 150) } }
    const soon = { ...at, aimed: { ...aimed, lagMs: random.from(0, 4) } }
    const some: Event[] = [
      ...[1, 2, 3].map((): Event => ({ is: 'lose', forMs: wide(random, 1, 30), share: 1, ...at })),
      { is: 'away', forMs: wide(random, 10, 5_000), server: random.chance(0.5), lostMs: 0, ...at },
      ...[1, 2].map((): Event => ({ is: 'stop', push, ...soon })),
      { is: 'kill', push, ...soon },
      { is: 'freeze', push, forMs: wide(random, 100, 20_000), ...soon },
    ]
    const others: Event[] = [
      ...[1, 2].map((): Event => ({ is: 'erase', listings: [random.from(0, listings - 1)], ...later })),
      { is: 'erase', listings: Array.from({ length: listings }, (_, n) => n), ...later },
      { is: 'away', forMs: wide(random, 10, 500), server: true, lostMs: 0, ...later },
      { is: random.one(['subscribe', 'unsubscribe', 'remove'] as const), user, ...later },
      { is: 'stop', push, ...later },
    ]
    const owed: Event = { is: 'subscribe', user, atMs: 0 }
    const isOwed = random.chance(theme === 'trouble' ? 0.1 : 0.3)
    // an erasure while a subscription push is begun
    if (theme === 'aimed user' && random.chance(0.25))
      return [
        owed,
        { is: 'erase', listings: [0], ...later, aimed: { ...later.aimed, statement: 'recordPushes', nth: 1 } },
      ]
    const event = random.one(some)
    return [...(isOwed ? [owed] : []), event, ...(random.chance(0.7) ? [random.one(others)] : [])]
  }

  private makeUser(): SimulatedUser {
    const { random, places, theme } = this
    const own = random.chance(0.8) ? [random.one(places)] : [random.one(places), random.one(places)]
    return {
      places: random.chance(0.05) ? [] : own,
      subscribed: random.chance(0.92),
      ...(theme === 'guard' && random.chance(0.8) && { leadsBefore: random.one([50, 60, 100, 10]) }),
    }
  }

  private makeSettings(): Scenario['settings'] {
    const { random, theme } = this
    return {
      timeoutMs: random.one([1_000, 5_000, 10_000]),
      retryDelayMs: theme === 'steady' ? random.one([10, 100, 300]) : random.one([0, 100, 1_000, 5_000]),
      concurrency: random.one(theme === 'steady' ? [1, 2, 4, 16, 16, 16, 16, 16] : [1, 2, 4, 16, 16, 64]),
      ratePerSecond: random.chance(0.1) ? wide(random, 1, 50) : undefined,
      outageMs: this.makeOutage(),
      compress: random.one(['auto', 'auto', 'gzip', 'off'] as const),
      leaseMs: random.one([random.chance(0.3) ? 1_000 : 9_000, 20_000, 60_000]),
      guard: theme === 'guard' ? 'on' : random.one(['on', 'on', 'off'] as const),
      awayMs: random.one([2_000, 30_000, 120_000]),
    }
  }

  private makeOutage(): number {
    const { random } = this
    return random.one([
      0,
      12_000,
      12_000,
      12_000,
      random.chance(0.5) ? 60_000 : 12_000,
      random.chance(0.05) ? 600_000 : 0,
    ])
  }

  private makeMannerOf(phase: number): Manner {
    const { random, theme } = this
    const latencyMs = wide(random, 20, 150)
    const status = random.one([401, 404, 500, 503])
    if (theme === 'steady')
      return random.chance(0.4)
        ? { is: 'mixed', share: random.one([0.03, 0.1]), other: 'status', status: 500, latencyMs }
        : // many second attempts beside one that hangs
          { is: 'mixed', share: 0.3, other: 'status', status: 425, hangs: random.one([0.02, 0.05]), latencyMs }
    if (theme !== 'trouble') return this.makeManner()
    if (phase > 0 && random.chance(0.5)) return { is: 'well', latencyMs }
    return random.one<Manner>([
      ...[1, 2].map((): Manner => ({ is: 'status', status, latencyMs })),
      ...(['hangs', 'unreachable', 'breaks', 'page'] as const).map((is) => ({ is, latencyMs })),
    ])
  }

  private makeManner(): Manner {
    const { random } = this
    const latencyMs = wide(random, 2, random.chance(0.2) ? 4_000 : 80)
    const gzip = random.chance(0.2)
    const status = (...some: number[]) => ({ is: 'status', status: random.one(some), latencyMs }) as const
    const all: Manner[] = [
      ...[1, 2].map(() => ({ is: 'well', latencyMs, gzip }) as const),
      status(400, 401, 403, 404, 409, 413, 415, 422, 301),
      status(500, 502, 503),
      { ...status(429, 503), retryAfter: wide(random, 1, 12) },
      {
        ...{ is: 'limited', ratePerSecond: wide(random, 2, 40), burst: random.from(1, 20), latencyMs },
        ...(random.chance(0.7) && { retryAfter: random.from(1, 5) }),
      },
      ...(['hangs', 'unreachable', 'breaks', 'page'] as const).map((is) => ({ is, latencyMs })),
      {
        ...{ is: 'mixed', share: random.one([0.05, 0.3, 0.6, 0.9]), latencyMs, gzip },
        other: random.one(['status', 'hangs', 'breaks', 'page', 'unreachable'] as const),
        status: random.one([400, 409, 429, 500, 503, 401]),
      },
      { is: 'plain alone', latencyMs, gzip: random.chance(0.5) },
    ]
    return random.one(all)
  }

  private makePush(): Push {
    const { random, users, theme } = this
    const atMs = random.chance(0.5) ? random.from(1, 30) : random.from(0, this.spanMs)
    const accept = theme !== 'guard' && random.chance(0.06)
    const user = random.from(0, users - 1)
    const all = { what: 'all', force: false, atMs, accept } as const
    if (theme === 'newcomers') return all
    if (theme === 'steady') return { ...all, atMs: 0, accept: false }
    if (theme === 'forced')
      return random.one<Push>([all, { ...all, force: true }, { ...all, force: true }, { what: 'resume', atMs }])
    if (theme === 'trouble') {
      // an hour later the next try of a receiver that refuses is due
      const later = random.chance(0.4) ? 3_600_000 + random.from(-90_000, 90_000) : 0
      const push = { atMs: 1 + atMs + later, accept: false }
      return random.one<Push>(
        [1, 2, 3]
          .map((): Push => ({ ...all, ...push }))
          .concat({ what: 'resume', ...push }, { what: 'owed', atMs: push.atMs }),
      )
    }
    if ((theme === 'one user' || theme === 'aimed user') && random.chance(0.7))
      return { what: 'user', user, owedOnly: random.chance(0.2), atMs }
    return random.one<Push>([
      ...[all, all, all],
      { ...all, force: random.chance(0.3), limit: random.from(1, Math.max(1, users)) },
      { ...all, force: true },
      { what: 'resume', atMs, accept },
      { what: 'failed', ends: badEnds({ unknown: random.chance(0.5), doubtful: random.chance(0.3) }), atMs, accept },
      { what: 'owed', atMs },
      { what: 'user', user, owedOnly: random.chance(0.3), atMs, accept },
    ])
  }

  private makeEvent(pushes: readonly Push[]): Event {
    const { random, users, listings, spanMs, theme, places } = this
    const push = random.from(0, pushes.length - 1)
    // most of it while a push begins: later much the same happens again and again
    const atMs = random.chance(0.6) ? (pushes[push]?.atMs ?? 0) + wide(random, 2, 400) : random.from(0, spanMs)
    const user = random.from(0, users - 1)
    const erase: Event = { is: 'erase', atMs, listings: [random.from(0, listings - 1)] }
    const eraseMany: Event = { ...erase, listings: Array.from({ length: listings - 1 }, (_, n) => n) }
    const lose: Event = { is: 'lose', forMs: wide(random, 5, 300), share: random.one([0.2, 0.5, 1]), atMs }
    const away: Event = { is: 'away', forMs: wide(random, 10, 20_000), server: random.chance(0.5), lostMs: 0, atMs }
    const newcomer: Event = { is: 'import', user: users + random.from(0, 5), places: [random.one(places)], atMs }
    if (theme === 'guard') return random.one([eraseMany, eraseMany, erase, lose, { is: 'remove', user, atMs }, away])
    if (theme === 'newcomers') return random.one([newcomer, newcomer, { is: 'subscribe', user, atMs }])
    if (theme === 'one user') return random.one([erase, lose, lose, away, { is: 'subscribe', user, atMs }])
    return random.one<Event>([
      { is: 'stop', push, atMs },
      { is: 'kill', push, atMs },
      { is: 'freeze', push, forMs: wide(random, 100, 20_000), atMs },
      ...[away, lose, erase, eraseMany, newcomer],
      { ...lose, forMs: wide(random, 5, 3_000) },
      { is: 'subscribe', user, atMs },
      { is: 'subscribe', user, atMs },
      { is: 'unsubscribe', user, atMs },
      { is: 'remove', user, atMs },
      { is: 'listing', place: random.one(places), atMs },
    ])
  }
}

/** `only`: that theme, whatever the seed would draw. */
export function makeScenario(seed: number, only?: Theme): Scenario {
  const random = new Random('scenario', seed)
  const drawn = random.chance(1 / runsPerFaultTheme) ? random.one(faultThemes) : random.one(chanceThemes)
  const theme = only ?? drawn
  const isOfFaults = (one: Theme): one is FaultTheme => (faultThemes as readonly Theme[]).includes(one)
  const made = isOfFaults(theme) ? makeThemed(theme, random) : new ScenarioMaker(theme, random).make()
  return { seed, theme, ...made }
}
