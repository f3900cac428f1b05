/** `leadpush prune`. */
import { describe, dryRun, jsonObject, option } from '../describe.ts'

export const prune = describe({
  name: 'prune',
  about: 'Delete old deliveries, stale listings and their data; never what is still owed.',
  options: [
    option(
      '--older-than <duration>',
      'the age from which data are deleted: a number and a unit, such as 90d',
    ).makeOptionMandatory(),
    dryRun('delete nothing; show what would be deleted'),
    jsonObject(),
  ],
  help: `
Examples:
  leadpush prune --older-than 90d        for cron, monthly
  leadpush prune --older-than 90d --dry-run

Listings that were seen within LEADPUSH_MAX_LEAD_AGE stay, and so do the records
that keep a user from a second weekly delivery. At the end it rebuilds the
indexes of tables that lost half of their rows. It may run during pushes and
imports.`,
  settings: ['maxLeadAgeMs'],
  database: 'works',
  work: async () => (await import('../prune.ts')).runPrune,
})
