/**
 * The words that are allowed at each place of the command line, read from the program itself, so that no completion can forget a command.
 */
import type { Command, Help, Option } from 'commander'

/** What follows an option, or stands in the place of an argument; `other` is known to the person alone. */
export type Value = { kind: 'file' } | { kind: 'choice'; choices: readonly string[] } | { kind: 'other'; name: string }

export interface WordOption {
  /** `-h`, `--help`. */
  flags: string[]
  description: string
  /** Undefined if it has none. */
  value: (Value & { isOptional: boolean }) | undefined
}

export interface WordCommand {
  /** `leads import`; empty for the program. */
  path: string
  options: WordOption[]
  /** Names after the path. */
  commands: { name: string; description: string }[]
  /** The value of its first argument; several arguments are alike. */
  argument: Value | undefined
}

function describeValue(name: string, choices: readonly string[] | undefined): Value {
  if (choices !== undefined) return { kind: 'choice', choices }
  return /file/i.test(name) ? { kind: 'file' } : { kind: 'other', name }
}

function describeOption(option: Option): WordOption {
  const flags = [option.short, option.long].filter((flag) => flag !== undefined)
  const name = /[<[]([^>\]]+)/.exec(option.flags)?.[1] ?? ''
  const value = option.required || option.optional ? describeValue(name, option.argChoices) : undefined
  return { flags, description: option.description, value: value && { ...value, isOptional: option.optional } }
}

function describeArgument(command: Command): Value | undefined {
  const [first] = command.registeredArguments
  return first && describeValue(first.name(), first.argChoices)
}

/** The program and all its commands, except hidden ones; the first is the program. */
export function listCommands(command: Command, help: Help = command.createHelp(), path = ''): WordCommand[] {
  const visible = help.visibleCommands(command)
  const commands = visible.map((each) => ({ name: each.name(), description: each.description() }))
  const options = help.visibleOptions(command).map(describeOption)
  const below = visible.flatMap((each) => listCommands(each, help, `${path} ${each.name()}`.trim()))
  // `help` takes the names of its neighbours
  const helps = below.find((each) => each.path === `${path} help`.trim())
  if (helps) helps.argument = { kind: 'choice', choices: commands.map(({ name }) => name) }
  return [{ path, options, commands, argument: describeArgument(command) }, ...below]
}

/** For a shell, as it stands. */
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The keys `path|word` that lead on to a command. */
export const stepsTo = (commands: readonly WordCommand[]): [key: string, path: string][] =>
  commands.flatMap(({ path, commands: next }) =>
    next.map(({ name }): [string, string] => [`${path}|${name}`, `${path} ${name}`.trim()]),
  )

/** The keys `path|option` after which a value comes, with the value. */
export const listValues = (commands: readonly WordCommand[]): [key: string, value: Value][] =>
  commands.flatMap(({ path, options }) =>
    options.flatMap(({ flags, value }) =>
      value && !value.isOptional ? flags.map((flag): [string, Value] => [`${path}|${flag}`, value]) : [],
    ),
  )
