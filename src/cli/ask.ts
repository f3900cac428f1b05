/** Asks the person at the terminal a question. */

/** Anything but yes is no; so is the end of the input. */
export async function agrees(question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline')
  // not as a terminal: the system is to turn Ctrl-C into a signal
  const lines = createInterface({ input: process.stdin, terminal: false })
  process.stderr.write(`${question} [y/N] `)
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim())
    return false
  } finally {
    lines.close()
  }
}
