/** Figures that pages repeat: each is the program's. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { definitions } from '../../../src/base/config.ts'
import * as limits from '../../../src/base/limits.ts'
import { packageRoot } from '../../../src/base/package-root.ts'
import { weeksShown } from '../../../src/inspect/report/figures/weeks.ts'
import { contract, findTable, manual, readDocument } from '../../support/markdown.ts'
import type { Finding } from './finding.ts'

const number = (value: number) => value.toLocaleString('en-US')
const minutes = (ms: number) => ms / 60_000
const kib = (bytes: number) => bytes / 1024
const mib = (bytes: number) => bytes / 1024 / 1024
const inPauses = limits.triggerPausesMs.map((ms) => (ms < 3_600_000 ? `${minutes(ms)} m` : `${minutes(ms) / 60} h`))
const { engines } = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8'))

/** What the row of each limit says. */
const limitsOf: Record<string, string[]> = {
  'leads a query': [number(limits.leadsPerQueryMax)],
  'bytes a request': [number(limits.bodyBytesMax)],
  'attempts a delivery': [number(limits.attemptsMax)],
  'receiver key': [`1 to ${limits.receiverKeyCharsMax} visible`],
  queries: [`${number(limits.queriesPerUserMax)} a user`, `${limits.queryValueCharsMax} characters`, `0 to ${limits.radiusMilesMax} miles`],
  'a record of an import': [`${mib(limits.recordBytesMax)} MiB`, `nested ${limits.recordDepthMax} deep`, `\`href\` ${number(limits.hrefBytesMax)} bytes`, `e-mail ${limits.emailCharsMax} characters`],
  hooks: [`${limits.hooksPerIntegrationMax} an integration`, `${number(limits.hookUrlCharsMax)} characters`],
  'API key': [`${limits.apiKeyCharsMin} to ${limits.apiKeyCharsMax} visible`],
} // biome-ignore format: a list

/** Sentences of the pages and of the contract. */
const sentences = [
  `the last ${limits.alikeInARow} (with fewer users: all of them, and at least ${limits.alikeMin})`,
  `one attempt after ${limits.outagePauseMs / 1_000} s, then after twice as long each time, up to ${minutes(limits.outagePauseMsMax)} minutes`,
  `\`LEADPUSH_DATABASE_AWAY\` (${minutes(limits.databaseAwayMsDefault)} minutes)`,
  `a longer \`Retry-After\` is honoured, up to ${minutes(limits.retryAfterMsMax)} minutes`,
  `finished in the last ${limits.monitoredRunDays} days`,
  `${limits.comparedDays} days of runs and imports`,
  `${weeksShown} weeks side by side`,
  `the median of up to ${limits.comparedWeeksMax} weeks before, where that median is ${number(limits.comparedListingsMin)} listings or more`,
  `had ${limits.comparedLeadsMin} leads or more, and this one would have ${100 - 100 / limits.userFall} % fewer`,
  `A hook gets the ${limits.leadsPerHookMax} newest of a run, ${limits.triggersPerSecondMax} a second and ${limits.triggersAtOncePerHookMax} at once`,
  `A run ends after ${minutes(limits.triggerRunMsMax)} minutes at most`,
  `Each ping takes ${limits.pingTimeoutMs / 1_000} s at most`,
  `with one \`DELETE\` of its URL (${limits.hookRemovalTimeoutMs / 1_000} s, best effort)`,
  `${limits.triggersPerHostSecondMax} a second to one host`,
  `tried again after ${inPauses.slice(0, -1).join(', ')} and ${inPauses.at(-1)}`,
  `bounds a body at ${kib(limits.requestBodyBytesMax)} KiB`,
  `\`${limits.neverValidReceiverKey}\` is the wrong key`,
  `Node.js (${engines.node.replace('>=', '')} or newer)`,
]

const sentencesOfSecurity = [
  `up to ${limits.hooksPerIntegrationMax} hooks of this integration`,
  `at most one a minute`,
  `after ${definitions.limitAddress.fallback} such answers a minute`,
  `A key has ${definitions.limitKey.fallback} requests a minute`,
  `bodies at ${kib(limits.requestBodyBytesMax)} KiB`,
  `${limits.triggersPerSecondMax} requests a second, ${limits.triggersAtOncePerHookMax} at once and ${limits.leadsPerHookMax} new ones a run`,
  `Records have at most ${mib(limits.recordBytesMax)} MiB and are nested at most ${limits.recordDepthMax} deep`,
  `At most ${kib(limits.responseBytesMax)} KiB of its answer are read`,
  `a \`Retry-After\` of at most ${minutes(limits.retryAfterMsMax)} minutes`,
]

export function* checkLimits(): Iterable<Finding> {
  const rows = Object.fromEntries(findTable(manual, 'limit').map(([name = '', value = '']) => [name, value]))
  for (const name of new Set([...Object.keys(limitsOf), ...Object.keys(rows)]))
    for (const part of limitsOf[name] ?? ['nothing: lint does not know this limit'])
      if (!rows[name]?.includes(part)) yield { file: 'the table of limits', text: `${name}: say ${part}` }
}

function* findLacking(file: string, prose: readonly string[], wanted: readonly string[]): Iterable<Finding> {
  const text = prose.join(' ').replace(/\s+/g, ' ')
  for (const sentence of wanted) if (!text.includes(sentence)) yield { file, text: `say "${sentence}"` }
}

export function* checkSentences(): Iterable<Finding> {
  yield* findLacking('docs', [...manual.prose, ...contract.prose], sentences)
  yield* findLacking('SECURITY.md', readDocument('SECURITY.md').prose, sentencesOfSecurity)
  if (limits.subscriptionPauseMs !== 60_000) yield { file: 'SECURITY.md', text: 'say how long a subscription pauses' }
}
