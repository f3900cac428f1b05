/** What `validate` finds: where it is, what is wrong there, and what to do about it. */

export interface Finding {
  /** A note is worth knowing, but nothing is wrong; what is skipped cannot be looked at yet. */
  type: 'problem' | 'note' | 'skipped'
  /** The check that found it, of those of the machine: it stays the same when words change. */
  code?: string
  /** `settings`, `user a@example.com`, `lead https://…`, a file, or a file with a line: `leads.csv:17`. */
  where: string
  /** The setting or field: `fsbos[3].price`; empty for the whole. */
  path: string
  message: string
  /** What to do, a sentence. */
  hint?: string
}

/** Findings one after the other, so that memory stays bounded. */
export type Findings = AsyncGenerator<Finding, void, undefined>

/** What to do about a user or query that an import would not have written so. */
export const importAgain = 'Import the user again with `leadpush users import`.'
