/** `leadpush probe`. */
import { describe, jsonLines, option } from '../describe.ts'

export const probe = describe({
  name: 'probe',
  about: 'Try a receiver with made-up deliveries, and print a graded report. Nothing of yours is sent.',
  options: [
    option('--user <email>', 'send with the receiver key of this user, not with a made-up one'),
    option('--yes', 'send without asking first'),
    jsonLines(),
  ],
  help: `
It sends to LEADPUSH_RECEIVER_URL. All listings are made up and say so: their
hrefs begin with https://example.com/leadpush-probe/. To see a wrong key refused
it sends the key leadpush-key-that-is-never-valid: give it to no user.

The effect of a repeated key or a null is visible only if the receiver reports
it. If its 2xx answers are JSON with the counts of leads that were \`new\`,
\`changed\` and \`unchanged\` by this delivery, such as
  {"new":0,"changed":1,"unchanged":299}
the probe grades it by these counts; otherwise these checks are \`not visible\`.

Exit code: 1 if a check failed, else 0.

Examples:
  LEADPUSH_RECEIVER_URL=http://127.0.0.1:9000 leadpush probe
  leadpush probe --user user@example.com --yes --json`,
  settings: ({ user }: { user?: string }) => [
    ...(['receiverUrl', 'clientCert', 'clientKey', 'dataSource', 'timeoutMs', 'ratePerSecond', 'proxies'] as const),
    ...(user === undefined ? [] : (['secretKey'] as const)),
  ],
  needs: { receiverUrl: 'it names the receiver to try' },
  // a made-up key needs none
  database: ({ user }: { user?: string }) => (user === undefined ? undefined : 'reads'),
  work: async () => (await import('../probe.ts')).probe,
})
