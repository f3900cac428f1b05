/** What the loop around a push works with. */
import type { ClientCertificate } from '../../base/client-certificate.ts'
import type { Proxies } from '../../base/config.ts'
import type { Vault } from '../../secrets/vault.ts'
import type { CompressMode } from '../receiver/compression.ts'
import type { Receiver } from '../receiver/receiver.ts'
import type { PlannedPushes } from '../whom/planned-pushes.ts'
import type { Wire } from '../wire.ts'
import type { RecordedAttemptsContext } from './recorded-attempts.ts'

export interface LoopSettings extends ClientCertificate {
  receiverUrl: string
  dataSource: string
  timeoutMs: number
  keepAnswers?: 'on' | 'off'
  retryDelayMs: number
  concurrency: number
  ratePerSecond: number | undefined
  outageMs: number
  compress: CompressMode
  proxies?: Proxies
}

export interface LoopContext extends RecordedAttemptsContext {
  settings: LoopSettings
  wire: Wire
  /** Opens the receiver keys. */
  vault: Vault
  /** Reads the leads of its plans, and plans pushes anew after an erasure. */
  planned: PlannedPushes
  /** A second attempt that is due later than this is left to another run. */
  patienceMs: number
  /** Of the run: its loops have it in common. */
  receiver: Receiver
  stop: AbortSignal
}
