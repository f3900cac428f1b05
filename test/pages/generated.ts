/**
 * The parts of pages that the program's own data write: what stands between `<!-- npm run pages: NAME -->` and `<!-- end -->`.
 * `npm run lint` finds those that are stale.
 */

import { formatAlarms } from './alarms.ts'
import { formatCommands } from './commands.ts'
import { formatJsonFields, formatJsonLines } from './json.ts'
import { formatChecks } from './machine-checks.ts'
import { formatSettings } from './settings.ts'
import { formatPushTrouble, formatReceiverTrouble } from './trouble.ts'
import { formatTypes } from './types.ts'
import { formatDoubtfulNumbers, formatNumbers, formatPostalCodes } from './values.ts'
import { wrapMarkdown } from './wrap.ts'

const parts: Record<string, () => string> = {
  commands: formatCommands,
  settings: formatSettings,
  types: formatTypes,
  numbers: formatNumbers,
  'doubtful-numbers': formatDoubtfulNumbers,
  'json-lines': formatJsonLines,
  'json-fields': formatJsonFields,
  alarms: formatAlarms,
  checks: formatChecks,
  'receiver-trouble': formatReceiverTrouble,
  'push-trouble': formatPushTrouble,
  'postal-codes': formatPostalCodes,
}

const part = /(<!-- npm run pages: ([\w-]+) -->\n)[\s\S]*?(\n<!-- end -->)/g

/** The page with its generated parts written anew. */
export const fillPage = (page: string): string =>
  page.replace(part, (_, begin: string, name: string, end: string) => {
    const format = parts[name]
    if (format === undefined) throw new Error(`there is no generated part ${name}: it is one of ${Object.keys(parts)}`)
    return `${begin}\n${wrapMarkdown(format(), 140)}\n${end}`
  })
