/** The commands as the program describes them, and their help, without running anything. */
import type { Command } from 'commander'
import { buildProgram } from '../../src/cli/program.ts'

export const buildWithoutRunning = (): Command => buildProgram(async () => {}, { out: () => {}, error: () => {} })

/** Every command that does something, by its words. */
export function leavesOf(command: Command, words: string[] = []): Map<string, Command> {
  const subcommands = command.commands.filter((one) => one.name() !== 'help')
  const isLeaf = subcommands.length === 0 || command.registeredArguments.length > 0 || command.options.length > 0
  const own = words.length > 0 && isLeaf ? [[words.join(' '), command] as const] : []
  return new Map([...own, ...subcommands.flatMap((one) => [...leavesOf(one, [...words, one.name()])])])
}

/** What `--help` prints on a terminal of 80 columns. */
export function helpOf(command: Command): string {
  let text = ''
  command.configureOutput({
    getOutHelpWidth: () => 80,
    getOutHasColors: () => false,
    writeOut: (piece) => {
      text += piece
    },
  })
  command.outputHelp()
  return text.trimEnd()
}

export const commands = leavesOf(buildWithoutRunning())

const namesOf = (command: Command | undefined) => command?.options.map(({ long }) => long ?? '') ?? []
const shownOptions = new Set(
  [...commands.values()].flatMap(({ options }) =>
    options.filter(({ hidden }) => !hidden).map(({ long }) => long ?? ''),
  ),
)

/** Whether a command takes an option, with those that `--help` hides; without a command: whether any shows it. */
export const hasOption = (command: string | undefined, option: string): boolean =>
  option === '--help' ||
  (command === undefined
    ? option === '--version' || shownOptions.has(option)
    : namesOf(commands.get(command)).includes(option))

/** The examples of each `--help`: lines that are indented, before what explains them. */
export const exampleLinesOfHelp = [...commands.values(), buildWithoutRunning()].flatMap((command) => {
  const [, examples = ''] = /^(?:Examples|Begin with):\n((?: {2}.*\n?)+)/m.exec(`${helpOf(command)}\n`) ?? []
  return examples.split('\n').map((line) => line.trim().replace(/ {2,}.*/, ''))
})
