/** What is to happen in a round: how many users, which processes, which failovers and when. Follows from the seed alone. */
import { Random } from '../chaos/random.ts'

export const usersMax = 1_500

export type Kind = 'synchronous' | 'asynchronous'

export interface Failover {
  /** It comes when so large a share of the users has been served. */
  atShare: number
  /** How the primary goes: killed, stopped at once, shut down; `none`: it stays, and only the addresses are away. */
  how: 'kill' | 'immediate' | 'fast' | 'none'
  /** What the addresses do meanwhile. */
  address: 'refuses' | 'silent'
  /** So long at least. */
  awayMs: number
  /** So long before it the standby that takes over got nothing more. */
  lagMs: number
}

export interface RoundPlan {
  kind: Kind
  users: number
  /** How each push reaches the database. */
  pushes: ('front' | 'hosts')[]
  concurrency: number
  /** Attempts a second of all pushes together. */
  rate: number
  lease: string
  failovers: Failover[]
}

function planAwayMs(random: Random, address: Failover['address']): number {
  const kind = random.next()
  if (address === 'silent') return kind < 0.6 ? random.from(3_000, 12_000) : random.from(12_000, 28_000)
  if (kind < 0.7) return random.from(100, 4_000)
  if (kind < 0.92) return random.from(4_000, 20_000)
  return kind < 0.98 ? random.from(20_000, 35_000) : 90_000
}

function planFailover(random: Random, kind: Kind): Failover {
  const address = random.chance(0.25) ? 'silent' : 'refuses'
  const how = random.chance(0.08) ? 'none' : random.one(['kill', 'kill', 'kill', 'immediate', 'fast'] as const)
  return {
    atShare: random.from(3, 85) / 100,
    how,
    address,
    awayMs: planAwayMs(random, address),
    // one that is shut down waits until its standbys have everything
    lagMs: kind === 'synchronous' || how === 'fast' || random.chance(0.2) ? 0 : random.from(50, 2_000),
  }
}

export function planRound(seed: string, round: number, kinds: readonly Kind[]): RoundPlan {
  const random = new Random(seed, round)
  const kind = random.one(kinds)
  const users = random.from(300, usersMax)
  return {
    kind,
    users,
    pushes: Array.from({ length: random.one([1, 3]) }, () => random.one(['front', 'hosts'] as const)),
    concurrency: random.from(2, 16),
    rate: Math.round(users / random.from(10, 20)),
    lease: `${random.one([2, 5, 10])}s`,
    failovers: Array.from({ length: random.from(2, 5) }, () => planFailover(random, kind)).sort(
      (a, b) => a.atShare - b.atShare,
    ),
  }
}

/** The short one of `npm test`: little of everything. */
export function planShortRound(kind: Kind): RoundPlan {
  const awayMs = 300
  const lagMs = kind === 'synchronous' ? 0 : 300
  return {
    kind,
    users: 120,
    pushes: ['front', 'hosts'],
    concurrency: 4,
    rate: 40,
    lease: '2s',
    failovers: [{ atShare: 0.3, how: 'kill', address: 'refuses', awayMs, lagMs }],
  }
}
