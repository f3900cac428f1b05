/** Asks the person at the terminal a question. */
import { spellOut } from '../base/printable.ts'

/** Where the question is seen: where diagnostics go, unless that is a file. */
const findScreen = () => [process.stderr, process.stdout].find(({ isTTY }) => isTTY)

/** Whether a person is there to be asked. */
export const canAsk = (): boolean => process.stdin.isTTY && findScreen() !== undefined

/** `question`: with all that it is about. Anything but yes is no; so is the end of the input. */
export async function agrees(question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline')
  // not as a terminal: the system is to turn Ctrl-C into a signal
  const lines = createInterface({ input: process.stdin, terminal: false })
  findScreen()?.write(`${question.split('\n').map(spellOut).join('\n')} [y/N] `)
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim())
    return false
  } finally {
    lines.close()
  }
}
