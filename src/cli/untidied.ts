/** The words for tables that an erasure could not tidy (contract 4.19). */
import type { Untidied } from '../db/tidy.ts'

/** What is wrong and what to do. */
export function tellUntidied(untidied: Untidied): string {
  const tables = [...untidied.keys()].join(', ')
  const whys = [...untidied].map(([table, why]) => `${table} (${why})`).join(', ')
  return `What was erased can still be read in the files of PostgreSQL, in ${whys}. Once that has ended, run in psql: vacuum ${tables}`
}
