/** Writes a burst of lines in one go: a write for each would cost more than making the line. */

export interface Gathered {
  add(text: string): void
  /** Writes the gathered lines now, for example at the end of the program. Otherwise they are written once the program is idle. */
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
