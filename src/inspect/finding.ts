/**
 * A finding: a problem, or something worth knowing, and what to do about it. `status`, `report`, `validate` and their `--json` share this
 * shape. `status/alarms.ts` makes findings on the period, the listings and the hooks; `machine/` on this machine, its settings and the
 * receiver; `validate/` on the data and on files.
 */

/** Only a problem changes an exit code. A note is worth knowing; a skipped check is not possible yet. */
export type Level = 'problem' | 'note' | 'skipped'

export interface Finding {
  level: Level
  /** The kind of trouble; it stays when words change. */
  code: string
  /** `settings`, `hooks`, `user a@example.com`, `lead https://…`, a file, or a file with a line: `leads.csv:17`. */
  where: string
  /** The setting or field: `fsbos[3].price`; empty for the whole. */
  path: string
  /** What is wrong, without a full stop. After a path it continues the sentence: `is not set`. */
  what: string
  /** What to do, in whole sentences. */
  toDo?: string | undefined
}

/** A finding whose other fields the caller adds. */
export type Found = Pick<Finding, 'level' | 'what'> & Partial<Finding>

/** Findings one after the other, so that memory stays bounded. */
export type Findings = AsyncGenerator<Finding, void, undefined>

/** Messages of errors come with their full stop. */
const found =
  (level: Level) =>
  (what: string, toDo?: string, path = ''): Found => ({ level, path, what: what.replace(/\.$/, ''), toDo })
export const problem = found('problem')
export const note = found('note')

/** The words of a finding: what is wrong, then what to do. */
export const sentenceOf = ({ path = '', what, toDo }: Found): string =>
  `${path === '' ? '' : `${path} `}${what}.${toDo ? ` ${toDo}` : ''}`

/** A finding as `--json` has it (contract 3). */
export const toFindingLine = ({ level, code, where, path, what, toDo }: Finding) => ({
  ...{ type: level, code, where, path, message: what },
  ...(toDo !== undefined && { hint: toDo }),
})

/** What to do about a user or query that no import would have written. */
export const importAgain = 'Import the user again with `leadpush users import`.'
