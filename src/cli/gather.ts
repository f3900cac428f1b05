/** Writes a burst of lines in one go: a write for each would cost more than making the line. */

export interface Gathered {
  add(text: string): void
  /** Writes what has gathered; otherwise that happens once the program has nothing else to do at this moment, or ends. */
  flush(): void
}

export function gather(write: (text: string) => void): Gathered {
  let texts: string[] = []
  const flush = () => {
    if (texts.length === 0) return
    process.off('exit', flush)
    const text = texts.join('')
    texts = []
    write(text)
  }
  return {
    add(text) {
      if (texts.push(text) > 1) return
      setImmediate(flush)
      process.once('exit', flush)
    },
    flush,
  }
}
