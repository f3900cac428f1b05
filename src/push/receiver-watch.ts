/**
 * The watch over the receiver (contract 4.12): brings together what this push meets, what other processes found out, and whether
 * the receiver can be reached at all while it is down.
 */
import type { Proxies } from '../base/config.ts'
import { outageCheckMs, outageLookMs } from '../base/limits.ts'
import { rideOut } from '../db/away.ts'
import type { Database } from '../db/open.ts'
import type { AttemptOutcome } from '../deliveries/attempt.ts'
import type { AttemptKind } from '../deliveries/due.ts'
import type { Http } from '../http/client.ts'
import { findProxy, reach } from '../http/reach.ts'
import { KnownOutages } from './known-outages.ts'
import { Outage, pauseAfter } from './outage.ts'

export interface ReceiverWatchContext {
  db: Database
  http: Http
  settings: { receiverUrl: string; timeoutMs: number; proxies?: Proxies }
  /** How long a receiver that is down is waited for; 0: nobody looks whether it is. */
  patienceMs: number
  /** It went down, or is well again; `why` in words. */
  onChange(change: 'down' | 'up', why: string): void
}

const now = () => performance.now()

export class ReceiverWatch {
  /** It was known to be down when this push began, and has been since. */
  beganDown = false

  private readonly context: ReceiverWatchContext
  private readonly outage: Outage
  private readonly known: KnownOutages
  private timer: NodeJS.Timeout | undefined
  /** Rises with what is written: what was read before it is old. */
  private written = 0
  private isWriting = false
  private isLooking = false

  constructor(context: ReceiverWatchContext) {
    this.context = context
    this.outage = new Outage(context.patienceMs)
    this.known = new KnownOutages(context.db, context.settings.receiverUrl)
  }

  get isDown(): boolean {
    return this.outage.isDown
  }

  /** It is not known yet whether it is down: second attempts wait. */
  get isInQuestion(): boolean {
    return this.outage.isInQuestion
  }

  get isOver(): boolean {
    return this.outage.isOver(now())
  }

  async begin(): Promise<void> {
    if (this.context.patienceMs === 0) return
    const change = this.outage.learn(await rideOut(() => this.known.find()), now(), true)
    this.beganDown = change === 'down'
    if (change) this.context.onChange(change, 'The receiver is down, as a push before this one found: trying it.')
    this.timer = setInterval(() => void this.look().catch(() => {}), outageLookMs)
    this.timer.unref()
  }

  end(): void {
    clearInterval(this.timer)
    // what is being looked for comes too late
    this.written++
  }

  /** What others found out meanwhile. A database that is away says so elsewhere. */
  private async look(): Promise<void> {
    if (this.isLooking || this.isWriting) return
    const { written } = this
    this.isLooking = true
    try {
      const found = await this.known.find()
      if (written !== this.written) return
      const change = this.outage.learn(found, now())
      if (change) this.context.onChange(change, 'The receiver is down, as another push found: waiting for it.')
    } finally {
      this.isLooking = false
    }
  }

  private async write(work: () => Promise<void>): Promise<void> {
    this.written++
    this.isWriting = true
    try {
      await work()
    } finally {
      this.written++
      this.isWriting = false
    }
  }

  /** Takes what came of an attempt. What is to be written for others is, when the promise settles. */
  note(attempt: 1 | 2, { httpStatus, error }: AttemptOutcome): Promise<void> | undefined {
    const change = this.outage.note(attempt, httpStatus, now())
    if (change === 'down') return this.goDown(error ?? '')
    if (change === undefined) return undefined
    this.beganDown = false
    this.context.onChange('up', 'The receiver answers again: going on.')
    return this.write(() => this.known.recordUp())
  }

  /** No first attempt is left. */
  async noteAllMade(): Promise<void> {
    if (this.outage.noteAllMade(now()) === 'down') await this.goDown(undefined)
  }

  private goDown(last: string | undefined): Promise<void> {
    const { failuresInARow } = this.outage
    const why = last === undefined ? '' : `; the last: ${last}`
    this.context.onChange(
      'down',
      `The receiver is down: ${failuresInARow} first attempts in a row failed${why}. Trying again after ${pauseAfter(0) / 1_000} s, then after twice as long each time.`,
    )
    return this.write(() => this.known.recordDown())
  }

  /** While it is down: how long nothing is to be tried. */
  untilTry(kind: AttemptKind = 'first'): number {
    return this.outage.untilTry(now(), kind)
  }

  /** While it is down and a try is due: whether to make one attempt now, as the only process that does. */
  async takeTry(kind: AttemptKind, stop: AbortSignal): Promise<boolean> {
    const sign = await this.findSign(kind)
    if (stop.aborted || !this.isDown || this.untilTry(kind) > 0) return false
    if (!sign) {
      this.noteNoSign()
      return false
    }
    const { tries } = this.outage
    const isMine = await this.known.take(tries, kind)
    const found = isMine ? undefined : await rideOut(() => this.known.find())
    if (found) this.outage.learn(found, now())
    else this.outage.noteTry(now())
    return found === undefined
  }

  /** Nothing can be tried now. */
  noteNoSign(): void {
    this.outage.noteNoSign(now())
  }

  /**
   * Whether it may be back: a connection can be made, and, where the attempt would be somebody's last, it answers a request. What
   * lies behind a tunnel only a request tells.
   */
  private async findSign(kind: AttemptKind): Promise<boolean> {
    const { http, settings } = this.context
    const { receiverUrl, proxies = {} } = settings
    const timeoutMs = Math.min(settings.timeoutMs, outageCheckMs)
    const proxy = findProxy(receiverUrl, proxies)
    const isTunnelled = proxy !== undefined && receiverUrl.startsWith('https:')
    if (!isTunnelled && (await reach(proxy ?? receiverUrl, timeoutMs)).kind !== 'reached') return false
    if (!isTunnelled && kind === 'first') return true
    const answer = await http.head(receiverUrl, timeoutMs)
    if (kind === 'first') return answer.kind === 'answer' || answer.stage !== 'connect'
    return answer.kind === 'answer' && answer.status < 500
  }
}
