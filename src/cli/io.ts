/**
 * What a command gets from its process and gives back to it. `main.ts` hands in the process itself; nothing else in `src/` reads
 * arguments, the environment or the standard streams, so that a test calls any command within its own process.
 */
import type { Readable } from 'node:stream'

export type Environment = Readonly<Record<string, string | undefined>>

/** Standard output or standard error. */
export interface OutStream extends NodeJS.WritableStream {
  readonly isTTY?: boolean
  readonly columns?: number
  /** Bytes that wait for a slow reader. */
  readonly writableLength: number
  readonly fd?: number
}

/** Where signals are heard. */
interface Signals {
  on(signal: NodeJS.Signals, listener: () => void): unknown
  off(signal: NodeJS.Signals, listener: () => void): unknown
}

export interface Io {
  /** The words behind `leadpush`. */
  readonly args: readonly string[]
  /** The file that was started: a link, or `bin/leadpush.js` itself. */
  readonly program: string
  readonly env: Environment
  /** The working folder, undefined where it was removed. File names among `args` are relative to that of the process. */
  readonly folder: string | undefined
  openStdin(): Readable & { readonly isTTY?: boolean }
  readonly stdout: OutStream
  readonly stderr: OutStream
  /** Milliseconds since 1970. */
  nowMs(): number
  readonly signals: Signals
  /** Whether SIGHUP is to stop nothing: `nohup`. */
  readonly ignoresHangups: boolean
  /** Whether there was a terminal at the start. */
  readonly hadTerminal: boolean
  /** Calls `work` when the process exits in any way. Returns a function that cancels this. */
  onExit(work: (exitCode: number) => void): () => void
  /** Exits at once. */
  exit(exitCode: number): void
  /** The exit code of the process if that of the command is 0. */
  noteExitCode(exitCode: number): void
}
