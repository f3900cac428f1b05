/** The order for a push, its context, and its result. */
import type { ClientCertificate } from '../base/client-certificate.ts'
import type { Clock } from '../base/clock.ts'
import type { Proxies } from '../base/config.ts'
import type { Database } from '../db/open.ts'
import type { AttemptTarget } from '../deliveries/attempt.ts'
import type { Http } from '../http/client.ts'
import type { SummaryLine } from '../index.ts'
import type { Live } from '../matching/listed.ts'
import type { Vault } from '../secrets/vault.ts'
import type { WeekHold } from './hold.ts'
import type { Ledger } from './ledger.ts'
import type { ReceiverSettings } from './receiver/receiver.ts'
import type { PushReporter } from './reporter.ts'
import type { RunEnd, WhyGaveUp } from './run/run-end.ts'
import type { PushRequest } from './run/scope.ts'
import type { Wire } from './wire.ts'

export interface PushSettings extends AttemptTarget, ReceiverSettings, ClientCertificate {
  concurrency: number
  proxies?: Proxies
  leaseMs: number
  timeZone: string
  maxLeadAgeMs: number
  guard: 'on' | 'off'
  sameHouse: Live['sameHouse']
}

interface Asked {
  /** Without it only keys that are stored in plain form can be sent. */
  vault?: Vault | undefined
  settings: PushSettings
  request: PushRequest
  /** Also serves users who would be held back. */
  accept?: boolean | undefined
  reporter: PushReporter
  /** Aborted: finish the attempts under way, begin nothing, give back the rest. */
  stop: AbortSignal
}

/** A push on the database, by the machine's clock. */
export interface PushContext extends Asked {
  db: Database
  http: Http
}

/** A push with all interfaces to the outside. */
export interface RunContext extends Asked {
  ledger: Ledger
  wire: Wire
  clock: Clock
}

export interface PushEnd extends Pick<RunEnd, 'ok' | 'cameToEnd' | 'toldBefore'> {
  summary: SummaryLine
  /** Some users are held back, or all. */
  held: boolean
  /** Why it gave up, if it did. */
  gaveUp: WhyGaveUp | undefined
  /** What the guard held the whole run for. */
  guard: WeekHold['by'] | undefined
  /** Users whom the guard held back one by one. */
  heldUsers: number
  /** Its doubtful deliveries. If the guard held it, a command puts in the users with those of earlier pushes. */
  doubtful: number
  stopped: boolean
}
