/** Writes a burst of lines in one go: a write for each would cost more than making the line. */

export interface Gathered {
  add(text: string): void
  /** Writes what has gathered, as at the end of the program; otherwise that happens once it has nothing else to do at this moment. */
  flush(): void
}

export function gather(write: (text: string) => void): Gathered {
  let texts: string[] = []
  const flush = () => {
    if (texts.length === 0) return
    const text = texts.join('')
    texts = []
    write(text)
  }
  return {
    add(text) {
      if (texts.push(text) > 1) return
      setImmediate(flush)
    },
    flush,
  }
}
