/** Which rounds a script of chaos plays, and playing them: until the last, until its time is over, or until somebody ends it. */

/** Options of `parseArgs`. */
export const roundOptions = {
  rounds: { type: 'string' },
  minutes: { type: 'string' },
  seed: { type: 'string', default: String(Date.now() % 1_000_000) },
  round: { type: 'string' },
} as const

export interface Rounds {
  seed: string
  first: number
  last: number
  /** How long after the beginning no more round begins. */
  endsMs: number
}

const roundsByDefault = 20

type Given = { seed: string } & Partial<Record<'rounds' | 'minutes' | 'round', string>>

export function chooseRounds({ seed, ...given }: Given): Rounds {
  const minutes = Number(given.minutes ?? Number.POSITIVE_INFINITY)
  const rounds = Number(given.rounds ?? (given.minutes === undefined ? roundsByDefault : Number.POSITIVE_INFINITY))
  if (!(minutes > 0) || !(rounds > 0)) throw new Error('--rounds and --minutes are numbers above 0')
  const first = Number(given.round ?? 1)
  return { seed, first, last: given.round === undefined ? rounds : first, endsMs: minutes * 60_000 }
}

/** The first signal lets the round end that is being played; a second one ends the script. */
export async function playRounds(
  { first, last, endsMs }: Rounds,
  play: (round: number) => Promise<void>,
): Promise<void> {
  // what it takes to begin on a busy machine is no reason to play no round
  const beganMs = performance.now()
  let isStopped = false
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.on(name, () => {
      if (isStopped) process.exit(1)
      isStopped = true
    })
  for (let round = first; round <= last && performance.now() - beganMs < endsMs && !isStopped; round++)
    await play(round)
}
