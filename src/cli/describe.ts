/**
 * The description of a command: its words, its options, which of them go together, the settings that it uses, and how it opens the
 * database. Its work is one module, which is loaded after all checks that are possible without it.
 */
import { Argument, type Command, Option } from 'commander'
import type { Proxies, SettingName, Settings, SettingsSource } from '../base/config.ts'
import { type LeadpushError, usageError } from '../base/errors.ts'
import type { OpenDatabase, OpenOptions } from '../db/open.ts'
import type { CommandIo } from './command-io.ts'
import type { Rule } from './rules.ts'

/** 0, 1, 2, 3, 129, 130 or 143 (contract 3). */
export type ExitCode = number

/** What a command reads of its environment. */
export type Name = SettingName | 'proxies'

/** The settings `K`; those in `N` are set, because the command cannot do without them. */
export type ReadSettings<K extends Name, N extends Name = never> = Settings<Exclude<K, N | 'proxies'>> &
  ('proxies' extends K ? { readonly proxies: Proxies } : unknown) & {
    readonly [P in Extract<N, SettingName>]: NonNullable<Settings<P>[P]>
  }

/** What the work of a command is given. */
export interface At<K extends Name = never, N extends Name = never> {
  readonly io: CommandIo
  /** The command as it was given. */
  readonly command: Command
  readonly source: SettingsSource
  /** Throws `usage` with all faults of the settings at once. */
  readSettings(): ReadSettings<K, N>
}

/** The same with a database. */
export interface AtDatabase<K extends Name = never, N extends Name = never> extends At<K | 'databaseUrl' | 'home', N> {
  /** Reads the settings, opens the database, and closes it when `work` is over. */
  open<T>(
    work: (opened: OpenDatabase, settings: ReadSettings<K | 'databaseUrl' | 'home', N>) => Promise<T>,
    more?: OpenOptions,
  ): Promise<T>
}

/**
 * How a command uses the database.
 *
 * - `reads`: by short statements, and does not wait for one that is away at the start
 * - `reads long`: the same by statements that may take long
 * - `changes`: writes by short statements
 * - `works`: writes by statements that may take long, and waits for a database that is away at the start
 * - `sends`: the same by short statements
 */
export type DatabaseUse = 'reads' | 'reads long' | 'changes' | 'works' | 'sends'

type Run<A> = (at: A, ...given: never[]) => Promise<ExitCode>

interface Words {
  name: string
  about: string
}

interface Takes<K extends Name, N extends Name> extends Words {
  arguments?: readonly Argument[]
  /** In the order of `--help`; a text is the heading of those after it. */
  options?: readonly (Option | string)[]
  rules?: readonly Rule[]
  /** The text below the options: examples and notes. */
  help: string
  /** The settings besides those of the database and of the log; a function if they depend on the options. */
  settings?: readonly K[] | ((options: never) => readonly K[])
  /** Why the command needs a setting that has no default. */
  needs?: { readonly [P in N]: string }
  commands?: readonly Described[]
}

interface WithoutDatabase<K extends Name, N extends Name> extends Takes<K, N> {
  database?: undefined
  work: () => Promise<Run<At<K, N>>>
}

interface WithDatabase<K extends Name, N extends Name> extends Takes<K, N> {
  database: DatabaseUse | ((options: never) => DatabaseUse | undefined)
  work: () => Promise<Run<AtDatabase<K, N>>>
}

/** A command as the frame sees it. */
export interface Described extends Takes<Name, never> {
  database?: WithDatabase<Name, never>['database']
  /** Undefined: only its subcommands do something. */
  work?: () => Promise<Run<AtDatabase<Name>>>
}

/** A command that does something. */
export function describe<const K extends Name = never, N extends Name = never>(
  command: WithoutDatabase<K, N> | WithDatabase<K, N>,
): Described {
  // the frame gives the work what its own description asked for
  return command as unknown as Described
}

/** A word that only leads on to others. */
export const describeGroup = (group: Words & { commands: readonly Described[] }): Described => ({ ...group, help: '' })

export const argument = (name: string, about: string): Argument => new Argument(name, about)

export const option = (flags: string, about: string): Option => new Option(flags, about)

/** The error for a wrong value of an option, worded like that for a setting. */
export const wrongValue = (flag: string | undefined, text: string, allowed: string): LeadpushError =>
  usageError(`${flag}: holds ${JSON.stringify(text)}; allowed: ${allowed}`)

/** An option that may be given several times; its value is a list. Any other option is refused the second time. */
export class RepeatedOption extends Option {
  /** Each value is one of `words`, if there are any. */
  constructor(flags: string, about: string, words?: readonly string[]) {
    super(flags, `${about}${words ? `: ${words.join(', ')}` : ''}`)
    this.argParser((entry: string, entries: string[] = []) => {
      if (words?.includes(entry) === false) throw wrongValue(this.long, entry, words.join(', '))
      return [...entries, entry]
    })
  }
}

/** An option that replaces a setting for this command. */
export class SettingOption extends Option {
  readonly setting: SettingName

  constructor(flags: string, about: string, setting: SettingName) {
    super(flags, about)
    this.setting = setting
  }
}

const isCount = (text: string) => /^[1-9]\d{0,8}$/.test(text)

/** The count that an option holds. Throws `usage`. */
export function readCount(flag: string | undefined, text: string): number {
  if (!isCount(text)) throw wrongValue(flag, text, 'a whole number from 1 to 999999999')
  return Number(text)
}

/** An option whose value is a count. */
export function countOption(flags: string, about: string): Option {
  const option = new Option(flags, about)
  return option.argParser((text) => readCount(option.long, text))
}

// each command has its own option object, since that knows its heading
export const jsonLines = (): Option => option('--json', 'print one JSON object a line')
export const jsonObject = (): Option => option('--json', 'print one JSON object')
export const dryRun = (about: string): Option => option('--dry-run', about)
export const metricsFile = (): Option =>
  option('--metrics-file <file>', "figures for Prometheus, as node exporter's textfile collector reads them")
