/** `leadpush receiver`. */
import { describe, option, RepeatedOption, SettingOption } from '../describe.ts'

export const receiver = describe({
  name: 'receiver',
  about: 'Run a strict reference receiver for development: checks every rule of a delivery, and shows each request.',
  options: [
    new SettingOption('--host <address>', 'where to listen (LEADPUSH_HOST, else 127.0.0.1)', 'host'),
    new SettingOption('--port <port>', 'on which port; 0 takes a free one (LEADPUSH_PORT, else 8080)', 'port'),
    option(
      '--keys <file>',
      'take only these user keys: those of the `users` in the database, or a file, one key a line; - is standard input',
    ),
    new RepeatedOption('--fail <status:count>', 'answer the next COUNT requests with STATUS; repeat it for a script'),
    option('--drop [count]', 'then break the connection of the next COUNT requests (1)'),
    option('--delay <duration>', 'wait before each answer, such as 2s'),
    option('--json', 'print one JSON object a request'),
  ],
  help: `
It takes any path, and without --keys any well-formed user key. It keeps leads
by href in the database: a null never overwrites an earlier value. Answers are
JSON; \`problems\` lists each rule that a request breaks, with its clause and
place.

Examples:
  leadpush receiver --port 9000
  leadpush receiver --fail 503:2 --fail 429 --drop --delay 250ms
  leadpush receiver --keys users --json`,
  settings: ({ keys }: { keys?: string }) => [
    ...(['host', 'port'] as const),
    ...(keys === 'users' ? (['secretKey'] as const) : []),
  ],
  database: 'reads long',
  work: async () => (await import('../receiver/receiver.ts')).receive,
})
