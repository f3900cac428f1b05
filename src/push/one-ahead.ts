/** Reading ahead: what is used next is made while what came before is used. */

/** What `source` yields, in its order; it is asked for the next one as soon as the one before is out. */
export async function* oneAhead<T>(source: AsyncGenerator<T>): AsyncGenerator<T> {
  const ask = () => {
    const next = source.next()
    // whoever stops asking is not told of trouble with what they would have asked for
    next.catch(() => {})
    return next
  }
  try {
    for (let next = ask(); ; ) {
      const { done, value } = await next
      if (done) return
      next = ask()
      yield value
    }
  } finally {
    await source.return(undefined)
  }
}
