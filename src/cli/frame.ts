/** Runs a described command: its settings, its database, its work. Modules are loaded only when they are needed. */
import type { Command } from 'commander'
import type { SettingsSource } from '../base/config.ts'
import { usageError } from '../base/errors.ts'
import type { CommandIo } from './command-io.ts'
import {
  type AtDatabase,
  type DatabaseUse,
  type Described,
  type ExitCode,
  type Name,
  type ReadSettings,
  SettingOption,
} from './describe.ts'

/** The environment and the working folder, with the values of options. Throws `usage` if the folder is gone. */
function findSource({ env, folder }: CommandIo, command: Command): SettingsSource {
  if (folder === undefined)
    throw usageError('The working directory was removed.', 'Change to one that is there (`cd`), and run it again.')
  const given = command.options.flatMap((option) => {
    const value = command.getOptionValue(option.attributeName())
    return option instanceof SettingOption && value !== undefined
      ? [[option.setting, { flag: option.long ?? '', value: String(value) }]]
      : []
  })
  return { env, cwd: folder, flags: Object.fromEntries(given) }
}

function listNames(own: readonly Name[], database: DatabaseUse | undefined): Name[] {
  const ofDatabase = database ? (['databaseUrl', 'home'] as const) : []
  const away = database && !database.startsWith('reads') ? (['databaseAwayMs'] as const) : []
  return [...new Set<Name>([...ofDatabase, ...away, 'logFormat', ...own])]
}

/** Runs the command with commander's reading of the command line, and returns the exit code. */
export async function runDescribed(
  io: CommandIo,
  described: Described,
  command: Command,
  given: readonly unknown[],
): Promise<ExitCode> {
  const { work, settings: names = [] } = described
  const options = command.optsWithGlobals()
  const by = <T>(value: T | ((options: never) => T)) =>
    typeof value === 'function' ? (value as (options: object) => T)(options) : value
  const database = by(described.database)
  if (!work) throw new Error(`${described.name} does nothing by itself`)
  // one after the other: Node.js opens all files of a module at once, and the limit of open files may be low
  const { readNamed } = await import('../base/config.ts')
  const opens = database && (await import('./database.ts'))
  const run = await work()
  io.out.isJson = options.json === true
  const source = findSource(io, command)
  // once: a NAME_FILE may be a pipe
  let settings: ReturnType<typeof readNamed> | undefined
  const readSettings = () => {
    settings ??= readNamed(listNames(by(names), database), source, described.needs)
    return settings as ReadSettings<Name>
  }
  const at: AtDatabase<Name> = {
    io,
    command,
    source,
    readSettings,
    async open(workWithin, more) {
      if (!opens || !database) throw new Error(`${described.name} says of no database how it uses it`)
      const settings = readSettings()
      const how = { ...opens.optionsOf[database], ...more }
      return await opens.withDatabase(io, settings, how, (opened) => workWithin(opened, settings))
    },
  }
  try {
    return await run(at, ...([...given, options] as never[]))
  } finally {
    io.progress.stop()
  }
}
