/** `leadpush explain`. */
import { argument, describe, jsonObject, option } from '../describe.ts'

export const explain = describe({
  name: 'explain',
  about: 'Say why a listing was, or was not, sent to a user: queries, distance, rank, age, deliveries.',
  arguments: [argument('<href>', 'the URL of the listing, as it was imported')],
  options: [
    option('--user <email>', 'the user who got the listing, or should have').makeOptionMandatory(),
    jsonObject(),
  ],
  help: `
Examples:
  leadpush explain --user user@example.com https://listings.example/1
  leadpush explain --user user@example.com https://listings.example/1 --json

--json prints {"type":"explanation","user","href","period","answer"} with the
facts: "subscribed", "servedAt", "owed", "held"; "postalCode",
"importedAt" (null: long ago), "seenAt", "ageSeconds", "deliverableUntil",
"tooOld", "gone", "sources" (each with "goneAt": null while it has the listing);
"queries", each with "matches", "distanceMiles", "words", "rank", "matching"
(null: more than "counted" newest);
"planned" (the query that brings it, and the part); "deliveries" that held it,
each with "changed", the fields that have changed since, and "attemptLog";
"untold".`,
  settings: ['timeZone', 'maxLeadAgeMs', 'sameHouse', 'guard', 'keepAnswers'],
  database: 'reads',
  work: async () => (await import('../explain/explain.ts')).explainListing,
})
