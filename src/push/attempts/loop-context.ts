/** The context that the loop around a push and its parts share. */
import type { Clock } from '../../base/clock.ts'
import type { Worker } from '../../db/leases.ts'
import type { Takeover } from '../../deliveries/ledger.ts'
import type { Run } from '../../deliveries/runs.ts'
import type { Vault } from '../../secrets/vault.ts'
import type { Ledger } from '../ledger.ts'
import type { Receiver } from '../receiver/receiver.ts'
import type { PushReporter } from '../reporter.ts'
import type { RunRecords } from '../run/run-records.ts'
import type { PlannedPushes } from '../whom/planned-pushes.ts'
import type { UserCount } from '../whom/user-count.ts'
import type { Wire } from '../wire.ts'

export interface LoopContext {
  ledger: Ledger
  wire: Wire
  clock: Clock
  reporter: PushReporter
  settings: { concurrency: number; retryDelayMs: number }
  worker: Worker
  run: Run
  records: Pick<RunRecords, 'run' | 'note'>
  /** Which abandoned deliveries the run may take over. */
  takeover: Takeover
  /** Counts each user whose push is begun or resumed. */
  users: UserCount
  /** Opens the receiver keys. */
  vault: Vault
  /** Reads the leads of its plans, and plans pushes anew after an erasure. */
  planned: PlannedPushes
  /** A second attempt that is due later than this is left to another run. */
  patienceMs: number
  /** Belongs to the run: all its loops share it. */
  receiver: Receiver
  stop: AbortSignal
}
