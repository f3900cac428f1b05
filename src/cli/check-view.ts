/** Shows checks one by one for `doctor` and `probe`: a spinner on a terminal while a check runs, then its lines. */
import type { Ora } from 'ora'
import type { Log } from './log.ts'
import { isLively, writeJson } from './output.ts'

/** `write` shows a check to people; with `json` each is a line of its own. */
export async function createCheckView<Line extends object>(
  log: Log,
  json: boolean,
  write: (line: Line) => Promise<void>,
) {
  let spinner: Ora | undefined
  if (isLively() && log.format === 'pretty' && !(json && process.stdout.isTTY)) {
    const { default: ora } = await import('ora')
    spinner = ora({ stream: process.stderr, discardStdin: false })
  }
  return {
    begin: (title: string) => void spinner?.start(title),
    async show(line: Line) {
      spinner?.stop()
      await (json ? writeJson(line) : write(line))
    },
    stop: () => void spinner?.stop(),
  }
}
