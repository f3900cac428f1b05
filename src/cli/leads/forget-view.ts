/** The output of `leads forget` for people. */

import { formatCount, plural } from '../../base/amounts.ts'
import type { Forgotten } from '../../upkeep/forget/forget.ts'
import type { Response } from '../../upkeep/forget/respond.ts'
import type { CommandIo } from '../command-io.ts'

type Fact = [name: string, text: string]

function describeList({ list }: Forgotten): Fact[] {
  if (list === undefined) return []
  const facts: Fact[] = [['read', `${plural(list.read, 'entry')}, ${formatCount(list.added)} of them new`]]
  if (list.removed > 0) facts.push(['removed', `${plural(list.removed, 'identifier')}: imports take them again`])
  return facts
}

function describeErased({ listings, redacted, versions }: Forgotten): Fact[] {
  const facts: Fact[] = []
  const kept = `with all that was kept of them (${plural(versions, 'version')})`
  if (listings > 0 || redacted === 0) facts.push(['erased', `${plural(listings, 'listing')}, ${kept}`])
  if (redacted > 0) {
    const without = listings > 0 ? 'without contacts' : `without contacts (${plural(versions, 'version')} erased)`
    facts.push(['redacted', `${plural(redacted, 'listing')}, kept ${without}`])
  }
  return facts
}

/** Reports the result of an erasure; for a dry run, the expected one. */
export async function tellForgotten(io: CommandIo, forgotten: Forgotten, dryRun: boolean): Promise<void> {
  const { newlyRefused, list, versions, triggers, ended, anew, underWay, sent } = forgotten
  if (dryRun) await io.out.line('A dry run: nothing was erased, and nothing is refused. Otherwise:')
  const refused = newlyRefused || list ? 'from now on, in every import' : 'as it was before'
  if (versions === 0) {
    await io.out.line('Nothing was found.')
    return await io.out.facts([...describeList(forgotten), ['refused', refused]])
  }
  const facts: Fact[] = [...describeList(forgotten), ...describeErased(forgotten), ['refused', refused]]
  if (triggers > 0) facts.push(['triggers', `${plural(triggers, 'trigger')} due for a hook ended`])
  if (ended > 0)
    facts.push([
      'ended',
      `${plural(ended, 'delivery')}: \`leadpush push --failed\` makes them anew without it (with --unknown: also where the first attempt may have arrived)`,
    ])
  if (anew > 0) facts.push(['anew', `${plural(anew, 'delivery')} without an attempt, made anew without it`])
  const least = sent.complete ? '' : 'at least '
  facts.push([
    'sent',
    `${least}${plural(sent.count, 'delivery')} had been sent with it; only the receiver can erase its copies`,
  ])
  await io.out.facts(facts)
  if (underWay > 0)
    await io.out.line(`${plural(underWay, 'request')} with it may still be under way in other processes.`)
}

/** A response for the operator to upload. */
export const tellResponse = ({ file, deleted, notFound }: Response): string =>
  `${file}: ${formatCount(deleted)} deleted, ${formatCount(notFound)} not found`
