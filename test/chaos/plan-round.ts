/** What is to happen in a round: how many users, which processes, which troubles and when. Follows from the seed alone. */
import { usersMax } from './imports.ts'
import { Random } from './random.ts'
import type { Temper } from './receiver.ts'

export interface PlannedProcess {
  args: string[]
  concurrency: number
  /** After the round began. */
  atMs: number
}

/** `atMs` counts from the first request; `process` is an index of the round's: if that has ended, one that came later. */
export type Trouble = { atMs: number } & (
  | { what: 'kill' | 'stop' | 'stop twice'; process: number }
  | { what: 'freeze'; process: number; forMs: number }
  | { what: 'kill postgres'; downMs: number }
  | { what: 'kill session' | 'end sessions' }
  | { what: 'freeze session'; forMs: number }
  | { what: 'import' }
  | { what: 'close receiver' | 'refuse' | 'throttle'; forMs: number }
)

/** Beside the pushes: all users with other receiver keys and queries, or all listings; counted from when the first process was begun. */
export interface PlannedImport {
  what: 'users' | 'leads'
  atMs: number
  killedAfterMs?: number
}

export interface RoundPlan {
  users: number
  temper: Temper
  /** The server confirms commits before they are on disk. */
  confirmsEarly: boolean
  outage: string
  /** All processes post to one URL, and so learn from each other whether the receiver is down. */
  sharesUrl: boolean
  processes: PlannedProcess[]
  imports: PlannedImport[]
  troubles: Trouble[]
}

/** It is gone for a while, answers everybody 503, or lets few through. */
function planAbsence(random: Random, atMs: number): Trouble {
  const what = random.one(['close receiver', 'refuse', 'throttle'] as const)
  return { atMs, what, forMs: random.chance(0.5) ? random.from(50, 500) : random.from(500, 2_500) }
}

function planImports(random: Random): PlannedImport[] {
  return (['users', 'leads'] as const).map((what) => ({
    what,
    atMs: random.from(0, 1_000),
    ...(random.chance(0.15) ? { killedAfterMs: random.from(300, 900) } : {}),
  }))
}

function planTrouble(random: Random, atMs: number, processes: number, onlyProcesses: boolean): Trouble {
  const process = random.from(0, processes - 1)
  const kind = random.from(1, onlyProcesses ? 10 : 19)
  if (kind <= 4) return { atMs, what: 'kill', process }
  if (kind <= 5) return { atMs, what: 'stop', process }
  if (kind <= 6) return { atMs, what: 'stop twice', process }
  // some for longer than the lease of 1 s
  if (kind <= 8) return { atMs, what: 'freeze', process, forMs: random.from(300, 2_200) }
  if (kind <= 9) return { atMs, what: 'import' }
  if (kind <= 10) return planAbsence(random, atMs)
  if (kind <= 14) return { atMs, what: 'kill postgres', downMs: random.chance(0.6) ? 0 : random.from(100, 1_800) }
  if (kind <= 15) return { atMs, what: 'kill session' }
  if (kind <= 17) return { atMs, what: 'end sessions' }
  return { atMs, what: 'freeze session', forMs: random.from(200, 2_000) }
}

export function planRound(seed: string, round: number): RoundPlan {
  const random = new Random(seed, round)
  const processes = Array.from({ length: random.from(1, 3) }, (_, at): PlannedProcess => {
    const kind = random.next()
    const args = kind < 0.75 || at === 0 ? ['--all'] : kind < 0.92 ? ['--resume'] : ['--all', '--force']
    return { args, concurrency: random.from(2, 6), atMs: at === 0 ? 0 : random.from(0, 600) }
  })
  const onlyProcesses = random.chance(0.4)
  const troubles = Array.from({ length: random.from(1, 5) }, () =>
    planTrouble(random, random.from(0, 900), processes.length, onlyProcesses),
  )
  const isAbsent = random.chance(0.6)
  if (isAbsent) troubles.push(planAbsence(random, random.from(0, 700)))
  // and processes that come when others have died
  for (let more = random.from(0, 1); more > 0; more--) {
    processes.push({
      args: [random.one(['--all', '--resume'])],
      concurrency: random.from(2, 6),
      atMs: random.from(900, 2_500),
    })
  }
  const isDown = random.chance(0.12)
  return {
    users: random.from(40, usersMax),
    temper: isDown ? 'down' : random.one(['well', 'rough', 'rough', 'failing', 'throttling']),
    confirmsEarly: random.chance(0.3),
    outage: isDown || (isAbsent && random.chance(0.6)) ? '1s' : random.chance(0.08) ? '11s' : '0s',
    sharesUrl: random.chance(0.4),
    processes,
    imports: planImports(random),
    troubles: troubles.sort((a, b) => a.atMs - b.atMs),
  }
}
