/** Knows when the next attempts of this process are due, by its own clock, and has those recorded that are. */
import type { AttemptKind, DueFrom, DueLook } from '../../deliveries/due.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import type { Receiver } from '../receiver/receiver.ts'
import type { LoopContext } from './loop-context.ts'

type Context = Pick<LoopContext, 'ledger' | 'clock' | 'worker' | 'scope' | 'records'> & {
  receiver: Pick<Receiver, 'usesGzip'>
}

const kindsOf = (only: AttemptKind | undefined) => (only === undefined ? (['first', 'second'] as const) : [only])

/** After a look that found nothing the next one comes so much later: a row is locked, or the lease was lost a moment ago. */
const lockedMs = 100

export class DueAttempts {
  private readonly context: Context
  /** When the next attempt of each kind may be due, by the clock of the process; infinite: none is known. */
  private readonly at: Record<AttemptKind, number>
  /** Where the next look for due attempts begins; undefined: a look at all of them. */
  private from: DueFrom | undefined

  constructor(context: Context) {
    this.context = context
    const at = context.scope.takeover === 'own' ? Number.POSITIVE_INFINITY : 0
    this.at = { first: at, second: at }
  }

  /** In how many milliseconds the next attempt may be due; infinite: none is known. `only`: of that kind. */
  untilNext(only?: AttemptKind): number {
    return Math.min(...kindsOf(only).map((kind) => this.at[kind])) - this.context.clock.now()
  }

  /** An attempt of that kind is due in so many milliseconds. */
  note(kind: AttemptKind, inMs = 0): void {
    this.at[kind] = Math.min(this.at[kind], this.context.clock.now() + inMs)
  }

  /** The next look finds everything. */
  lookAnew(): void {
    this.from = undefined
    for (const kind of kindsOf(undefined)) this.at[kind] = 0
  }

  private look(only: AttemptKind | undefined, drawn = false): DueLook {
    const { worker, scope } = this.context
    return { workerIds: worker.ids, takeover: scope.takeover, only, drawn }
  }

  /** Records up to `room` attempts that are due, none of those in hand, whose keys `inHand` returns. */
  async take(
    room: number,
    only: AttemptKind | undefined,
    inHand: () => string[],
    drawn = false,
  ): Promise<RecordedAttempt[]> {
    const { ledger, records, receiver } = this.context
    return await ledger.rideOut(async (isRepeat) => {
      const known = inHand()
      const unheard = isRepeat ? await this.findUnheard(known) : []
      if (unheard.length > 0) return unheard
      for (;;) {
        const { run } = records
        const from = drawn ? undefined : this.from
        const look = { ...this.look(only, drawn), from, limit: room, known, gzip: receiver.usesGzip, ...run }
        const { attempts, next, statement } = await ledger.attempts.recordDue(look)
        if (attempts.length > 0) records.note(statement, run)
        if (!drawn) this.from = next
        // nothing is due behind the last look: all rows are looked at once, since those that were locked then may be free now
        if (attempts.length > 0 || from === undefined) return attempts
      }
    })
  }

  /** Attempts that were recorded by a statement whose answer was lost, once the server that now answers has all records. */
  async findUnheard(inHand: readonly string[]): Promise<RecordedAttempt[]> {
    const { ledger, worker } = this.context
    await worker.renew()
    return await ledger.attempts.findUnheard(worker, inHand)
  }

  /** Learns from the ledger when the next attempt is due, behind those that were `taken` by the last look. */
  async noteNext(only: AttemptKind | undefined, taken = 1): Promise<void> {
    // not later: news that arrive during the query must not be lost
    for (const kind of kindsOf(only)) this.at[kind] = Number.POSITIVE_INFINITY
    const { ledger } = this.context
    const look = () => ledger.attempts.findNextDue({ ...this.look(only), from: this.from })
    const ms = await ledger.rideOut(look)
    if (ms === null) return
    for (const kind of kindsOf(only)) this.note(kind, Math.max(ms > 0 ? ms + 2 : 0, taken === 0 ? lockedMs : 0))
  }
}
