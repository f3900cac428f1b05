/** Asks the person at the terminal a question. */
import { spellOut } from '../base/printable.ts'
import type { Log } from './log.ts'

/** Where the question is seen: where diagnostics go, unless that is a file. */
const findScreen = () => [process.stderr, process.stdout].find(({ isTTY }) => isTTY)

/** Whether a person is there to be asked. */
export const canAsk = (): boolean => process.stdin.isTTY && findScreen() !== undefined

/**
 * Asks `question`, after `what` it is about. Anything but yes is no; so is the end of the input. Among JSON lines only the question
 * itself is none (contract 2).
 */
export async function agrees(log: Log, what: string, question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline')
  // not as a terminal: the system is to turn Ctrl-C into a signal
  const lines = createInterface({ input: process.stdin, terminal: false })
  const screen = findScreen()
  if (log.format === 'json' && screen === process.stderr) log.warn(what)
  else screen?.write(`${what.split('\n').map(spellOut).join('\n')}\n`)
  screen?.write(`${question} [y/N] `)
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim())
    return false
  } finally {
    lines.close()
  }
}
