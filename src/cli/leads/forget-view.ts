/** The output of `leads forget` for people. */

import { formatCount, plural } from '../../base/amounts.ts'
import type { Forgotten } from '../../upkeep/forget/forget.ts'
import type { Response } from '../../upkeep/forget/respond.ts'
import type { CommandIo } from '../command-io.ts'

/** Reports the result of an erasure; for a dry run, the expected one. */
export async function tellForgotten(io: CommandIo, forgotten: Forgotten, dryRun: boolean): Promise<void> {
  const { newlyRefused, list, listings, redacted, versions, triggers, ended, anew, underWay, sent } = forgotten
  if (dryRun) await io.out.line('A dry run: nothing was erased, and nothing is refused. Otherwise:')
  if (versions === 0) await io.out.line('Nothing was found.')
  const { read = 0, added = 0, removed = 0 } = list ?? {}
  const kept = `with all that was kept of ${listings === 1 ? 'it' : 'them'} (${plural(versions, 'version')})`
  const without = listings > 0 ? 'without contacts' : `without contacts (${plural(versions, 'version')} erased)`
  const isErased = versions > 0 && (listings > 0 || redacted === 0)
  const least = sent.complete ? '' : 'at least '
  await io.out.facts([
    list !== undefined && ['read', `${plural(read, 'entry')}, ${formatCount(added)} of them new`],
    removed > 0 && ['removed', `${plural(removed, 'identifier')}: imports take them again`],
    isErased && ['erased', `${plural(listings, 'listing')}, ${kept}`],
    redacted > 0 && ['redacted', `${plural(redacted, 'listing')}, kept ${without}`],
    (list === undefined || read > 0) && [
      'refused',
      newlyRefused || list ? `${removed > 0 ? 'the others ' : ''}from now on, in every import` : 'as it was before',
    ],
    triggers > 0 && ['triggers', `${plural(triggers, 'trigger')} due for a hook ended`],
    ended > 0 && [
      'ended',
      `${plural(ended, 'delivery')}: \`leadpush push --failed\` makes them anew without it (with --unknown: also where the first attempt may have arrived)`,
    ],
    anew > 0 && ['anew', `${plural(anew, 'delivery')} without an attempt, made anew without it`],
    versions > 0 && [
      'sent',
      `${least}${plural(sent.count, 'delivery')} had been sent with it; only the receiver can erase its copies`,
    ],
  ])
  if (underWay > 0)
    await io.out.line(`${plural(underWay, 'request')} with it may still be under way in other processes.`)
}

/** A response for the operator to upload. */
export const tellResponse = ({ file, deleted, notFound }: Response): string =>
  `${file}: ${formatCount(deleted)} deleted, ${formatCount(notFound)} not found`
