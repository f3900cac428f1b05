/** Shows the checks of `probe` one by one: a spinner on a terminal while a check runs, then its lines. */
import type { CommandIo } from './command-io.ts'

/** `write` shows a check to people; with `json` each is a line of its own. */
export async function createCheckView<Line extends object>(
  io: CommandIo,
  json: boolean,
  write: (line: Line) => Promise<void>,
) {
  const spinner = await io.out.openSpinner(io.log.format, json)
  return {
    begin: (title: string) => void spinner?.start(title),
    async show(line: Line) {
      spinner?.stop()
      await (json ? io.out.json(line) : write(line))
    },
    stop: () => void spinner?.stop(),
  }
}
