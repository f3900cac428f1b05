/** Options that say how the records of files are read: `leads import` and `validate` take them. */
import { type Command, Option } from 'commander'
import type { LeadMap } from '../leads/field-map.ts'
import type { ReadOptions } from '../leads/pick-fields.ts'
import type { CommandThatFits } from '../records/lack.ts'
import type { UserMap } from '../users/field-map.ts'
import { RepeatedOption } from './options.ts'

export interface RecordOptions {
  map?: string[]
  mapFile?: string
  encoding?: string
  where?: string[]
  null?: string[]
  strict?: true
}

export const mapOption = (): Option =>
  new RepeatedOption('--map <field=column>', 'read a field from a column or key of another name; may be repeated')

export const mapFileOption = (): Option =>
  new Option('--map-file <file>', 'a file with a line FIELD=COLUMN each, # begins a comment; --map wins over it')

export const encodingOption = (): Option =>
  new Option('--encoding <name>', 'the encoding of files that are not in UTF-8, such as windows-1252')

/** The options for the records of listings, in the order of `--help`. */
export function addRecordOptions(command: Command): Command {
  return command
    .addOption(mapOption())
    .addOption(mapFileOption())
    .addOption(encodingOption())
    .addOption(
      new RepeatedOption(
        '--where <field=value>',
        'take only records with this value, or FIELD!=VALUE without it; may be repeated',
      ),
    )
    .addOption(
      new RepeatedOption('--null <text>', 'a text that means unknown, such as n/a, in any case; may be repeated'),
    )
    .option('--strict', 'reject a record with an optional value that cannot be read, instead of taking it as unknown')
}

/** How the records of any kind are read. */
interface RecordWays extends ReadOptions {
  encoding?: string
}

/** Throws `usage`. */
async function readWays(options: RecordOptions): Promise<RecordWays> {
  const { checkEncoding } = await import('../records/encoding.ts')
  const { buildNulls } = await import('../leads/read-value.ts')
  const { parseWhere } = await import('../leads/where.ts')
  return {
    ...(options.encoding !== undefined && { encoding: checkEncoding(options.encoding) }),
    where: parseWhere(options.where ?? []),
    nulls: buildNulls(options.null ?? []),
    strict: options.strict,
  }
}

/** How the records of listings are read. Throws `usage`. */
export async function readRecordOptions(options: RecordOptions): Promise<RecordWays & { map: LeadMap }> {
  const { leadMaps } = await import('../leads/field-map.ts')
  return { map: leadMaps.read(options), ...(await readWays(options)) }
}

/** The same for files of either kind: a map that only the other kind takes is left out. Throws `usage`. */
export async function readOptionsOfEither(
  options: RecordOptions,
): Promise<RecordWays & { leadMap: LeadMap | undefined; userMap: UserMap | undefined }> {
  const { leadMaps } = await import('../leads/field-map.ts')
  const { userMaps } = await import('../users/field-map.ts')
  const userMap = orRefused(() => userMaps.read(options))
  const leadMap = orRefused(() => leadMaps.read(options))
  // which of the two was meant cannot be told: listings have more fields
  if (!leadMap.value && !userMap.value) throw leadMap.error
  return { leadMap: leadMap.value, userMap: userMap.value, ...(await readWays(options)) }
}

function orRefused<T>(read: () => T): { value?: T; error?: unknown } {
  try {
    return { value: read() }
  } catch (error) {
    return { error }
  }
}

/** A word of a shell, quoted where it must be. */
const quoteWord = (word: string) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** The arguments of a command as they were given, with the `--map` options that fit in place of those for the same fields. */
export const commandThatFits =
  (name: string, files: readonly string[], command: Command): CommandThatFits =>
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
    return ['leadpush', ...name.split(' '), ...files, ...options, ...maps].map(quoteWord).join(' ')
  }
