/** The table of alarms, a generated part of docs/contract.md: every code of the program, meanings from here. */
import type { AlarmCode } from '../../src/inspect/status/alarms.ts'
import { formatTable } from './table.ts'

const meanings: Record<AlarmCode, string> = {
  down: 'the receiver was down when a push last tried it (4.12)',
  refused: 'the receiver refuses every delivery alike (4.12)',
  lost: 'the database lost records of a push (4.7), and no push of all users has finished since',
  stuck: 'deliveries wait for an attempt, and no process works on them',
  doubtful: 'deliveries are doubtful (4.5)',
  'not-delivered': '`push --failed --unknown` would make deliveries anew',
  held: 'users or a run are held back',
  left: 'a push left users owed for more than a day',
  'two-weeks': 'users who were due at a run of the period before got no delivery then, and none yet',
  'no-push': 'there are subscribed users, and no whole `push --all` (one with `--limit` is not whole) finished in the last 8 days',
  'no-leads': 'half of the subscribed users or more have no lead to send',
  feed: 'no import of listings finished for `LEADPUSH_FEED_MAX_AGE`, and one did before',
  sources: 'the same for sources that have listings',
  waiting: 'triggers have been due for a day without a `trigger` run',
  failing: 'a hook has failed for a day',
  abandoned: 'triggers were abandoned in the last day',
  dropped: 'triggers were dropped in the last day',
} // biome-ignore format: a list

export const formatAlarms = (): string =>
  formatTable(
    ['`code`', 'when'],
    Object.entries(meanings).map(([code, when]) => [`\`${code}\``, when]),
  )
