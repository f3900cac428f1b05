/** Texts that people and programs write where they know nothing (contract 4.18): none is a contact, and an import proposes `--null` for them. */
import { plural } from '../base/amounts.ts'
import { quoteWord } from '../base/shell-word.ts'

const form =
  /^\s*(?:n\/a|n\.a\.|none|null|nil|undefined|unknown|tba|tbd|not (?:applicable|available|given|known|provided|specified)|-+|\?+)\s*$/i
const charsMax = 20

export const isPlaceholder = (value: unknown): value is string =>
  typeof value === 'string' && value.length <= charsMax && form.test(value)

/** One may be meant; of so many on none is. */
const valuesMin = 2

/** Counts them in a file, in any case. */
export class Placeholders {
  private readonly counts = new Map<string, { text: string; count: number }>()

  add(value: string): void {
    const text = value.trim()
    const key = text.toLowerCase()
    const known = this.counts.get(key)
    if (known) known.count++
    // a sign alone would look like an option
    else if (/\w/.test(text)) this.counts.set(key, { text, count: 1 })
  }

  get notes(): string[] {
    return [...this.counts.values()]
      .filter(({ count }) => count >= valuesMin)
      .map(
        ({ text, count }) => `${plural(count, 'value')} ${text}: if that means unknown, add --null ${quoteWord(text)}`,
      )
  }
}
