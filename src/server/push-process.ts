/** Runs `leadpush push --owed` in a process of its own, without a shell and with only the environment that it needs. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { packageRoot } from '../base/package-root.ts'
import { PushOutcome } from './push-outcome.ts'

/** A child process that sends subscription pushes. */
export interface PushProcess {
  /** Resolves when the process has ended; never rejects. */
  ended: Promise<PushProcessEnd>
  kill(signal: NodeJS.Signals): void
  /** Lets the child go on alone: this process no longer waits for it. */
  leave(): void
}

/** How a child process ended. */
export interface PushProcessEnd {
  /** Null if the process was killed or could not be started. */
  exitCode: number | null
  /** The outcome of its deliveries, in one line; undefined if there is nothing to report. */
  outcome: string | undefined
  /** Started again at once, the same process would not do better. */
  isFruitless: boolean
}

/** A process that takes longer is told to stop, so that others get their turn; one that hangs is killed a while later. */
const processMsMax = 3_600_000
const stopMsMax = 900_000
/** How long to wait for the rest of the output after the process has ended. */
const outputMsMax = 1_000

/**
 * Starts a process that sends the owed subscription push of the user with that `email` or, without one, those of all users. The process
 * has its own process group, so that a signal from a terminal reaches it only through us, once. Its diagnostics go to `onLine`.
 */
export function startPushProcess(
  email: string | undefined,
  env: Readonly<Record<string, string>>,
  onLine: (line: string) => void,
  { processMs, stopMs } = { processMs: processMsMax, stopMs: stopMsMax },
): PushProcess {
  const program = join(packageRoot, 'bin', 'leadpush.js')
  const whom = email === undefined ? [] : [`--user=${email}`]
  const child = spawn(process.execPath, [program, 'push', ...whom, '--owed', '--json'], {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  // spawn's own timeout would keep this process alive
  const timers = [
    setTimeout(() => child.kill('SIGTERM'), processMs).unref(),
    setTimeout(() => child.kill('SIGKILL'), processMs + stopMs).unref(),
  ]
  child.once('exit', () => timers.forEach(clearTimeout))
  const outcome = new PushOutcome(email === undefined)
  readLines(child.stdout, (line) => outcome.note(line))
  readLines(child.stderr, onLine)
  const ended = new Promise<PushProcessEnd>((resolve) => {
    const end = (exitCode: number | null) =>
      resolve({ exitCode, outcome: outcome.text, isFruitless: outcome.isFruitless })
    child.once('error', (error) => {
      onLine(error.message)
      end(null)
    })
    child.once('close', end)
    // a process that the child started may hold its output open
    child.once('exit', (exitCode) => setTimeout(() => end(exitCode), outputMsMax).unref())
  })
  return {
    ended,
    kill: (signal) => void child.kill(signal),
    leave: () => {
      child.unref()
      child.stdout.destroy()
      child.stderr.destroy()
    },
  }
}

function readLines(stream: Readable, onLine: (line: string) => void): void {
  stream.on('error', () => {})
  createInterface({ input: stream }).on('line', onLine)
}
