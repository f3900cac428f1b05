/**
 * The row of a receiver as one process uses it: it reads and writes in turn, so that trouble and recovery cannot overtake each other.
 */
import type { Known, ReceiverStore } from '../ledger.ts'

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

  write<T>(work: (store: ReceiverStore) => Promise<T>): Promise<T> {
    this.writes++
    return this.inTurn(() => work(this.store))
  }

  private inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.last.then(work)
    this.last = turn.catch(() => {})
    return turn
  }
}
