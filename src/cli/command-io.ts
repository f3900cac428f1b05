/** The environment of an action: what its process gave it, its output, its log, its signals and its end. */
import { messageOf } from '../base/errors.ts'
import { mayNameLogFormat } from '../base/terminal.ts'
import { Ending } from './ending.ts'
import type { Io } from './io.ts'
import { createLog, type Log } from './log.ts'
import { Output } from './output.ts'
import { Stops } from './signals.ts'

export interface CommandIo extends Io {
  /** Diagnostics. */
  readonly log: Log
  /** Results. */
  readonly out: Output
  readonly stops: Stops
  readonly ending: Ending
  /** What moves on the terminal, if anything: the command's end stops it. */
  readonly progress: { stop(): void }
}

/** The parts that exist before the format of the log is known. */
export type UnloggedIo = Omit<CommandIo, 'log'>

/** The diagnostics of a command. A bad `LEADPUSH_LOG_FORMAT` is reported by the command, in the default format. */
export async function openLog(io: Io): Promise<Log> {
  const { args, env, folder = '.', stderr } = io
  const isServer = args[0] === 'serve'
  const fallback = isServer && !stderr.isTTY ? 'json' : 'pretty'
  if (!mayNameLogFormat(env, folder)) return await createLog(io, fallback, isServer)
  const { readLogFormat } = await import('../base/config.ts')
  return await createLog(io, readLogFormat({ env, cwd: folder }) ?? fallback, isServer)
}

/** Begins a command: signals are heard from here on, and a reader that goes away is noticed. */
export function openIo(io: Io): UnloggedIo {
  const ending = new Ending(io)
  // contract 3: `serve` and `receiver` end with 0, even before they listen
  const isServer = ['serve', 'receiver'].includes(io.args[0] ?? '')
  const stops = new Stops(io, (exitCode) => void ending.begin(isServer ? 0 : exitCode))
  const opened = { ...io, out: new Output(io), stops, ending, progress: { stop() {} } }
  io.stdout.on('error', (error: NodeJS.ErrnoException) => void loseOutput(opened, error))
  return opened
}

/** A reader that has gone (`| head`, a closed terminal) has seen enough. A full disk loses results that somebody wants. */
async function loseOutput(io: UnloggedIo, error: NodeJS.ErrnoException): Promise<void> {
  io.out.stop()
  const { loss } = io.out
  const hasGone = error.code === 'EPIPE' || (error.code === 'EIO' && io.stdout.isTTY)
  const exitCode = hasGone && loss === undefined ? 0 : 1
  io.noteExitCode(exitCode)
  if (exitCode > 0) {
    const told = `Standard output cannot be written any more: ${messageOf(error)}`
    const log = await openLog(io)
    log.error(loss === undefined ? told : `${told}. ${loss}`)
  }
  // a push or an import still finishes
  if (!io.stops.mustFinish) await io.ending.begin(exitCode)
}
