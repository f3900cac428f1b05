/** Parses a record of a users file (contract 3, 4.11), or tells its first problem. No message holds a receiver key. */

import * as z from 'zod'
import { formatPath } from '../base/errors.ts'
import { emailCharsMax, queriesPerUserMax, receiverKeyCharsMax } from '../base/limits.ts'
import { isPlainToSee, notPlainToSee, withoutUnseen } from '../base/printable.ts'
import { isPostalCode } from '../places/postal-key.ts'
import type { IgnoredFields } from '../records/ignored-fields.ts'
import { findSameHash, type Query, queryHash, queryTypeSchema, queryValueSchema, radiusSchema } from './query.ts'

/** What a record says of a user; a field that it does not have is absent. */
export interface UserPatch {
  /** In lower case. */
  email: string
  receiverApiKey?: string
  subscribed?: boolean
  queries?: Query[]
}

/** Catches typing errors, and formulas of a spreadsheet; whether the mailbox exists is not checked. */
const emailPattern = /^(?!=)[^\s@\p{Cc}\p{Cs}"(),:;<>[\]\\]+@[\p{L}\p{N}](?:[\p{L}\p{N}\p{M}.-]*[\p{L}\p{N}\p{M}])?$/u

/** The form in which an e-mail is stored (contract 4.18): in lower case, without what nobody sees and blanks around it. */
export const normaliseEmail = (email: string): string => withoutUnseen(email).trim().toLowerCase()

/** An e-mail address, which it turns into its normal form. */
export const emailSchema = z
  .string({ error: 'must be text' })
  .overwrite(normaliseEmail)
  .refine(isPlainToSee, notPlainToSee)
  .refine((text) => emailPattern.test(text), { error: 'must be an e-mail address' })
  .refine((text) => text.length <= emailCharsMax || [...text.slice(0, 2 * emailCharsMax + 1)].length <= emailCharsMax, {
    error: `must have at most ${emailCharsMax} characters`,
  })

const keyRule = { error: `must be 1 to ${receiverKeyCharsMax} visible ASCII characters, without spaces` }

/** The key that the receiver gave a user; its messages do not hold the key. */
export const receiverKeySchema = z.string(keyRule).regex(new RegExp(`^[!-~]{1,${receiverKeyCharsMax}}$`), keyRule)

/** Makes null count as absent, as in a lead. */
const orUnknown = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => (value ?? undefined) as z.output<T> | undefined)

/** Without a type a value that is a postal code is a `zipcode`, any other a `text` (contract 3). */
export const typeOf = (value: string): Query['type'] => (isPostalCode(value) ? 'zipcode' : 'text')

export const querySchema = z
  .object(
    {
      type: orUnknown(queryTypeSchema),
      value: queryValueSchema,
      // JSON, and so the hash, writes -0 as 0
      radius: radiusSchema.nullish().transform((radius) => (radius ?? 0) + 0),
    },
    { error: 'must be an object with value, radius and, where it is not to be told by the value, type' },
  )
  .transform(({ type, value, radius }): Query => ({ type: type ?? typeOf(value), value, radius }))

/** `where` says which of them it is: `query 3`. */
const describeQuery = (where: string, { type, value, radius }: Query) =>
  `${where} (${type} ${JSON.stringify(value)}, radius ${JSON.stringify(radius)})`

/** What is wrong with two queries that differ and have the same hash (contract 4.11), each with where it is. */
export const describeSameHash = (earlier: readonly [string, Query], later: readonly [string, Query]) =>
  `${describeQuery(...earlier)} and ${describeQuery(...later)} are the same query to the receiver: value and radius together read alike`

export const tooManyQueries = `must be at most ${queriesPerUserMax} queries`

const queriesSchema = z.array(querySchema, { error: 'must be a list of queries' }).superRefine((queries, context) => {
  const [earlier, later] = findSameHash(queries) ?? []
  if (earlier !== undefined && later !== undefined) {
    const named = (at: number) => [`query ${at + 1}`, queries[at] as Query] as const
    context.addIssue({ code: 'custom', path: [later], message: describeSameHash(named(earlier), named(later)) })
  } else if (queries.length > queriesPerUserMax && new Set(queries.map(queryHash)).size > queriesPerUserMax) {
    // the same query twice is one
    context.addIssue({ code: 'custom', message: tooManyQueries })
  }
})

const userPatchSchema = z.object({
  email: emailSchema,
  receiverApiKey: orUnknown(receiverKeySchema),
  subscribed: orUnknown(z.boolean({ error: 'must be true or false' })),
  queries: orUnknown(queriesSchema),
})

const userFields = new Set(['email', 'receiverApiKey', 'subscribed', 'queries'])
const queryFields = new Set(['type', 'value', 'radius'])

function countIgnored(value: object, ignored: IgnoredFields): void {
  for (const key of Object.keys(value)) if (!userFields.has(key)) ignored.add(key)
  const { queries } = value as { queries?: unknown }
  if (!Array.isArray(queries)) return
  const names = new Set<string>()
  for (const query of queries) {
    if (typeof query !== 'object' || query === null) continue
    for (const key of Object.keys(query)) if (!queryFields.has(key)) names.add(key)
  }
  for (const name of names) ignored.add(`queries.${name}`)
}

/** A parsed record, or its first problem. */
export type ParsedUser = { user: UserPatch } | { path: string; message: string }

/**
 * Parses a record. `path` of a problem is `email`, `queries[2].radius`, or '' for the record as a whole. Unknown fields are
 * counted in `ignored`.
 */
export function parseUser(value: unknown, ignored: IgnoredFields): ParsedUser {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { path: '', message: 'is no JSON object' }
  }
  countIgnored(value, ignored)
  const parsed = userPatchSchema.safeParse(value)
  if (parsed.success) return { user: parsed.data as UserPatch }
  const issue = parsed.error.issues[0]
  const path = formatPath(issue?.path ?? [])
  const isMissing =
    (issue?.path ?? []).reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown>)?.[key], value) === undefined
  return { path, message: isMissing ? 'is missing' : (issue?.message ?? 'is wrong') }
}
