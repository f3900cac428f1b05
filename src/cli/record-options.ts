/** Turns options into rules for reading the records of files. */
import type { Command } from 'commander'
import { quoteWord } from '../base/shell-word.ts'
import { type LeadMap, leadMaps } from '../leads/field-map.ts'
import type { ReadOptions } from '../leads/pick-fields.ts'
import { buildNulls } from '../leads/read-value.ts'
import { parseWhere } from '../leads/where.ts'
import { checkEncoding } from '../records/encoding.ts'
import { readFiledOptions } from '../records/field-map.ts'
import type { CommandThatFits } from '../records/lack.ts'
import { type UserMap, userMaps } from '../users/field-map.ts'

export interface RecordOptions {
  map?: string[]
  mapFile?: string
  encoding?: string
  where?: string[]
  null?: string[]
  strict?: true
}

/** How the records of any kind are read. */
interface RecordWays extends ReadOptions {
  encoding?: string
}

type FiledOption = 'null' | 'where' | 'encoding'

/** The values of an option: those in the map file, which may hold the `allowed` options, and then those of the command. Throws `usage`. */
function valuesOf(options: RecordOptions, allowed: readonly FiledOption[]): (name: FiledOption) => string[] {
  const filed = options.mapFile === undefined ? [] : readFiledOptions(options.mapFile, allowed)
  return (name) => [...filed.flatMap(([option, value]) => (option === name ? [value] : [])), options[name] ?? []].flat()
}

const lastEncoding = (values: readonly string[]) => values.slice(-1).map(checkEncoding)[0]

/** How users are read: the encoding of the command, or else of its map file. Throws `usage`. */
export const readEncoding = (options: RecordOptions): string | undefined =>
  lastEncoding(valuesOf(options, ['encoding'])('encoding'))

/** Throws `usage`. */
function readWays(options: RecordOptions): RecordWays {
  const values = valuesOf(options, ['null', 'where', 'encoding'])
  const encoding = lastEncoding(values('encoding'))
  return {
    ...(encoding !== undefined && { encoding }),
    where: parseWhere(values('where')),
    nulls: buildNulls(values('null')),
    strict: options.strict,
  }
}

/** How the records of listings are read. Throws `usage`. */
export function readRecordOptions(options: RecordOptions): RecordWays & { map: LeadMap } {
  return { map: leadMaps.read(options), ...readWays(options) }
}

/** The same for files of either kind: a map that only the other kind takes is left out. Throws `usage`. */
export function readOptionsOfEither(
  options: RecordOptions,
): RecordWays & { leadMap: LeadMap | undefined; userMap: UserMap | undefined } {
  const userMap = orRefused(() => userMaps.read(options))
  const leadMap = orRefused(() => leadMaps.read(options))
  // the options fit neither: a map of listings is assumed, which have more fields
  if (!leadMap.value && !userMap.value) throw leadMap.error
  return { leadMap: leadMap.value, userMap: userMap.value, ...readWays(options) }
}

function orRefused<T>(read: () => T): { value?: T; error?: unknown } {
  try {
    return { value: read() }
  } catch (error) {
    return { error }
  }
}

/** `leadpush`, `leads`, `import`. */
const wordsOf = (command: Command): string[] => [...(command.parent ? wordsOf(command.parent) : []), command.name()]

/** The arguments of a command as they were given, with the `--map` options that fit in place of those for the same fields. */
export const commandThatFits =
  (command: Command): CommandThatFits =>
  (fits) => {
    const given = command.options.flatMap((option) => {
      const value = command.getOptionValue(option.attributeName())
      if (value === undefined || !option.long) return []
      return [value]
        .flat()
        .map((one) => (one === true ? [option.long as string] : [option.long as string, String(one)]))
    })
    const isReplaced = ([option, entry = '']: string[]) =>
      option === '--map' && [...fits.keys()].some((field) => field === entry.split('=')[0]?.trim())
    const options = given.filter((words) => !isReplaced(words)).flat()
    const maps = [...fits].flatMap(([field, column]) => ['--map', `${field}=${column}`])
    return [...wordsOf(command), ...command.args, ...options, ...maps].map(quoteWord).join(' ')
  }
