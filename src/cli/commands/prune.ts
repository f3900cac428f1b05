/** `leadpush prune`. */
import { describe, dryRun, jsonObject, option } from '../describe.ts'

export const prune = describe({
  name: 'prune',
  about: 'Delete old deliveries, stale listings and what only they needed; never what is still owed.',
  options: [
    option('--older-than <duration>', 'delete what is older: a number and a unit, such as 90d').makeOptionMandatory(),
    dryRun('delete nothing; tell what would be deleted'),
    jsonObject(),
  ],
  help: `
Examples:
  leadpush prune --older-than 90d        for cron, monthly
  leadpush prune --older-than 90d --dry-run

Listings that were seen within LEADPUSH_MAX_LEAD_AGE stay, and so does what
keeps a user from a second weekly delivery. At the end it rebuilds the indexes
of tables that lost half of their rows. It may run beside pushes and imports.`,
  settings: ['maxLeadAgeMs'],
  database: 'works',
  work: async () => (await import('../prune.ts')).runPrune,
})
