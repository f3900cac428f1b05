/** `leadpush integrations`: the API keys of automation platforms, and the hooks that these registered. */
import { argument, describe, describeGroup, jsonLines, jsonObject, option } from '../describe.ts'

const id = argument('<id>', 'as `integrations list` shows it')

const create = describe({
  name: 'create',
  about: 'Make an API key for a platform, and print it once with the signing secret of its triggers.',
  options: [
    option('--user <email>', 'the user of the integration').makeOptionMandatory(),
    option('--api-key <key>', 'take over a key that exists elsewhere; - reads it from standard input'),
    jsonObject(),
  ],
  help: `
Examples:
  leadpush integrations create --user user@example.com
  leadpush integrations create --user user@example.com --api-key - < key.txt

The list of processes shows a key on the command line: give - instead, and it is
read from standard input. A key has 16 to 200 visible ASCII characters. Only its
hash is stored.`,
  settings: ['secretKey'],
  database: 'changes',
  work: async () => (await import('../integrations.ts')).create,
})

const rotate = describe({
  name: 'rotate',
  about: 'Give an integration a new API key and signing secret, and print them once; the old ones end later.',
  arguments: [id],
  options: [
    option('--overlap <duration>', 'how long the old key and secret count beside the new ones').default('24h'),
    jsonObject(),
  ],
  help: `
Examples:
  leadpush integrations rotate 3
  leadpush integrations rotate 3 --overlap 0s    ends a stolen key at once

Until the overlap is over (0s to 365d) both keys work, and triggers have the
signatures of both secrets. Another rotation ends the oldest key at once.`,
  settings: ['secretKey'],
  database: 'changes',
  work: async () => (await import('../integrations.ts')).rotate,
})

const list = describe({
  name: 'list',
  about: 'Show the integrations and their hooks, never a key.',
  options: [jsonLines()],
  help: '\nExamples:\n  leadpush integrations list',
  database: 'reads',
  work: async () => (await import('../integrations.ts')).list,
})

const revoke = describe({
  name: 'revoke',
  about: 'End an integration: its key, its hooks and their due triggers; its platform is told.',
  arguments: [id],
  options: [jsonObject()],
  help: '\nExamples:\n  leadpush integrations revoke 3',
  settings: ['allowInsecureHooks', 'hookHosts'],
  database: 'changes',
  work: async () => (await import('../integrations.ts')).revoke,
})

export const integrations = describeGroup({
  name: 'integrations',
  about: 'Create, list, rotate and revoke the connections of automation platforms.',
  commands: [create, rotate, list, revoke],
})
