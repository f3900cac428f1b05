/** The entry of the program: runs the command line. No other file sets the exit code. */

import { messageOf } from './base/errors.ts'
import { endEarly, openLog } from './cli/command.ts'
import { closeLostTerminals } from './cli/hangups.ts'
import { findLoss, stopWriting } from './cli/output.ts'
import { runProgram } from './cli/program.ts'
import { listenByDefault, mustFinish } from './cli/signals.ts'

process.stdout.on('error', async (error: NodeJS.ErrnoException) => {
  stopWriting()
  // a reader that has gone (`| head`, a closed terminal) has seen enough; a full disk loses results that somebody wants
  const hasGone = error.code === 'EPIPE' || (error.code === 'EIO' && process.stdout.isTTY)
  const loss = findLoss()
  const exitCode = hasGone && loss === undefined ? 0 : 1
  process.exitCode ||= exitCode
  if (exitCode > 0) {
    const told = `Standard output cannot be written any more: ${messageOf(error)}`
    const log = await openLog()
    log.error(loss === undefined ? told : `${told}. ${loss}`)
  }
  // a push or an import finishes all the same
  if (!mustFinish()) await endEarly(exitCode)
})
process.stderr.on('error', () => {})

// warnings of Node.js and of libraries go to the log like other diagnostics
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  openLog().then((log) => log.warn(messageOf(warning)))
})

closeLostTerminals()
// contract 3: `serve` and `receiver` end with 0, also where they do not listen yet
const isServer = ['serve', 'receiver'].includes(process.argv[2] ?? '')
listenByDefault((exitCode) => endEarly(isServer ? 0 : exitCode))
const exitCode = await runProgram(process.argv.slice(2))
process.exitCode = exitCode || process.exitCode
