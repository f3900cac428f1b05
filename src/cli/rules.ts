/** Rules for options that go together. Breaking a rule is wrong usage, before anything is read or loaded. */
import type { Command } from 'commander'
import { listed } from '../base/amounts.ts'
import { usageError } from '../base/errors.ts'

interface Given {
  /** Whether the option was given; a default does not count. */
  has(flag: string): boolean
  /** How many arguments were given. */
  words: number
}

/** Throws `usage` if it is broken. */
export type Rule = (given: Given) => void

/** At most one of them. */
export const exclude =
  (flags: readonly string[], hint?: string): Rule =>
  ({ has }) => {
    const given = flags.filter(has)
    if (given.length > 1) throw usageError(`${listed(given)} exclude each other.`, hint)
  }

/** At least one of them; `none` asks for it. */
export const someOf =
  (flags: readonly string[], none: string, hint = `Give one of ${listed(flags, 'or')}.`): Rule =>
  ({ has }) => {
    if (!flags.some(has)) throw usageError(none, hint)
  }

/** An option of other tools: the error says what to do instead. */
export const refuses =
  (flag: string, message: string, hint: string): Rule =>
  ({ has }) => {
    if (has(flag)) throw usageError(message, hint)
  }

/** The option has no meaning without the other. */
export const goesWith =
  (flag: string, other: string, hint?: string): Rule =>
  ({ has }) => {
    if (has(flag) && !has(other)) throw usageError(`${flag} goes with ${other} only.`, hint)
  }

/** Throws `usage` for the first rule that the command, as it was given, breaks. */
export function checkRules(rules: readonly Rule[], command: Command): void {
  const has = (flag: string) => {
    const name = command.options.find(({ long }) => long === flag)?.attributeName() ?? ''
    return command.getOptionValueSourceWithGlobals(name) === 'cli'
  }
  for (const rule of rules) rule({ has, words: command.args.length })
}
