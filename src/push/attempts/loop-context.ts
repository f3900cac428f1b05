/** The context that the loops of a run and their parts share. */
import type { Worker } from '../../db/leases.ts'
import type { Run } from '../../deliveries/runs.ts'
import type { PushSettings, RunContext } from '../push-request.ts'
import type { Receiver } from '../receiver/receiver.ts'
import type { RunRecords } from '../run/run-records.ts'
import type { Scope } from '../run/scope.ts'
import type { PlannedPushes, UserPush } from '../whom/planned-pushes.ts'
import type { UserCount } from '../whom/user-count.ts'

export interface LoopContext extends Pick<RunContext, 'ledger' | 'wire' | 'clock' | 'reporter' | 'vault' | 'stop'> {
  settings: Pick<PushSettings, 'concurrency' | 'retryDelayMs'>
  scope: Pick<Scope, 'takeover' | 'owedOnly'>
  worker: Worker
  run: Run
  records: RunRecords
  /** Counts each user whose push is begun or resumed. */
  users: UserCount
  /** Reads the leads of its plans, and plans pushes anew after an erasure. */
  planned: PlannedPushes
  /** What the run knows of the receiver. */
  receiver: Receiver
  /** How many requests may be under way at once: fewer than asked for, once this machine has lacked what more of them need. */
  slots: { atOnce: number }
  /** Plans pushes of users drawn at random from all who are owed, up to `count` a pass; none: nobody is left, or the run draws none. */
  draw(count: number, reservedBelow: number): Promise<UserPush[]>
}
