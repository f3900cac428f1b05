/** The progress of a command, on standard error: on a terminal one moving line that never wraps, elsewhere a log line every 10 s. */
import type { Ora } from 'ora'
import { isPlain } from '../base/terminal.ts'
import type { CommandIo } from './command-io.ts'

const plainProgressMs = 10_000
const livelyProgressMs = 200
/** The spinner, a space, and the last column, at which some terminals wrap. */
const besideChars = 3

/**
 * Undefined if nothing may move: beside a log of JSON, beside JSON lines on the same terminal, or on a terminal without columns (made by
 * `script` or a container), where ora would clear lines without end.
 */
async function openSpinner({ stdout, stderr, env, log, out }: CommandIo): Promise<Ora | undefined> {
  const isLively = stderr.isTTY === true && (stderr.columns ?? 0) > 0 && !isPlain(env)
  if (!isLively || log.format === 'json' || (out.isJson && stdout.isTTY)) return undefined
  const { default: ora } = await import('ora')
  return ora({ stream: stderr, discardStdin: false })
}

/**
 * Shows the result of `text`, which is given the room on the line, until it, or the command, ends; off a terminal that of `logText`.
 * Undefined shows nothing yet.
 */
export async function startProgress(
  io: CommandIo,
  text: (columns: number) => string | undefined,
  logText: () => string | undefined = () => text(Number.POSITIVE_INFINITY),
): Promise<CommandIo['progress']> {
  const { progress } = io
  progress.stop()
  const spinner = await openSpinner(io)
  const render = () => {
    const shown = spinner ? text((io.stderr.columns ?? 0) - besideChars) : logText()
    if (shown === undefined) return
    if (!spinner) io.log.info(shown)
    else if (spinner.isSpinning) spinner.text = shown
    else spinner.start(shown)
  }
  if (spinner) {
    render()
    io.stderr.on('resize', render)
  }
  const timer = setInterval(render, spinner ? livelyProgressMs : plainProgressMs).unref()
  progress.stop = () => {
    clearInterval(timer)
    io.stderr.off('resize', render)
    spinner?.stop()
  }
  return progress
}
