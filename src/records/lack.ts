/** What a file lacks as a whole, and the `--map` options that would fit it (contract 4.18): one message instead of one a record. */
import { LeadpushError } from '../base/errors.ts'
import { quoteWord } from '../base/shell-word.ts'

/** Fields, and the columns that would fill them. */
export type Fits = ReadonlyMap<string, string>

/** Completes the command with the `--map` options that fit. */
export type CommandThatFits = (fits: Fits) => string

export interface Lack {
  message: string
  fits: Fits
  /** Which of the needed fields are in no column. */
  absent: readonly string[]
  /** All that is lacking may be known from an earlier import. */
  mayBeKnown: boolean
  /** Where no column would help. */
  hint?: string
  /** What `--map` takes, where no column looks like what is needed. */
  example: string
}

export function lackError(lack: Lack, command: CommandThatFits): LeadpushError {
  const hint = lack.hint ?? describeFits(lack, command)
  return new LeadpushError('failed', lack.message, hint === undefined ? {} : { hint })
}

function describeFits({ fits, absent, example }: Lack, command: CommandThatFits): string | undefined {
  if (absent.length === 0 && fits.size === 0) return undefined
  const unfound = absent.filter((field) => !fits.has(field))
  if (fits.size === 0 || (absent.length > 1 && unfound.length === absent.length)) {
    return `Columns of other names are read with --map FIELD=COLUMN, such as --map ${example}.`
  }
  const asked = unfound.map((field) => `No column looks like ${field}: add --map ${field}=COLUMN. `).join('')
  return `${asked}This would fit:\n${command(fits)}`
}

/** The command of a caller that knows no better: `command` is such as `leadpush leads import FILE`. */
export const fitting =
  (command: string): CommandThatFits =>
  (fits) =>
    [command, ...[...fits].map(([field, column]) => `--map ${quoteWord(`${field}=${column}`)}`)].join(' ')
