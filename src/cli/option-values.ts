/** Values of options that are read when the command runs. */
import { duration } from '../base/setting-values.ts'
import { wrongValue } from './describe.ts'

/** A duration within the bounds, both written as durations, in milliseconds. Throws `usage` for anything else. */
export function readDuration(flag: string, text: string, min: string, max: string): number {
  const parsed = duration(min, max).safeParse(text)
  if (parsed.success) return parsed.data
  throw wrongValue(flag, text, parsed.error.issues[0]?.message ?? '')
}
