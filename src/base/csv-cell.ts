/** Cells of CSV that leadpush writes (RFC 4180). */

/** The text as a cell, with the same text when it is read. */
export const toCell = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)

/** For a spreadsheet: text that it would run as a formula begins with an apostrophe, which is no part of the text. */
export const toGuardedCell = (text: string): string => toCell(/^[=+\-@\t\r]/.test(text) ? `'${text}` : text)
