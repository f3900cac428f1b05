/** The owner of a file: a file that another user put into a shared folder is not obeyed, and gets no secrets. */
import type { Stats } from 'node:fs'

/** Whether a file, or a link, belongs to root or to the user of this process; true if the system knows no users. */
export const isOwnFile = ({ uid }: Pick<Stats, 'uid'>, own = process.geteuid?.()): boolean =>
  own === undefined || uid === 0 || uid === own
