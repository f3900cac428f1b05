/**
 * Knows which attempts of this process are due, from the ledger, and when the next one is, by the clock of the process.
 */
import type { AttemptKind, DueFrom } from '../../deliveries/due.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import type { Receiver } from '../receiver/receiver.ts'
import type { LoopContext } from './loop-context.ts'

type Context = Pick<LoopContext, 'ledger' | 'clock' | 'worker' | 'takeover' | 'records'> & {
  receiver: Pick<Receiver, 'usesGzip'>
}

export class DueAttempts {
  /** When the next attempt of this process may be due, by its own clock; undefined: unknown. */
  at: number | undefined

  private readonly context: Context
  /** Where the next look for due attempts begins; undefined: a look at all of them. */
  private from: DueFrom | undefined
  private holdsSeconds = false
  /** Second attempts were left out when `at` was determined. */
  private hasPassedOver = false

  constructor(context: Context) {
    this.context = context
    this.at = context.takeover === 'own' ? undefined : 0
  }

  /** While second attempts are held, only first ones count as due. */
  holdSeconds(holds: boolean): void {
    this.holdsSeconds = holds
    if (holds || !this.hasPassedOver) return
    this.hasPassedOver = false
    this.at = 0
  }

  get only(): AttemptKind | undefined {
    return this.holdsSeconds ? 'first' : undefined
  }

  /** The next look finds everything. */
  lookAnew(): void {
    this.from = undefined
    this.at = 0
  }

  /** An attempt is due in so many milliseconds. */
  noteIn(ms: number): void {
    this.at = Math.min(this.at ?? Number.POSITIVE_INFINITY, this.context.clock.now() + ms)
  }

  /** Records up to `room` attempts that are due, none of those in hand, whose keys `inHand` returns. */
  async take(room: number, only: AttemptKind | undefined, inHand: () => string[]): Promise<RecordedAttempt[]> {
    const look = () => this.context.ledger.rideOut((isRepeat) => this.takeOnce(room, only, isRepeat, inHand()))
    const attempts = await look()
    if (attempts.length > 0 || this.from === undefined) return attempts
    // the look began where the last one ended: earlier rows that were locked then may be free now
    this.from = undefined
    return await look()
  }

  private async takeOnce(
    room: number,
    only: AttemptKind | undefined,
    isRepeat: boolean,
    inHand: string[],
  ): Promise<RecordedAttempt[]> {
    const { ledger, worker, takeover, records, receiver } = this.context
    const unheard = isRepeat ? await this.findUnheard(inHand) : []
    if (unheard.length > 0) return unheard
    const { run } = records
    const gzip = receiver.usesGzip
    const look = { workerIds: worker.ids, limit: room, takeover, known: inHand, only, from: this.from, gzip, ...run }
    const { attempts, next, statement } = await ledger.attempts.recordDue(look)
    if (attempts.length > 0) records.note(statement, run)
    if (next !== undefined) this.from = next
    return attempts
  }

  /** Attempts that were recorded by a statement whose answer was lost, once the server that now answers has all records. */
  async findUnheard(inHand: readonly string[]): Promise<RecordedAttempt[]> {
    const { ledger, worker } = this.context
    await worker.renew()
    return await ledger.attempts.findUnheard(worker, inHand)
  }

  /** In how many milliseconds the next attempt of that kind is due; null: unknown. */
  async findNext(only: AttemptKind | undefined): Promise<number | null> {
    const { ledger, worker, takeover } = this.context
    return await ledger.attempts.findNextDue({ workerIds: worker.ids, takeover, only })
  }

  /** Finds out when the next attempt is due, behind those that were taken. */
  async noteNext(only: AttemptKind | undefined): Promise<void> {
    const { ledger, worker, takeover } = this.context
    // not later: news that arrive during the query must not be lost
    this.at = undefined
    const ms = await ledger.attempts.findNextDue({ workerIds: worker.ids, takeover, only, from: this.from })
    this.hasPassedOver ||= only !== undefined
    if (ms !== null) this.noteIn(Math.max(ms, 0) + 2)
  }
}
