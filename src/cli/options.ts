/** Values of options that several commands take. */
import { InvalidArgumentError, Option } from 'commander'
import { usageError } from './command.ts'

/** An option that may be given several times: its value is the list of them. Any other is refused the second time. */
export class RepeatedOption extends Option {
  /** Each value is one of `words`, where they are given. */
  constructor(flags: string, about: string, words?: readonly string[]) {
    super(flags, `${about}${words ? `: ${words.join(', ')}` : ''}`)
    this.argParser((entry: string, entries: string[] = []) => {
      if (words?.includes(entry) === false) throw new InvalidArgumentError(`It is one of ${words.join(', ')}.`)
      return [...entries, entry]
    })
  }
}

const isCount = (text: string) => /^[1-9]\d{0,8}$/.test(text)
const allowedCount = 'a whole number from 1 to 999999999'

export function parseCount(text: string): number {
  if (!isCount(text)) throw new InvalidArgumentError(`It is ${allowedCount}.`)
  return Number(text)
}

/** The same of an option with checks of its own. Throws `usage` for anything else. */
export function readCount(flag: string, text: string): number {
  if (!isCount(text)) throw usageError(`${flag}: holds "${text}"; allowed: ${allowedCount}`)
  return Number(text)
}

/** A duration within the bounds, both written as durations, in milliseconds. Throws `usage` for anything else. */
export async function readDuration(flag: string, text: string, min: string, max: string): Promise<number> {
  const { duration } = await import('../base/setting-values.ts')
  const parsed = duration(min, max).safeParse(text)
  if (parsed.success) return parsed.data
  throw usageError(`${flag}: holds ${JSON.stringify(text)}; allowed: ${parsed.error.issues[0]?.message}.`)
}
