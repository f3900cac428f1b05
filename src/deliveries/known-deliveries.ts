/**
 * What a process knows of the deliveries that it had in hand last, beside the ledger. A standby that takes over may lack the last rows
 * (contract 4.7): `restoreDeliveries` writes again what is gone, and no attempt that was made is made again.
 */
import { LRUCache } from 'lru-cache'
import type { DeliveryState, RecordedAttempt } from './ledger.ts'
import { encodeRecipes } from './recipe.ts'
import type { RecordedOutcome, WrittenDelivery } from './record.ts'

/** The outcome of an attempt. */
type KnownOutcome = RecordedOutcome & {
  /** A statement has recorded it; otherwise one is about to. */
  isRecorded: boolean
}

/** A delivery as this process knows it. */
export interface KnownDelivery extends Omit<WrittenDelivery, 'isStarted'> {
  /** How many attempts were recorded: those of earlier processes too. */
  attempts: 0 | 1 | 2
  outcomes: KnownOutcome[]
  /** When this process had it in hand first, by `performance.now()`. */
  sinceMs: number
}

/**
 * What a standby lacks is counted in bytes of WAL (Patroni promotes none that lacks more than 1 MiB, as long as nobody raises
 * `maximum_lag_on_failover`), and a delivery writes more than 1 kB of it. So many deliveries are ten times as much; they and their bytes
 * keep the memory bounded, however many users there are.
 */
const deliveriesMax = 10_000
const bytesMax = 16 * 1024 * 1024
/** What a delivery costs beside its texts: the objects, the key, the e-mail, the links. */
const entryBytes = 600

/** The deliveries that something happened to last. */
export class KnownDeliveries {
  private readonly deliveries = new LRUCache<string, KnownDelivery>({
    max: deliveriesMax,
    maxSize: bytesMax,
    sizeCalculation: ({ queryList, recipe, outcomes }) =>
      outcomes.reduce(
        (sum, { answer = '', error }) => sum + answer.length + (error ?? '').length,
        entryBytes + queryList.length + recipe.length,
      ),
  })

  get size(): number {
    return this.deliveries.size
  }

  /** The deliveries in pages, for statements. */
  *pages(size: number): Generator<KnownDelivery[]> {
    const all = [...this.deliveries.values()]
    for (let at = 0; at < all.length; at += size) yield all.slice(at, at + size)
  }

  /** Notes deliveries that were written, with or without their first attempt. */
  noteWritten(written: readonly WrittenDelivery[]): void {
    for (const { isStarted, ...delivery } of written)
      this.put({ ...delivery, ...newlyKnown(), attempts: isStarted ? 1 : 0 })
  }

  /** The e-mail of a delivery's user, also after the user was removed; undefined: the delivery is not known. */
  emailOf(key: string): string | undefined {
    return this.deliveries.peek(key)?.email
  }

  /** Whether this attempt, which the ledger has as due or under way, was made before. */
  wasMade({ idempotencyKey, attempt }: RecordedAttempt): boolean {
    return (this.deliveries.peek(idempotencyKey)?.attempts ?? 0) >= attempt
  }

  /** Notes an attempt that was recorded. */
  noteAttempt({ contents, attempt, receiverKey: _, ...delivery }: RecordedAttempt): void {
    const known = this.deliveries.peek(delivery.idempotencyKey)
    const { bytes: recipe } = encodeRecipes([contents])
    const scope = delivery.kind === 'weekly' ? `weekly:${delivery.period}` : null
    this.put(
      known
        ? { ...known, gzip: delivery.gzip, attempts: attempt }
        : { ...delivery, ...newlyKnown(), attempts: attempt, recipe, scope, leadsOfPush: null, queriesMark: null },
    )
  }

  /** Notes what came of an attempt. */
  noteOutcome(outcome: RecordedOutcome): void {
    const known = this.deliveries.peek(outcome.idempotencyKey)
    if (known) this.put({ ...known, outcomes: [...known.outcomes, { ...outcome, isRecorded: false }] })
  }

  /** Notes which outcomes were recorded. Returns those whose attempts the ledger lacks, in `told` or at all. */
  noteRecorded<T extends RecordedOutcome>(outcomes: readonly T[], told: readonly DeliveryState[]): T[] {
    const attemptsOf = new Map(told.map(({ idempotencyKey, attempts }) => [idempotencyKey, attempts]))
    return outcomes.filter(({ idempotencyKey, attempt }) => {
      const known = this.deliveries.peek(idempotencyKey)?.outcomes.find((of) => of.attempt === attempt)
      const isLacking = known !== undefined && (attemptsOf.get(idempotencyKey) ?? 0) < attempt
      if (known) known.isRecorded = !isLacking
      return isLacking
    })
  }

  /** Notes attempts that were recorded, not made, and taken back. */
  noteTakenBack(keys: readonly string[]): void {
    for (const key of keys) {
      const known = this.deliveries.peek(key)
      if (known && known.attempts > 0) known.attempts--
    }
  }

  /** Forgets a delivery that is no longer what this process knows of it. */
  forget(key: string): void {
    this.deliveries.delete(key)
  }

  private put(delivery: KnownDelivery): void {
    this.deliveries.set(delivery.idempotencyKey, delivery)
  }
}

const newlyKnown = () => ({ outcomes: [], sinceMs: performance.now() })
