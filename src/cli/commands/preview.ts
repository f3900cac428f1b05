/** `leadpush preview`. */
import { countOption, describe, jsonLines, option } from '../describe.ts'
import { exclude, goesWith } from '../rules.ts'

export const preview = describe({
  name: 'preview',
  about: 'Show what a push would send now. Nothing is sent, nothing is written.',
  options: [
    option('--user <email>', 'what `push --user` would send'),
    option('--force', 'what `push --all --force` would send'),
    option('--failed', 'what `push --failed` would send'),
    option('--unknown', 'with --failed: also for deliveries that may have arrived'),
    option('--doubtful', 'with --failed: also for deliveries whose answers did not show that the receiver took them'),
    countOption('--limit <n>', 'list only the first n users; the summary counts all'),
    option('--body', 'print each body, one to a line, byte for byte'),
    option('--diff', 'with --user: leads that are new, changed or gone since the last weekly delivery that arrived'),
    jsonLines(),
  ],
  help: `
Users are listed in the order of a push: interrupted deliveries, subscription
pushes, then by the place of their first query. The summary counts all of them,
and names the users with the fewest and the most leads. --limit shortens the
output of --body and --json too.

Examples:
  leadpush preview --limit 20            a look at a few, and the summary of all
  leadpush preview --user user@example.com --body | jq '.fsbos | length'
  leadpush preview --user user@example.com --diff`,
  rules: [
    exclude(['--user', '--force', '--failed']),
    exclude(['--limit', '--user']),
    goesWith('--unknown', '--failed'),
    goesWith('--doubtful', '--failed'),
    exclude(['--body', '--json'], 'A body is a line of JSON already.'),
    goesWith('--diff', '--user', 'It compares what one user would get: name the user.'),
    exclude(['--diff', '--body']),
  ],
  settings: ['timeZone', 'maxLeadAgeMs', 'sameHouse', 'guard'],
  database: 'reads',
  work: async () => (await import('../preview/preview.ts')).preview,
})
