/** A `leadpush push --user` in a process of its own: started without a shell, with what it needs of the environment. */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { packageRoot } from '../base/package-root.ts'

export interface PushProcess {
  /** Never rejects. */
  ended: Promise<PushProcessEnd>
  kill(signal: NodeJS.Signals): void
  /** It may go on without this process. */
  leave(): void
}

export interface PushProcessEnd {
  /** Null: it was killed, or could not be started. */
  exitCode: number | null
  /** What became of its deliveries, a line; undefined: it came to none. */
  outcome: string | undefined
}

/** No push takes so long: whatever its process hangs on, its place is needed. */
const processMsMax = 3_600_000
const outcomeCharsMax = 500
/** What it wrote has come so long after its end at most. */
const outputMsMax = 1_000

/**
 * Sends what the user is owed by the subscription. It has a process group of its own, so that a signal from a terminal reaches
 * it through us alone, once. Its diagnostics come to `onLine`.
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
  // spawn's own timeout would keep this process
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
    // something that it started may hold its output open
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

/** A line of `push --json`. Of a process that was killed the last may be torn, and tells nothing. */
function describe(line: string): string | undefined {
  if (!line.startsWith('{"type":"delivery"')) return undefined
  try {
    const { status, attempts, error } = JSON.parse(line)
    return `${status}${attempts > 1 ? ` with ${attempts} attempts` : ''}${error === null ? '' : `: ${error}`}`
  } catch {
    return undefined
  }
}
