/**
 * Runs the real program as an operator would: in a process of its own, with a clean environment and an empty folder. Where
 * nothing depends on the process, runs its command line within this one.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { runProgram as runCommandLine } from '../../src/cli/program.ts'
import { findProgram } from './scripts.ts'

export interface ProgramOptions {
  /** Added to a clean environment; undefined removes a name. */
  env?: Record<string, string | undefined>
  cwd?: string
  input?: string | Buffer
  /** Whether its standard input stays open after `input`. */
  keepsInput?: boolean
  /** After so long the process is killed; by default 4 minutes. */
  timeoutMs?: number
  /** Whether it gets a process group of its own, as from a shell. */
  detached?: boolean
}

export interface ProgramResult {
  code: number | null
  signal: NodeJS.Signals | null
  stdout: string
  stderr: string
  /** The lines of standard output that are JSON objects. */
  // biome-ignore lint/suspicious/noExplicitAny: a command may print anything
  json: any[]
}

export interface StartedProgram {
  pid: number
  child: ChildProcess
  stdout(): string
  stderr(): string
  kill(signal?: NodeJS.Signals): void
  /** Waits for the first match in either stream; rejects when the process ends, or after `timeoutMs`, without one. The time is for a machine that stalls. */
  waitFor(pattern: RegExp, timeoutMs?: number): Promise<RegExpExecArray>
  done: Promise<ProgramResult>
}

let homeFolder: string | undefined
const homeFolders: string[] = []
// an `after` here would belong to the first test
process.on('exit', () => {
  for (const folder of homeFolders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
})

/** The next test file of this process gets a home of its own. */
export function leaveHome(): void {
  homeFolder = undefined
}

/** The LEADPUSH_HOME of the programs in this test file, removed after all files of the process. */
export function testHome(): string {
  if (homeFolder === undefined) {
    const folder = mkdtempSync(join(tmpdir(), 'leadpush-test-'))
    // root's embedded server runs as another user, who must be able to pass
    chmodSync(folder, 0o711)
    homeFolder = folder
    homeFolders.push(folder)
  }
  return homeFolder
}

/** An environment without the settings of the developer and of the test runner. */
export function cleanEnvironment(env: ProgramOptions['env'] = {}): NodeJS.ProcessEnv {
  const home = testHome()
  const { PATH, TMPDIR } = process.env
  const base = { PATH, TMPDIR, HOME: home, XDG_DATA_HOME: join(home, 'share') }
  return Object.fromEntries(Object.entries({ ...base, ...env }).filter(([, value]) => value !== undefined))
}

const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

function parseLines(text: string): unknown[] {
  return text.split('\n').flatMap((line) => {
    try {
      return line.startsWith('{') ? [JSON.parse(line)] : []
    } catch {
      return []
    }
  })
}

function start(file: string, args: readonly string[], options: ProgramOptions): StartedProgram {
  const child = spawn(file, args, {
    cwd: options.cwd ?? testHome(),
    env: cleanEnvironment(options.env),
    stdio: 'pipe',
    detached: options.detached ?? false,
    timeout: options.timeoutMs ?? 240_000,
    killSignal: 'SIGKILL',
  })
  running.add(child)
  const written = { stdout: '', stderr: '', isClosed: false }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      written[name] += text
    })
  }
  child.stdin.on('error', () => {}) // it may end before it has read all
  if (options.keepsInput) child.stdin.write(options.input ?? '')
  else child.stdin.end(options.input)

  child.once('close', () => {
    written.isClosed = true
  })
  const done = once(child, 'close').then(([code, signal]): ProgramResult => {
    running.delete(child)
    const { stdout, stderr } = written
    return { code, signal, stdout, stderr, json: parseLines(stdout) }
  })
  return {
    pid: child.pid ?? 0,
    child,
    stdout: () => written.stdout,
    stderr: () => written.stderr,
    kill: (signal = 'SIGTERM') => void child.kill(signal),
    waitFor: (pattern, timeoutMs = 120_000) => waitFor(child, written, pattern, timeoutMs),
    done,
  }
}

