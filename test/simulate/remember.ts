/** Results of pure functions that every run asks for. */

const mostRemembered = 10_000

/** As `find`, which is called once for all arguments with the same key. */
export function remember<Argument, Result>(
  keyOf: (argument: Argument) => string,
  find: (argument: Argument) => Result,
): (argument: Argument) => Result {
  const known = new Map<string, Result>()
  return (argument) => {
    const key = keyOf(argument)
    const found = known.get(key)
    if (found !== undefined) return found
    if (known.size >= mostRemembered) known.clear()
    const result = find(argument)
    known.set(key, result)
    return result
  }
}
