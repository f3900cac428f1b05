/** What every `--help` prints, in its order: the generated part of docs/reference/commands.md. */
import type { Command } from 'commander'
import { buildWithoutRunning, commands, helpOf, leavesOf } from './help.ts'

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

const anchorOf = (name: string) => `#${name.replaceAll(' ', '-')}`

export function formatCommands(): string {
  const withoutJson = [...commands].filter(([, { options }]) => !options.some(({ long }) => long === '--json'))
  const groups = [...groupsOf(buildWithoutRunning())]
  const linked = ([heading, names]: [string, string[]]) =>
    `- ${heading}: ${names.map((name) => `[${name}](${anchorOf(name)})`).join(', ')}`
  const described = (name: string) => [`### ${name}`, '', '```text', helpOf(commands.get(name) as Command), '```', '']
  return [
    `All commands except ${withoutJson.map(([name]) => `\`${name}\``).join(', ')} take \`--json\`.`,
    '',
    ...groups.map(linked),
    '',
    ...groups.flatMap(([heading, names]) => [`## ${heading}`, '', ...names.flatMap(described)]),
  ]
    .join('\n')
    .trimEnd()
}
