/** Asks the person at the terminal a question. */
import { spellOut } from '../base/printable.ts'
import type { CommandIo } from './command-io.ts'

/** Where the question is seen: where diagnostics go, unless that is a file. */
const findScreen = (io: CommandIo) => [io.stderr, io.stdout].find(({ isTTY }) => isTTY)

/** Whether a person is there to be asked. */
export const canAsk = (io: CommandIo): boolean => io.openStdin().isTTY === true && findScreen(io) !== undefined

/**
 * Asks `question`, after `what` it is about. Only yes is yes; the end of the input is no. The question is the only text among JSON lines
 * that is not JSON (contract 2).
 */
export async function agrees(io: CommandIo, what: string, question: string): Promise<boolean> {
  const { createInterface } = await import('node:readline')
  // not as a terminal, so that the system turns Ctrl-C into a signal
  const lines = createInterface({ input: io.openStdin(), terminal: false })
  const screen = findScreen(io)
  if (io.log.format === 'json' && screen === io.stderr) io.log.warn(what)
  else screen?.write(`${what.split('\n').map(spellOut).join('\n')}\n`)
  screen?.write(`${question} [y/N] `)
  try {
    for await (const line of lines) return /^y(es)?$/i.test(line.trim())
    return false
  } finally {
    lines.close()
  }
}
