/** The options of `leads import` that say whose listings the files have (contract 4.18). */
import { checkSourceName, type SourceOptions } from '../../leads/sources.ts'
import { usageError } from '../command.ts'

export interface SourceFlags {
  source?: string
  complete?: true
  accept?: true
}

/** Undefined without `--source`. Throws `usage` for a bad name, or an option without the one that it goes with. */
export function readSource(
  { source, complete, accept }: SourceFlags,
  { maxLeadAgeMs }: { maxLeadAgeMs: number },
): SourceOptions | undefined {
  if (complete && source === undefined) {
    const hint = 'Give --source NAME: only the listings of that source can be gone.'
    throw usageError('--complete says that the files have all listings of a source, and needs --source.', hint)
  }
  if (accept && !complete) throw usageError('--accept goes with --complete.')
  if (source === undefined) return undefined
  checkSourceName(source)
  return { name: source, complete: complete === true, accept: accept === true, maxLeadAgeMs }
}
