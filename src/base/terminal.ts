/**
 * What the environment says about the terminal, and whether it may name a format for the log. Every start of the program loads
 * this file, and many need no settings: it is small and apart from them.
 */
import { existsSync } from 'node:fs'

/** Neither colour nor motion is wanted. */
export const isPlain = (): boolean => Boolean(process.env.NO_COLOR) || Boolean(process.env.CI)

/** Whether the settings must be read to know the log's format. */
export const mayNameLogFormat = (): boolean =>
  Boolean(process.env.LEADPUSH_LOG_FORMAT) || Boolean(process.env.LEADPUSH_LOG_FORMAT_FILE) || existsSync('.env')

/** Shells put the program they started into `_`, which child processes may inherit. */
export const isNamedNohup = (): boolean => /(^|\/)nohup$/.test(process.env._ ?? '')
