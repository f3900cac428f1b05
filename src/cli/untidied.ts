/** The words for tables that an erasure could not tidy (contract 4.19). */

/** What is wrong and what to do. */
export const tellUntidied = (tables: readonly string[]): string =>
  `What was erased can still be read in the files of PostgreSQL: another session locks ${tables.join(', ')}. Once it has ended, run in psql: vacuum ${tables.join(', ')}`
