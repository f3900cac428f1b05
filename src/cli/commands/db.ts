/** `leadpush db`: the embedded database: where it is, how to connect to it, stopping it, backups and restoring them. */
import { argument, describe, describeGroup, jsonObject } from '../describe.ts'

const ofEmbedded = ['databaseUrl', 'home'] as const

const path = describe({
  name: 'path',
  about: 'Print the folder of the embedded database.',
  options: [jsonObject()],
  help: '\nExamples:\n  du -sh "$(leadpush db path)"',
  settings: ofEmbedded,
  work: async () => (await import('../db/embedded.ts')).printPath,
})

const url = describe({
  name: 'url',
  about: 'Print the URL of the embedded database, and keep it running until `db stop`.',
  options: [jsonObject()],
  help: '\nExamples:\n  psql "$(leadpush db url)"',
  settings: ofEmbedded,
  work: async () => (await import('../db/embedded.ts')).printUrl,
})

const stop = describe({
  name: 'stop',
  about: 'Stop the embedded database; if other commands use it, it stops with the last of them.',
  options: [jsonObject()],
  help: '\nExamples:\n  leadpush db stop',
  settings: ofEmbedded,
  work: async () => (await import('../db/embedded.ts')).stop,
})

const backup = describe({
  name: 'backup',
  about: 'Save all of the embedded database in a file, while other commands use it.',
  arguments: [argument('<file>', 'the file of the backup, which is replaced; - is standard output')],
  options: [jsonObject()],
  help: `
The backup is gzipped text that later versions of leadpush and of PostgreSQL
restore. It holds keys, secrets and contacts; only its owner may read the file.

Examples:
  leadpush db backup /var/backups/leadpush.gz
  leadpush db backup - | age -r age1… > leadpush.gz.age

--json prints {"type":"backup","file","bytes","tables","rows","seconds"}.`,
  settings: [...ofEmbedded, 'secretKey'],
  database: 'reads long',
  work: async () => (await import('../db/backup.ts')).backup,
})

const restore = describe({
  name: 'restore',
  about: 'Make the embedded database from a backup, in a LEADPUSH_HOME that has none.',
  arguments: [argument('<file>', 'a file of db backup; - is standard input')],
  options: [jsonObject()],
  help: `
It restores all of the backup, or nothing. Keep cron and serve off until you
have read docs/backup.md: everything after the backup happens again.

Examples:
  LEADPUSH_HOME=/var/lib/new leadpush db restore /var/backups/leadpush.gz
  age -d leadpush.gz.age | leadpush db restore -

--json prints {"type":"restore","home","rows","madeAt","version","postgres",
"seconds"}.`,
  settings: [...ofEmbedded, 'secretKey'],
  database: 'reads long',
  work: async () => (await import('../db/backup.ts')).restore,
})

export const db = describeGroup({
  name: 'db',
  about: 'The embedded database: its folder, its URL, its stop, backups.',
  commands: [path, url, stop, backup, restore],
})
