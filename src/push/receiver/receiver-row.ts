/**
 * The row of a receiver as one process uses it: it reads and writes in turn, so that trouble and recovery cannot overtake each other.
 */
import type { AttemptKind } from '../../deliveries/due.ts'
import type { Known, ReceiverStore } from '../ledger.ts'
import type { Write } from './health.ts'
import type { KnownPace } from './pace.ts'

export class ReceiverRow {
  private readonly store: ReceiverStore
  private last: Promise<unknown> = Promise.resolve()
  private writes = 0

  constructor(store: ReceiverStore) {
    this.store = store
  }

  /**
   * The content of the row; undefined if this process writes meanwhile, so that the answer may be stale. Throws if the database is away.
   */
  async read(): Promise<Known | undefined> {
    const { writes } = this
    const known = await this.inTurn(() => this.store.read())
    return writes === this.writes ? known : undefined
  }

  begin(isOnlyOne: boolean): Promise<Known> {
    return this.write(() => this.store.begin(isOnlyOne))
  }

  take(tries: number, kind: AttemptKind): Promise<boolean> {
    return this.write(() => this.store.take(tries, kind))
  }

  tell(what: Write): Promise<void> {
    return this.write(() => this.store.tell(what))
  }

  tellPace(known: KnownPace, isFree: boolean): Promise<void> {
    return this.write(() => this.store.tellPace(known, isFree))
  }

  tellGzip(takes: boolean): Promise<void> {
    return this.write(() => this.store.tellGzip(takes))
  }

  private write<T>(work: () => Promise<T>): Promise<T> {
    this.writes++
    return this.inTurn(work)
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.last.then(work)
    this.last = turn.catch(() => {})
    return turn
  }
}
