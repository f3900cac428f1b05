/**
 * Tells a CSV file without a header line by its first line. No message then shows the texts of that line, since they may be contacts
 * and receiver keys (contract 4.18).
 */

/** An e-mail address, a URL, a telephone number or a long number: none of them is the name of a column. */
const isValue = (name: string) =>
  /@|:\/\//.test(name) || /\d(?:[\s().+-]*\d){6}/.test(name) || (/^[^\p{L}]+$/u.test(name) && /\d{5}/.test(name))

/** Whether `names`, which were read as those of columns, are the values of a record. */
export const looksLikeRecord = (names: readonly string[]): boolean => names.some(isValue)

/** What to say of such a file. */
export const noHeader = 'its first line looks like a record, not like a header'
