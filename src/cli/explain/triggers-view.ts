/** The state of a listing's triggers, in a sentence for each hook and kind. Pure. */
import { plural } from '../../base/amounts.ts'
import { leadsPerHookMax } from '../../base/limits.ts'
import type { ExplainedTrigger } from '../../inspect/explain/triggers.ts'
import type { Kind } from '../../triggers/kinds/kind.ts'
import { kinds } from '../../triggers/kinds/kinds.ts'

type Time = (at: Date) => string

const waitsForLead = ({ fate }: Kind) => fate === undefined

function tellStatus(told: ExplainedTrigger, time: Time, waits: boolean): string {
  const { hook, at, attempts, nextAt, error, offSince } = told
  const { looked, never } = kinds[told.trigger].words
  const on = at === null ? '' : ` on ${time(at)}`
  const when = nextAt === null ? 'the next `leadpush trigger` sends it' : `it is sent from ${time(nextAt)} on`
  const next = waits && waitsForLead(kinds[told.trigger]) ? 'it waits until an import brings the listing again' : when
  const again = `\`leadpush trigger --again --hook ${hook}\` sends it`
  switch (told.status) {
    case 'due':
      return `due: ${next}`
    case 'failing':
      return `due, and ${plural(attempts, 'attempt')} failed (${error}): ${next}`
    case 'dropped':
      return `dropped${on}, beyond the ${leadsPerHookMax} newest of one run: ${again}`
    case 'abandoned':
      return offSince === null
        ? `abandoned${on}, after the last attempt failed: ${again}`
        : `kept${on}, since the hook is switched off: ${again}, and subscribing its URL switches it on`
  }
  switch (told.reason) {
    case 'not looked at':
      return `not due yet: the next \`leadpush trigger\` looks at ${looked}`
    case 'nothing new':
      return `not due: ${never}`
    default:
      return (
        'nothing is due any more: it was delivered, or, when it was looked at, it matched none of the queries, was not live, or told ' +
        'nothing new'
      )
  }
}

/** `waits`: whether no source has the listing any more, or no import had it for too long. */
export const tellTrigger = (told: ExplainedTrigger, time: Time, waits: boolean): string =>
  `${told.trigger}, hook ${told.hook} of integration ${told.integration}: ${tellStatus(told, time, waits)}.`
