/** Decides how a run ended, and whether it looks for work once more. Pure, from the run's knowledge when its loop has ended. */
import type { RunOutcome } from '../../deliveries/runs.ts'
import type { ReceiverHold } from '../hold.ts'
import type { WhyOver } from '../receiver/health.ts'
import type { Tally } from '../reporter.ts'
import type { UsersLeft } from '../whom/agenda.ts'
import type { LeftOut } from '../whom/left-out.ts'
import type { Scope } from './scope.ts'

/** `shortage`: this machine lacks what a single request needs. */
export type WhyGaveUp = WhyOver | { by: 'shortage' }

/** How the loop of a round ended. A failure is thrown. */
export type LoopEnd =
  /** No attempts are left. */
  | { is: 'done' }
  /** It was stopped. */
  | { is: 'stopped' }
  /** The next attempt is due later than this run waits. */
  | { is: 'leaving' }
  /** The receiver is in trouble, or this machine lacks what one request needs. */
  | { is: 'gave up'; why: WhyGaveUp }

export interface RunFacts extends Pick<Tally, 'delivered' | 'failed' | 'unknown' | 'pending'> {
  scope: Pick<Scope, 'command' | 'isForAll' | 'looksAgain'>
  loop: LoopEnd
  isStopped: boolean
  /** Whether the guard holds the whole run, and has reported that before. */
  guard: 'lets' | 'holds' | 'holdsAgain'
  leftOut: LeftOut
  left: UsersLeft
}

export interface RunEnd {
  outcome: Exclude<RunOutcome, 'running'>
  /** Why the receiver's answers hold the run. */
  heldBy: ReceiverHold | undefined
  /** The run was not stopped or held as a whole, did not give up, and left nobody: `status --check` looks for such a run. */
  cameToEnd: boolean
  /** It has finished the work of the runs that it resumed. */
  closes: boolean
  /** All deliveries were delivered, and no user was left or left out, unless an earlier push has reported that. */
  ok: boolean
  /** `--resume` did nothing, and an earlier push has reported why: users are held back, or the receiver is down. */
  toldBefore: boolean
}

/** A run looks for work so often; later users are left to the next run. */
const roundsMax = 6

/** Whether it finished. */
const isThrough = ({ loop, isStopped }: RunFacts) => loop.is !== 'gave up' && !isStopped

/** Whether any user is left besides those whom it leaves out. */
const isAnyLeft = ({ scope, left, leftOut }: RunFacts) => scope.isForAll && left.free > leftOut.size

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
  const { scope, loop, isStopped, guard, leftOut, left, delivered, failed, unknown, pending } = facts
  const why = loop.is === 'gave up' ? loop.why : undefined
  const heldBy = why?.by === 'refusal' || why?.by === 'answers' ? why : undefined
  const cameToEnd = isThrough(facts) && guard === 'lets' && !isAnyLeft(facts)
  const isComplete = cameToEnd && pending + failed + unknown + leftOut.size === 0
  const isTold = !isStopped && wasTold(facts)
  return {
    outcome: isStopped ? 'stopped' : isComplete ? 'complete' : 'failures',
    heldBy,
    cameToEnd,
    // another process may still abandon its users: then the interrupted runs must still be found
    closes: cameToEnd && scope.isForAll && left.elsewhere === 0,
    ok: isComplete || (isTold && failed + unknown === 0),
    toldBefore: isTold && failed + unknown + delivered === 0,
  }
}

/** Whether the earlier run that this one resumes has already reported why it cannot finish. */
function wasTold({ scope, loop, guard, leftOut, pending }: RunFacts): boolean {
  if (scope.command !== 'resume' || leftOut.count('changesExitCode') > 0) return false
  if (loop.is === 'gave up') return 'known' in loop.why && loop.why.known
  if (pending > 0) return false
  return guard === 'lets' ? leftOut.size > 0 : guard === 'holdsAgain'
}
