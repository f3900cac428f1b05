/** docs/commands.md as text: what every `--help` prints, in its order. `npm run commands` writes it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Command } from 'commander'
import { packageRoot } from '../../src/base/package-root.ts'
import { buildProgram } from '../../src/cli/program.ts'

export const commandsPage = 'docs/commands.md'

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

/** The commands of the first level by the headings of `--help`, each with those that do something. */
function groupsOf(program: Command): Map<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const command of program.commands) {
    if (command.name() === 'help') continue
    const heading = command.helpGroup().replace(/:$/, '')
    groups.set(heading, [...(groups.get(heading) ?? []), ...leavesOf(command, [command.name()]).keys()])
  }
  return groups
}

export function formatCommands(): string {
  const program = buildWithoutRunning()
  const leaves = leavesOf(program)
  const optionsOf = (name: string) => leaves.get(name)?.options.map(({ long }) => long) ?? []
  const withoutJson = [...leaves.keys()].filter((name) => !optionsOf(name).includes('--json'))
  const groups = [...groupsOf(program)]
  const linked = ([heading, names]: [string, string[]]) =>
    `- ${heading}: ${names.map((name) => `[${name}](#${name.replaceAll(' ', '-')})`).join(', ')}`
  const described = (name: string) => [`### ${name}`, '', '```text', helpOf(leaves.get(name) as Command), '```', '']
  return [
    '# Commands',
    '',
    '`npm run commands` makes this page from what each `--help` prints.',
    'Results go to standard output, all else to standard error.',
    `All commands except ${withoutJson.map((name) => `\`${name}\``).join(', ')} take \`--json\`.`,
    '[The contract](contract.md#3-commands) has the JSON and the exit codes.',
    '',
    ...groups.map(linked),
    '',
    ...groups.flatMap(([heading, names]) => [`## ${heading}`, '', ...names.flatMap(described)]),
  ]
    .join('\n')
    .trimEnd()
    .concat('\n')
}

const [, script] = process.argv
if (script !== undefined && import.meta.url === pathToFileURL(script).href) {
  writeFileSync(join(packageRoot, commandsPage), formatCommands())
}
