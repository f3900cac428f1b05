/** `leadpush explain`: why a listing was, or was not, sent to a user. */

import type { Command } from 'commander'
import { formatCount, timeFormat } from '../../base/amounts.ts'
import type { Explanation } from '../../inspect/explain/explain.ts'
import { type Act, type ExitCode, inShort, settingsSource, withDatabase } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { paint } from '../painted.ts'
import type { Told } from './view.ts'

interface ExplainOptions {
  user: string
  json?: true
}

/** The most queries, matching ones first, deliveries and triggers that are printed without --json. */
const shownMax = 50

export function addExplain(program: Command, act: Act): void {
  program
    .command('explain')
    .description(
      'Tell why a listing was, or was not, sent to a user: queries, distance, rank, age, deliveries, triggers.',
    )
    .argument('<href>', 'the URL of the listing, as it was imported')
    .requiredOption('--user <email>', 'the user who got the listing, or should have')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      `
Examples:
  leadpush explain --user user@example.com https://listings.example/1
  leadpush explain --user user@example.com https://listings.example/1 --json

--json prints {"type":"explanation","user","href","period","answer"} with what
the answer rests on: "subscribed", "servedAt", "owed", "held"; "postalCode",
"importedAt" (null: long ago), "seenAt", "ageSeconds", "deliverableUntil",
"tooOld", "gone", "sources" (each with "goneAt": null while it has the listing);
"queries", each with "matches", "distanceMiles", "words", "rank", "matching"
(null: more than "counted" newest);
"planned" (the query that brings it, and the part); "deliveries" that held it,
each with "changed", the fields that have changed since, and "attemptLog";
"untold"; "triggers", one for each hook of the user and each trigger that it
asked for, with "status" (due, failing, dropped, abandoned, not due), "at",
"reason".`,
    )
    .action(act(explainListing))
}

async function explainListing(io: CommandIo, href: string, { user, json }: ExplainOptions): Promise<ExitCode> {
  const { readSettings } = await import('../../base/config.ts')
  const settings = readSettings(
    ['databaseUrl', 'home', 'timeZone', 'maxLeadAgeMs', 'sameHouse', 'guard', 'keepAnswers', 'logFormat'],
    settingsSource(io),
  )
  return await withDatabase(io, settings, inShort, async ({ db }) => {
    const { rideOut } = await import('../../db/away.ts')
    const { explain } = await import('../../inspect/explain/explain.ts')
    const { tell } = await import('./view.ts')
    const explanation = await rideOut(() => explain(db, { email: user, href }, settings))
    const told = tell(explanation, settings.maxLeadAgeMs, timeFormat(settings.timeZone))
    if (json) await io.out.json(toLine(explanation, told.answer))
    else await writeTold(io, told)
    return 0
  })
}

function toLine({ user, href, period, deliveries, ...facts }: Explanation, answer: string): object {
  const shown = deliveries.map(({ userId: _, email: __, ...delivery }) => delivery)
  return { type: 'explanation', user, href, period, answer, ...facts, deliveries: shown }
}

async function writeTold(io: CommandIo, { answer, user, listing, queries, deliveries, triggers }: Told) {
  await io.out.line(paint('bold', answer), '', user, listing)
  for (const [title, sentences] of [
    ['Queries', queries],
    ['Deliveries', deliveries],
    ['Triggers', triggers],
  ] as const) {
    if (sentences.length > 0) await io.out.line('', paint('dim', title))
    for (const sentence of sentences.slice(0, shownMax)) await io.out.line(sentence)
    const more = sentences.length - shownMax
    if (more > 0) await io.out.line(`… and ${formatCount(more)} more: --json shows all.`)
  }
}
