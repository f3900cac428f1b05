/** Reading ahead: a source makes its next value while the caller uses the last one. */

/** The values of `source` in order; the next one is asked for before the last one is handed out. */
export async function* oneAhead<T>(source: AsyncGenerator<T>): AsyncGenerator<T> {
  const ask = () => {
    const next = source.next()
    // a caller that stops early must not meet the error of a value that it never asked for
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
