/** What became of a listing's triggers, in a sentence for each hook and kind. Pure. */
import { plural } from '../../base/amounts.ts'
import { leadsPerHookMax, lostKeptDays } from '../../base/limits.ts'
import type { ExplainedTrigger } from '../../inspect/explain/triggers.ts'

type Time = (at: Date) => string

function tellStatus(told: ExplainedTrigger, time: Time, waits: boolean): string {
  const { trigger, hook, at, attempts, nextAt, error, offSince } = told
  const on = at === null ? '' : ` on ${time(at)}`
  const since = at === null ? '' : ` since ${time(at)}`
  const when = nextAt === null ? 'the next `leadpush trigger` sends it' : `it is sent from ${time(nextAt)} on`
  const next = waits ? 'it waits until an import brings the listing again' : when
  const again = `\`leadpush trigger --again --hook ${hook}\` sends it`
  switch (told.status) {
    case 'due':
      return `due${since}: ${next}`
    case 'failing':
      return `due${since}, and ${plural(attempts, 'attempt')} failed (${error}): ${next}`
    case 'delivered':
      return `delivered: it became due${on}, and the hook took it`
    case 'dropped':
      return `dropped${on}, beyond the ${leadsPerHookMax} newest of one run: ${again}`
    case 'abandoned':
      return offSince === null
        ? `abandoned${on}, after the last attempt failed: ${again}`
        : `kept${on}, since the hook is switched off: ${again}, and subscribing its URL switches it on`
  }
  const what = trigger === 'new_lead' ? 'the listing' : 'its price'
  switch (told.reason) {
    case 'before the hook':
      return 'not due: the listing was imported before the hook was registered'
    case 'not looked at':
      return `not due yet: the next \`leadpush trigger\` looks at ${what}`
    case 'unchanged':
      return 'not due: no other price is known than the one when the hook was registered, or last looked at'
    case 'not kept':
      return `no longer known: what was due is kept for ${lostKeptDays} days`
    default:
      return (
        'not due: when it was looked at it matched none of the queries, was gone, or was not seen for too long' +
        (trigger === 'new_lead' ? '' : ', or its price was unknown, or what it had been at the look before')
      )
  }
}

/** `waits`: whether all sources of the listing lack it, or it was not seen for too long. */
export const tellTrigger = (told: ExplainedTrigger, time: Time, waits: boolean): string =>
  `${told.trigger}, hook ${told.hook} of integration ${told.integration}: ${tellStatus(told, time, waits)}.`
