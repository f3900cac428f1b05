/** The program: runs the command line, and is the only place that sets the exit code. */
import { endEarly, openLog } from './cli/command.ts'
import { stopWriting } from './cli/output.ts'
import { runProgram } from './cli/program.ts'
import { listenByDefault, mustFinish } from './cli/signals.ts'
import { messageOf } from './errors.ts'

process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  // a reader that has gone (`| head`) has seen enough; what a push or an import has begun goes on all the same
  stopWriting()
  if (!mustFinish()) void endEarly(0)
})
process.stderr.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
})

// warnings of Node.js and of libraries are diagnostics like any other
process.removeAllListeners('warning')
process.on('warning', (warning) => {
  openLog().then((log) => log.warn(messageOf(warning)))
})

listenByDefault(endEarly)
process.exitCode = await runProgram(process.argv.slice(2))
