/** `leadpush deliveries`: the ledger as a list, and one delivery of it. */
import type { DeliveryLine } from '../../index.ts'
import {
  argument,
  countOption,
  describe,
  describeGroup,
  jsonLines,
  jsonObject,
  option,
  RepeatedOption,
} from '../describe.ts'
import { exclude } from '../rules.ts'

const statuses: DeliveryLine['status'][] = ['delivered', 'failed', 'unknown', 'pending']
const kinds: DeliveryLine['kind'][] = ['weekly', 'forced', 'single', 'subscription']

const list = describe({
  name: 'list',
  about: 'List the deliveries of the ledger, the newest first, each with its attempts and its cause.',
  options: [
    option('--period <week>', 'of this period, such as 2026-W47'),
    new RepeatedOption('--status <status>', 'with this status; may be repeated', statuses),
    new RepeatedOption('--kind <kind>', 'of this kind; may be repeated', kinds),
    option('--user <email>', 'of this user'),
    option('--since <duration>', 'with a last attempt within this time, such as 2d'),
    option('--slower-than <duration>', 'with a last attempt that took longer, such as 2s'),
    option('--doubtful', 'whose answers did not show that the receiver took them, and not made anew since'),
    countOption('--limit <n>', 'the most to list'),
    option('--csv', 'print CSV with a header'),
    jsonLines(),
  ],
  help: `
Examples:
  leadpush deliveries list --limit 20
  leadpush deliveries list --status failed --status unknown --since 2d
  leadpush deliveries list --period 2026-W47 --csv > week.csv
  leadpush deliveries list --slower-than 2s --since 1d

A line has the times of the first and the last attempt, how long that took, the
period, the key, and the line of \`push\` for the delivery. Without --limit it
lists the whole ledger.`,
  rules: [exclude(['--csv', '--json'])],
  settings: ['timeZone'],
  database: 'reads long',
  work: async () => (await import('../deliveries/list.ts')).list,
})

const show = describe({
  name: 'show',
  about: 'Show one delivery: its attempts, the words of the receiver, and with --body its body.',
  arguments: [argument('<key>', 'its X-Idempotency-Key')],
  options: [option('--body', 'print its body, byte for byte as it was sent'), jsonObject()],
  help: `
The key is the X-Idempotency-Key of the request; \`deliveries list\` shows it. The
body is built again from the listings as they were then, even that of a past
week. If one of its listings was erased or pruned, --body exits with 1.

Examples:
  leadpush deliveries list --user me@example.com --json | jq -r .idempotencyKey
  leadpush deliveries show 5f0c…
  leadpush deliveries show 5f0c… --body | jq '.fsbos | length'
  leadpush deliveries show 5f0c… --json | jq '.attemptLog[].answer'`,
  rules: [exclude(['--body', '--json'])],
  settings: ['timeZone', 'keepAnswers'],
  database: 'reads',
  work: async () => (await import('../deliveries/show.ts')).show,
})

export const deliveries = describeGroup({
  name: 'deliveries',
  about: 'List deliveries, and show one with what was sent.',
  commands: [list, show],
})
