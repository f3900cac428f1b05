/**
 * The one error class of leadpush: expected trouble that ends a command, with a sentence for the person who must act. Outcomes
 * that end no command (a rejected record, a failed attempt) are values, not errors.
 */

/**
 * - `usage`: wrong arguments or settings, or a named thing that does not exist; nothing was done (exit 2)
 * - `database`: PostgreSQL cannot be reached or used (exit 3)
 * - `failed`: it ran, and did not succeed (exit 1)
 */
export type ErrorCode = 'usage' | 'database' | 'failed'

export class LeadpushError extends Error {
  override readonly name = 'LeadpushError'
  readonly code: ErrorCode
  /** What to do about it, a sentence. */
  readonly hint: string | undefined

  constructor(code: ErrorCode, message: string, options: { hint?: string; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.hint = options.hint
  }
}

/** Wrong arguments or settings; `hint` says what to do. */
export const usageError = (message: string, hint?: string): LeadpushError =>
  new LeadpushError('usage', message, hint === undefined ? {} : { hint })

/** The message of anything that was thrown, on one line. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ')
  const text = error instanceof Error ? error.message : String(error)
  return text.replace(/\s+/g, ' ').trim()
}

/** The `code` that Node.js, pg and undici put on their errors. */
export function codeOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code === 'string') return code
  if (error instanceof AggregateError) return codeOf(error.errors[0])
  return undefined
}

/** `['fsbos', 3, 'price']` as `fsbos[3].price`. */
export function formatPath(path: readonly PropertyKey[]): string {
  let text = ''
  for (const step of path) text += typeof step === 'number' ? `[${step}]` : `${text === '' ? '' : '.'}${String(step)}`
  return text
}
