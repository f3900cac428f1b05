/** The entry of the program: runs the command line in this process. No other file reads its arguments or sets the exit code. */

import { messageOf } from './base/errors.ts'
import { openLog } from './cli/command-io.ts'
import { closeLostTerminals, hasTerminal, ignoresHangups } from './cli/hangups.ts'
import type { Io } from './cli/io.ts'
import { runProgram } from './cli/program.ts'

function findFolder(): string | undefined {
  try {
    return process.cwd()
  } catch {
    return undefined
  }
}

const io: Io = {
  args: process.argv.slice(2),
  program: process.argv[1] ?? '',
  env: process.env,
  folder: findFolder(),
  openStdin: () => process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  nowMs: Date.now,
  signals: process,
  // as it was at the start: once the terminal is closed, it and the parent may be gone
  hadTerminal: hasTerminal(),
  ignoresHangups: ignoresHangups(process.env),
  onExit(work) {
    process.on('exit', work)
    return () => void process.off('exit', work)
  },
  exit: (exitCode) => process.exit(exitCode),
  noteExitCode(exitCode) {
    process.exitCode ||= exitCode
  },
}
process.stderr.on('error', () => {})

// warnings of Node.js and of libraries go to the log like other diagnostics
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  openLog(io).then((log) => log.warn(messageOf(warning)))
})

closeLostTerminals()
const exitCode = await runProgram(io)
process.exitCode = exitCode || process.exitCode
