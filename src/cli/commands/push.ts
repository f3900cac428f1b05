/** `leadpush push`. */
import { countOption, describe, jsonLines, metricsFile, option, SettingOption } from '../describe.ts'
import { pushNeeds, pushSettings } from '../push/settings.ts'
import { exclude, goesWith, refuses, someOf } from '../rules.ts'

export const push = describe({
  name: 'push',
  about: 'Send deliveries to the receiver, and record how each ended.',
  options: [
    'Whom:',
    option('--all', 'the weekly delivery, to every subscribed user who has none in this period yet'),
    option('--force', 'with --all: also a further delivery for those who had theirs'),
    countOption('--limit <n>', 'with --all: serve this many users, then end'),
    option('--user <email>', 'one user, now'),
    option('--resume', 'continue interrupted deliveries and runs, and send owed subscription pushes'),
    option('--failed', 'a further delivery for users whose delivery of this period failed'),
    option('--unknown', 'with --failed: also for deliveries that may have arrived'),
    option('--doubtful', 'with --failed: also for deliveries whose answers did not show that the receiver took them'),
    option('--owed', 'only owed subscription pushes; with --user: that of the user').hideHelp(),
    option('--dry-run', 'what `preview` does').hideHelp(),
    'How:',
    option(
      '--accept',
      'send although it is held back: by the guard, by trouble of the receiver, or by another time zone',
    ),
    option('--yes', 'with --force: go on without asking first'),
    new SettingOption('--concurrency <n>', 'requests under way at once (LEADPUSH_CONCURRENCY)', 'concurrency'),
    new SettingOption('--rate <n>', 'attempts a second at most (LEADPUSH_RATE)', 'ratePerSecond'),
    'Output:',
    jsonLines(),
    metricsFile(),
  ],
  help: `
Examples:
  leadpush push --all                    for cron, weekly; nobody gets two
  leadpush push --all --limit 5          a careful beginning
  leadpush push --user user@example.com  one user, at any time
  leadpush push --resume                 after a crash or stop; for cron, hourly
  leadpush push --failed                 once the receiver is repaired
  leadpush push --all --accept           if the held figures are right
  leadpush push --all --metrics-file /var/lib/node_exporter/leadpush-all.prom

On a terminal --force says how many users would get a further delivery, and
asks.

Give each line of a crontab a metrics file of its own, which ends in .prom. It
is replaced as a whole twice a minute, and when the run ends.`,
  rules: [
    refuses(
      '--dry-run',
      'Nothing was sent: `leadpush preview` is the dry run of a push.',
      'It shows what `push --all` would send now; with --user EMAIL, --force or --failed, what that push would send.',
    ),
    // for `serve`: with --user it sends the push of that user alone
    exclude(['--all', '--user', '--resume', '--failed'], 'Give one of them.'),
    exclude(['--all', '--owed', '--resume', '--failed'], 'Give one of them.'),
    goesWith('--force', '--all'),
    goesWith('--yes', '--force', 'With --all --force it asks on a terminal.'),
    goesWith('--limit', '--all'),
    goesWith('--unknown', '--failed'),
    goesWith('--doubtful', '--failed'),
    someOf(
      ['--all', '--user', '--resume', '--failed', '--owed'],
      'What shall be pushed?',
      'Give one of --all, --user EMAIL, --resume, --failed.',
    ),
  ],
  settings: pushSettings,
  needs: pushNeeds,
  database: 'sends',
  work: async () => (await import('../push/push.ts')).push,
})
