/** Does the work of one key in turn, such as the samples of an integration: the next begins when the one before is done. */
export class Turns<K> {
  private readonly last = new Map<K, Promise<unknown>>()

  take<T>(key: K, work: () => Promise<T>): Promise<T> {
    const before = this.last.get(key) ?? Promise.resolve()
    const mine = before.then(work)
    const over = mine.then(nothing, nothing)
    this.last.set(key, over)
    void over.then(() => {
      if (this.last.get(key) === over) this.last.delete(key)
    })
    return mine
  }
}

const nothing = () => {}
