/** Runs `leadpush push --user` in a process of its own, without a shell and with only the environment that it needs. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { packageRoot } from '../base/package-root.ts'

/** A child process that sends one user's subscription push. */
export interface PushProcess {
  /** Resolves when the process has ended; never rejects. */
  ended: Promise<PushProcessEnd>
  kill(signal: NodeJS.Signals): void
  /** Lets the child go on alone: this process no longer waits for it. */
  leave(): void
}

/** How a child process ended. */
export interface PushProcessEnd {
  /** Null where the process was killed or could not be started. */
  exitCode: number | null
  /** What became of its deliveries, in one line; undefined where it made none. */
  outcome: string | undefined
}

/** No push takes so long: a process that hangs is killed, so that others get their turn. */
const processMsMax = 3_600_000
const outcomeCharsMax = 500
/** How long to wait for the rest of the output after the process has ended. */
const outputMsMax = 1_000

/**
 * Starts a process that sends the user's owed subscription push. The process has a process group of its own, so that a signal
 * from a terminal reaches it through us alone, once. Its diagnostics go to `onLine`.
 */
export function startPushProcess(
  email: string,
  env: Readonly<Record<string, string>>,
  onLine: (line: string) => void,
): PushProcess {
  const program = join(packageRoot, 'bin', 'leadpush.js')
  const child = spawn(process.execPath, [program, 'push', `--user=${email}`, '--owed', '--json'], {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  // spawn's own timeout would keep this process alive
  const timer = setTimeout(() => child.kill('SIGKILL'), processMsMax).unref()
  child.once('exit', () => clearTimeout(timer))
  let outcome = ''
  readLines(child.stdout, (line) => {
    outcome = [outcome, describe(line)].filter(Boolean).join('; ').slice(0, outcomeCharsMax)
  })
  readLines(child.stderr, onLine)
  const ended = new Promise<PushProcessEnd>((resolve) => {
    const end = (exitCode: number | null) => resolve({ exitCode, outcome: outcome || undefined })
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

/** The outcome in a line of `push --json`; undefined for other lines, and for one that a kill has torn. */
function describe(line: string): string | undefined {
  if (!line.startsWith('{"type":"delivery"')) return undefined
  try {
    const { status, attempts, error } = JSON.parse(line)
    return `${status}${attempts > 1 ? ` with ${attempts} attempts` : ''}${error === null ? '' : `: ${error}`}`
  } catch {
    return undefined
  }
}
