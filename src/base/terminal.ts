/**
 * What the environment says of the terminal, and whether it may name a format for the log. Apart from the settings, and as
 * small as it is, because every start of the program needs it and most need no settings.
 */
import { existsSync } from 'node:fs'

/** Neither colour nor motion is wanted. */
export const isPlain = (): boolean => Boolean(process.env.NO_COLOR) || Boolean(process.env.CI)

/** Whether the settings must be read to know the log's format. */
export const mayNameLogFormat = (): boolean =>
  Boolean(process.env.LEADPUSH_LOG_FORMAT) || Boolean(process.env.LEADPUSH_LOG_FORMAT_FILE) || existsSync('.env')

/** Shells name in `_` what they started, and whatever that starts may inherit it. */
export const isNamedNohup = (): boolean => /(^|\/)nohup$/.test(process.env._ ?? '')
