/** How a run ended, and whether it looks for work once more: pure, by what the run knows when its loop has ended. */
import type { RunOutcome } from '../../deliveries/runs.ts'
import type { ReceiverHold } from '../hold.ts'
import type { WhyOver } from '../receiver/health.ts'
import type { UsersLeft } from '../whom/agenda.ts'
import type { Scope } from './scope.ts'

/** How the loop of a round ended. A failure is thrown. */
export type LoopEnd =
  /** Nothing is left to be made. */
  | { is: 'done' }
  /** On a stop. */
  | { is: 'stopped' }
  /** The next attempt is due later than this run waits. */
  | { is: 'leaving' }
  /** The receiver keeps it from going on. */
  | { is: 'gave up'; why: WhyOver }

export interface RunFacts {
  scope: Pick<Scope, 'command' | 'left' | 'looksAgain'>
  loop: LoopEnd
  isStopped: boolean
  /** Whether the guard holds the whole run, and told so before. */
  guard: 'lets' | 'holds' | 'holdsAgain'
  /** Users who are held back one by one; those of them that a push before this one told. */
  heldUsers: number
  heldAgain: number
  left: UsersLeft
  /** Subscription pushes that stay owed, since others have their users in hand. */
  leftOwed: number
  /** Deliveries by how they stand. */
  delivered: number
  failed: number
  unknown: number
  pending: number
}

export interface RunEnd {
  outcome: Exclude<RunOutcome, 'running'>
  /** Why the receiver's answers hold the run. */
  heldBy: ReceiverHold | undefined
  /** The run was not stopped or held as a whole, did not give up, and left nobody. */
  cameToEnd: boolean
  /** It has finished the work of the runs that it resumed. */
  closes: boolean
  /** All deliveries were delivered, and no user was left or held back; or a push before this one told what was. */
  ok: boolean
  /** A push before this one told what keeps it from its end, and nothing came of it. */
  toldBefore: boolean
}

/** A run looks for work so often: whoever comes later is left to the next. */
const roundsMax = 6

/** Whether it came as far as it goes. */
const isThrough = ({ loop, isStopped }: RunFacts) => loop.is !== 'gave up' && !isStopped

/** Whether anybody is left besides those whom the guard holds back. */
const isAnyLeft = ({ scope, left, heldUsers }: RunFacts) => scope.left !== 'nobody' && left.free > heldUsers

/** Whether the run looks for work once more after its `round`, counted from 1. */
export function nextRound(facts: RunFacts, round: number): 'no' | 'again' | 'afterLeases' {
  const { scope, guard } = facts
  switch (scope.looksAgain) {
    case 'never':
      return 'no'
    case 'afterLeases':
      return round === 1 && isThrough(facts) ? 'afterLeases' : 'no'
    case 'untilNobodyIsLeft':
      return round < roundsMax && isThrough(facts) && guard === 'lets' && isAnyLeft(facts) ? 'again' : 'no'
  }
}

export function judgeRun(facts: RunFacts): RunEnd {
  const { scope, loop, isStopped, guard, heldUsers, left, leftOwed, delivered, failed, unknown, pending } = facts
  const heldBy = loop.is === 'gave up' && loop.why.by !== 'outage' ? loop.why : undefined
  const cameToEnd = isThrough(facts) && guard === 'lets' && !isAnyLeft(facts)
  // these were asked for nothing else; after other forms `--resume` sends it
  const owed = pending + (scope.left === 'asked' ? leftOwed : 0)
  const isComplete = cameToEnd && owed + failed + unknown + heldUsers === 0
  const isTold = !isStopped && wasTold(facts)
  return {
    outcome: isStopped ? 'stopped' : isComplete ? 'complete' : 'failures',
    heldBy,
    cameToEnd,
    // users whom another process has in hand may yet be abandoned: then the interrupted runs must still be found
    closes: cameToEnd && scope.left === 'everybody' && left.elsewhere === 0,
    ok: isComplete || (isTold && failed + unknown === 0),
    toldBefore: isTold && failed + unknown + delivered === 0,
  }
}

/** Whether an earlier run has already told what keeps this one, which resumes it, from its end. */
function wasTold({ scope, loop, guard, heldUsers, heldAgain, pending }: RunFacts): boolean {
  if (scope.command !== 'resume' || heldUsers > heldAgain) return false
  if (loop.is === 'gave up') return 'known' in loop.why && loop.why.known
  if (pending > 0) return false
  return guard === 'lets' ? heldAgain > 0 : guard === 'holdsAgain'
}
