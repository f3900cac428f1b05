/** Words of a command that a message prints, for a person to paste into a shell. */

/** A word for a shell, quoted if necessary: whatever the text is, it stays one word. */
export const quoteWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
