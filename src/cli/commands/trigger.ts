/** `leadpush trigger`. */
import { describe, jsonLines, metricsFile, option } from '../describe.ts'
import { goesWith } from '../rules.ts'
import { triggerSettings } from '../trigger/settings.ts'

export const trigger = describe({
  name: 'trigger',
  about:
    'Tell the hooks of automation platforms of new listings, new prices and gone listings; try failed triggers again.',
  options: [
    option('--again', 'also send triggers that were abandoned or dropped in the last 30 days'),
    option('--hook <id>', 'with --again: only those of this hook; its id is in `integrations list`'),
    option('--since <duration>', 'with --again: only those lost within this time, such as 2d'),
    metricsFile(),
    jsonLines(),
  ],
  help: `
Examples:
  leadpush trigger                               for cron, every few minutes
  leadpush leads import listings.csv --trigger   right after an import
  leadpush trigger --again --since 2d            after a platform was down
  leadpush trigger --metrics-file /var/lib/node_exporter/leadpush-trigger.prom

A hook gets each listing once that matches one of its user's queries and was
imported after the hook was registered. If it asked for price_change, it gets
each listing whose price changed since the last run; if it asked for lead_gone,
each listing that disappeared from its complete feed. Later runs try failed
triggers again, after 1, 5 and 30 minutes, 2, 8, 16, 24 and 24 hours. A hook
that did not answer in time, or failed 5 times in a row, gets nothing for a
minute, or for as long as its Retry-After asks. A host gets at most 30 triggers
a second. Only one run sends at a time: another run asks it to look again, and
ends.`,
  rules: [goesWith('--hook', '--again'), goesWith('--since', '--again')],
  settings: triggerSettings,
  database: 'sends',
  work: async () => (await import('../trigger/trigger.ts')).trigger,
})