function waitFor(
  child: ChildProcess,
  written: { stdout: string; stderr: string; isClosed: boolean },
  pattern: RegExp,
  timeoutMs: number,
): Promise<RegExpExecArray> {
  return new Promise((found, fail) => {
    const streams = [child.stdout, child.stderr]
    const stop = () => {
      clearTimeout(timer)
      for (const stream of streams) stream?.off('data', look)
      child.off('close', giveUp)
    }
    const look = () => {
      const match = pattern.exec(written.stdout) ?? pattern.exec(written.stderr)
      if (!match) return
      stop()
      found(match)
    }
    const giveUp = () => {
      stop()
      fail(new Error(`no ${pattern} in what the program wrote:\n${written.stdout}\n${written.stderr}`))
    }
    const timer = setTimeout(giveUp, timeoutMs)
    for (const stream of streams) stream?.on('data', look)
    child.on('close', giveUp)
    look()
    // what it wrote last may come after its end, and before the end of its streams
    if (written.isClosed) giveUp()
  })
}

export const startProgram = (args: readonly string[], options: ProgramOptions = {}): StartedProgram =>
  start(process.execPath, [findProgram(), ...args], options)

/** The program with `args` as a shell takes it. */
export const onShell = (args: string): string => `'${process.execPath}' '${findProgram()}' ${args}`

/** Runs a line of a shell on a terminal, which shows both streams as one, and takes what is written to its standard input. */
export const startOnTerminal = (line: string, columns = 120, options: ProgramOptions = {}): StartedProgram =>
  start('script', ['-qec', `stty cols ${columns} rows 40; ${line}`, '/dev/null'], { keepsInput: true, ...options })

export function runProgram(args: readonly string[], options: ProgramOptions = {}): Promise<ProgramResult> {
  return startProgram(args, options).done
}

export interface CallOptions extends Pick<ProgramOptions, 'env' | 'cwd'> {
  /** A stream: read as the program asks for it. */
  input?: ProgramOptions['input'] | Readable
  /** Emits signals, such as SIGTERM, to the command. */
  signals?: EventEmitter
  /** Milliseconds since 1970; by default those of this machine. */
  nowMs?: () => number
}

/**
 * Runs a command within this process: the same output, exit code and settings for a tenth of the processor time. A test starts a
 * process for what only a process has: signals, a terminal, kills, environment variables that Node.js itself or a library reads
 * (TMPDIR, PGPASSWORD), the real streams. Relative names of files need `cwd`, which is that of the whole process meanwhile.
 */
export async function callProgram(args: readonly string[], options: CallOptions = {}): Promise<ProgramResult> {
  const { cwd, env, input = '', signals = new EventEmitter(), nowMs = Date.now } = options
  const written = { stdout: '', stderr: '' }
  const listen = (name: keyof typeof written) =>
    new Writable({
      write(chunk, _, done) {
        written[name] += chunk
        done()
      },
    })
  const atExit = new Set<(exitCode: number) => void>()
  let exit: (exitCode: number) => void = () => {}
  const exited = new Promise<number>((resolve) => {
    exit = resolve
  })
  let noted = 0
  const before = process.cwd()
  if (cwd !== undefined) process.chdir(cwd)
  try {
    const ended = runCommandLine({
      args,
      program: findProgram(),
      env: cleanEnvironment(env),
      folder: cwd ?? testHome(),
      openStdin: () => (input instanceof Readable ? input : Readable.from([Buffer.from(input)], { objectMode: false })),
      stdout: listen('stdout'),
      stderr: listen('stderr'),
      nowMs,
      signals,
      ignoresHangups: false,
      hadTerminal: false,
      onExit(work) {
        atExit.add(work)
        return () => void atExit.delete(work)
      },
      exit,
      noteExitCode: (exitCode) => {
        noted ||= exitCode
      },
    })
    const code = (await Promise.race([ended, exited])) || noted
    for (const work of [...atExit]) work(code)
    return { code, signal: null, ...written, json: parseLines(written.stdout) }
  } finally {
    if (cwd !== undefined) process.chdir(before)
  }
}
