/**
 * Reads from the environment what the terminal can do, and whether it may name a format for the log. Every start of the program loads
 * this file, and many need no settings: it is small and apart from them.
 */
import { existsSync } from 'node:fs'
import { join } from 'node:path'

type Environment = Readonly<Record<string, string | undefined>>

/** Neither colour nor motion is wanted. */
export const isPlain = ({ NO_COLOR, CI }: Environment): boolean => Boolean(NO_COLOR) || Boolean(CI)

/** Whether the settings must be read to know the log's format; `folder` may hold a `.env`. */
export const mayNameLogFormat = (env: Environment, folder: string): boolean =>
  Boolean(env.LEADPUSH_LOG_FORMAT) || Boolean(env.LEADPUSH_LOG_FORMAT_FILE) || existsSync(join(folder, '.env'))

/** Shells put the program they started into `_`, which child processes may inherit. */
export const isNamedNohup = (env: Environment): boolean => /(^|\/)nohup$/.test(env._ ?? '')
