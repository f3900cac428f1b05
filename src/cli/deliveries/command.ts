/** `leadpush deliveries`: the ledger as a list, and one delivery of it. */
import { type Command, Option } from 'commander'
import type { Act } from '../command.ts'
import type { CommandIo } from '../command-io.ts'
import { parseCount, RepeatedOption } from '../options.ts'
import type { ListOptions } from './list.ts'
import type { ShowOptions } from './show.ts'

const statuses: NonNullable<ListOptions['status']> = ['delivered', 'failed', 'unknown', 'pending']
const kinds: NonNullable<ListOptions['kind']> = ['weekly', 'forced', 'single', 'subscription']

export function addDeliveries(program: Command, act: Act): void {
  const deliveries = program.command('deliveries').description('List deliveries, and show one with what was sent.')
  deliveries
    .command('list')
    .description('List the deliveries of the ledger, the newest first, each with its attempts and its cause.')
    .option('--period <week>', 'of this period, such as 2026-W47')
    .addOption(new RepeatedOption('--status <status>', 'with this status; may be repeated', statuses))
    .addOption(new RepeatedOption('--kind <kind>', 'of this kind; may be repeated', kinds))
    .option('--user <email>', 'of this user')
    .option('--since <duration>', 'whose last attempt is no longer ago, such as 2d')
    .option('--limit <n>', 'so many at most', parseCount)
    .option('--csv', 'print CSV with a header')
    .addOption(new Option('--json', 'print one JSON object a line').conflicts('csv'))
    .addHelpText(
      'after',
      `
Examples:
  leadpush deliveries list --limit 20
  leadpush deliveries list --status failed --status unknown --since 2d
  leadpush deliveries list --period 2026-W47 --csv > week.csv

A line has the times of the first and the last attempt, the period, and what
\`push\` prints of a delivery. Without --limit the list has no end but the
ledger's.`,
    )
    .action(act(async (io: CommandIo, options: ListOptions) => (await import('./list.ts')).list(io, options)))
  deliveries
    .command('show')
    .description('Show one delivery: its attempts, what the receiver said, and with --body what was sent.')
    .argument('<key>', 'its X-Idempotency-Key')
    .option('--body', 'print its body, byte for byte as it went')
    .addOption(new Option('--json', 'print one JSON object').conflicts('body'))
    .addHelpText(
      'after',
      `
The key stands in the X-Idempotency-Key of the request, and in the lines of
--json. The body is built again from the listings as they were then, also that
of a past week. Once one of its listings was erased, or deleted by
\`leadpush prune\`, --body exits 1.

Examples:
  leadpush deliveries list --user me@example.com --json | jq -r .idempotencyKey
  leadpush deliveries show 5f0c…
  leadpush deliveries show 5f0c… --body | jq '.fsbos | length'
  leadpush deliveries show 5f0c… --json | jq '.attemptLog[].answer'`,
    )
    .action(
      act(async (io: CommandIo, key: string, options: ShowOptions) =>
        (await import('./show.ts')).show(io, key, options),
      ),
    )
}
