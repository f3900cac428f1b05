/** The table of trouble names the commands that the program advises. */
import { adviseOn, type Troubles } from '../../../src/inspect/status/advise-on.ts'
import { findRows, manual, spansOf } from '../../support/markdown.ts'
import { commandsOf } from '../../support/steps.ts'
import type { Finding } from './finding.ts'

/** Messages, and what the program knows when it prints them. */
const known: [message: RegExp, troubles: Troubles][] = [
  [/^The receiver is down/, { receiver: { is: 'down' }, waits: true }],
  [/^held: the receiver refuses/, { receiver: { is: 'refuses', status: 401 }, waits: true }],
  [/^held: none of the last/, { receiver: { is: 'empty' }, waits: true, doubtful: 20 }],
  [/^HTTP 401/, { failed: 1 }],
  [/^HTTP 413/, { failed: 1 }],
  [/^the proxy was not reached/, { failed: 1 }],
  [/did not come in time/, { unknown: 1 }],
  [/^… for an attempt, and no process/, { waits: true }],
  [/^held: … instead of/, { held: 'week' }],
  [/^The last run used the time zone/, { held: 'zone' }],
]

export function* checkAdvice(): Iterable<Finding> {
  const file = 'docs/troubleshooting.md'
  const table = findRows(manual, 'it prints')
  for (const [message, troubles] of known) {
    const row = table.find(([symptom = '']) => spansOf(symptom).some((span) => message.test(span)))
    if (!row) {
      yield { file, text: `add a row for ${message}` }
      continue
    }
    const named = spansOf(row[2] ?? '').map((span) => span.replace(/^leadpush /, '')).filter((span) => span.startsWith('push --'))
    const advised = commandsOf(adviseOn(troubles))
    for (const command of advised.filter((one) => !named.includes(one))) yield { file, text: `${message}: say \`leadpush ${command}\`` }
    for (const command of named.filter((one) => !advised.includes(one)))
      yield { file, text: `${message}: the program does not advise \`leadpush ${command}\`` }
  }
} // biome-ignore format: dense
