/** Why a listing was, or was not, sent to a user. */

import { timeFormat } from '../../base/amounts.ts'
import { spellOut } from '../../base/printable.ts'
import { type Explanation, explain } from '../../inspect/explain/explain.ts'
import type { CommandIo } from '../command-io.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { paint } from '../painted.ts'
import { type Told, tell } from './view.ts'

/** The most queries, matching ones first, and deliveries, that are printed without --json. */
const shownMax = 50

type Settings = 'timeZone' | 'maxLeadAgeMs' | 'sameHouse' | 'guard' | 'keepAnswers'

export async function explainListing(
  { io, open }: AtDatabase<Settings>,
  href: string,
  { user }: { user: string },
): Promise<ExitCode> {
  return await open(async ({ db }, settings) => {
    const explanation = await explain(db, { email: user, href }, settings)
    if (explanation.href !== href) io.log.info(`Taken: the listing ${spellOut(explanation.href)}`)
    const told = tell(explanation, settings.maxLeadAgeMs, timeFormat(settings.timeZone))
    await io.out.result(toLine(explanation, told.answer), () => writeTold(io, told))
    return 0
  })
}

function toLine({ user, href, period, deliveries, ...facts }: Explanation, answer: string): object {
  const shown = deliveries.map(({ userId: _, email: __, ...delivery }) => delivery)
  return { type: 'explanation', user, href, period, answer, ...facts, deliveries: shown }
}

async function writeTold(io: CommandIo, { answer, user, listing, queries, deliveries }: Told) {
  await io.out.line(paint('bold', answer), '', user, listing)
  for (const [title, sentences] of [
    ['Queries', queries],
    ['Deliveries', deliveries],
  ] as const) {
    if (sentences.length > 0) await io.out.line('', paint('dim', title))
    for (const sentence of sentences.slice(0, shownMax)) await io.out.line(sentence)
    await io.out.more(sentences.length - shownMax)
  }
}
