/** `leadpush status`. */
import { describe, jsonLines, option } from '../describe.ts'
import { exclude, goesWith } from '../rules.ts'

export const status = describe({
  name: 'status',
  about: 'Show how the period and the last runs went, and what is left to do.',
  options: [
    option('--user <email>', 'the deliveries of one user, with their attempts'),
    option('--check', 'exit 1 if something is wrong: for a monitor'),
    option('--quiet', 'with --check: print only what is wrong'),
    jsonLines(),
  ],
  help: `
Examples:
  leadpush status
  leadpush status --user user@example.com
  leadpush status --check --quiet        for a monitor, once a day

Problems come first, with what to do. --check exits with 1 for each of these:
  deliveries   the receiver refuses all; some are stuck, failed or unknown
  users        some were left out, are held back, or half of them have no lead
  the week     no whole \`push --all\` finished in the last 8 days, or the
               database lost records of a push
  listings     no import for LEADPUSH_FEED_MAX_AGE, or none with one source
  platforms    triggers were abandoned, dropped or not sent; a hook failed for a
               day`,
  rules: [exclude(['--check', '--user']), goesWith('--quiet', '--check')],
  settings: ['timeZone', 'maxLeadAgeMs', 'feedMaxAgeMs', 'keepAnswers', 'guard'],
  database: 'reads',
  work: async () => (await import('../status/status.ts')).status,
})
