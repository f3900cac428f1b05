/** The program: runs the command line, and is the only place that sets the exit code. */
import { runProgram } from './cli/program.ts'

// a reader that has gone (`| head`) has seen enough
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit(process.exitCode ?? 0)
  throw error
})

process.exitCode = await runProgram(process.argv.slice(2))
