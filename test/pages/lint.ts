/** `npm run lint` holds the pages: to each other, to the program, to the forms that CONTRIBUTING.md asks for. Needs no database. */
import { checkCalls, checkNames, checkSettingNames } from './checks/calls.ts'
import { checkClauses } from './checks/clauses.ts'
import { checkLimits, checkSentences } from './checks/figures.ts'
import type { Finding } from './checks/finding.ts'
import { checkGenerated } from './checks/generated.ts'
import { checkCells, checkWidth } from './checks/layout.ts'
import { checkLinks, checkNamedFiles, checkPackedLinks } from './checks/links.ts'
import {
  checkChangelog,
  checkContract,
  checkLibraries,
  checkMetrics,
  checkScripts,
  checkTypes,
} from './checks/names.ts'

const checks: (() => Iterable<Finding> | AsyncIterable<Finding>)[] = [
  checkWidth, checkCells, checkLinks, checkNamedFiles, checkPackedLinks, checkGenerated, checkCalls, checkNames, checkSettingNames,
  checkLimits, checkSentences, checkLibraries, checkScripts, checkContract, checkTypes, checkMetrics,
  checkChangelog, checkClauses,
] // biome-ignore format: a list

for (const check of checks) {
  for await (const { file, line, text } of check()) {
    console.error(`${file}${line === undefined ? '' : `:${line}`} ${text}`)
    process.exitCode = 1
  }
}
