/**
 * What is wrong, or worth knowing, and what to do about it: one shape for `status`, `report`, `validate` and their `--json`. Sources make
 * findings: `status/alarms.ts` of the period, the listings and the hooks; `machine/` of this machine, its settings and the receiver;
 * `validate/` of the data and of files.
 */

/** Only a problem changes an exit code. A note is worth knowing; what is skipped cannot be looked at yet. */
export type Level = 'problem' | 'note' | 'skipped'

export interface Finding {
  level: Level
  /** The kind of trouble: it stays the same when words change. */
  code: string
  /** `settings`, `hooks`, `user a@example.com`, `lead https://…`, a file, or a file with a line: `leads.csv:17`. */
  where: string
  /** The setting or field: `fsbos[3].price`; empty for the whole. */
  path: string
  /** What is wrong, without a full stop. Behind a path it goes on: `is not set`. */
  what: string
  /** What to do, in whole sentences. */
  toDo?: string | undefined
  /** For a headline: it completes `Somebody should look at …`. */
  about?: string
}

/** A finding of a source that adds the rest. */
export type Found = Pick<Finding, 'level' | 'what'> & Partial<Finding>

/** Findings one after the other, so that memory stays bounded. */
export type Findings = AsyncGenerator<Finding, void, undefined>

/** Messages of errors come with their full stop. */
const found =
  (level: Level) =>
  (what: string, toDo?: string, path = ''): Found => ({ level, path, what: what.replace(/\.$/, ''), toDo })
export const problem = found('problem')
export const note = found('note')

/** The words of a finding, wherever it is shown: what is wrong, then what to do. */
export const sentenceOf = ({ path = '', what, toDo }: Found): string =>
  `${path === '' ? '' : `${path} `}${what}.${toDo ? ` ${toDo}` : ''}`

/** A finding as `--json` has it (contract 3). */
export const toFindingLine = ({ level, code, where, path, what, toDo }: Finding) => ({
  ...{ type: level, code, where, path, message: what },
  ...(toDo !== undefined && { hint: toDo }),
})

/** What to do about a user or query that an import would not have written so. */
export const importAgain = 'Import the user again with `leadpush users import`.'
