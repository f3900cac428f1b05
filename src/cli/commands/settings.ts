/** `leadpush settings`. */
import { describe, jsonObject, option } from '../describe.ts'
import { exclude, someOf } from '../rules.ts'

const rekey = describe({
  name: 'rekey',
  about: 'Change LEADPUSH_SECRET_KEY: encrypt receiver keys and signing secrets with another key.',
  options: [
    option('--new-key-file <file>', 'the file with the new key; - reads it from standard input'),
    option('--none', 'decrypt them instead: from then on they are stored in plain form'),
    jsonObject(),
  ],
  help: `
LEADPUSH_SECRET_KEY holds the key in force. The new key counts at once: commands
with the old one then end with exit code 2. A push under way ends so too, and
loses nothing. Give every machine the new key, and run \`push --resume\`. If
rekey is killed, run it again, or run \`migrate\` with the new key. An older
backup needs the old key: keep it as long as the backup.

Examples:
  openssl rand -base64 32 > new.key
  leadpush settings rekey --new-key-file new.key
  leadpush settings rekey --none                   without encryption again`,
  rules: [
    exclude(['--new-key-file', '--none']),
    someOf(
      ['--new-key-file', '--none'],
      'What shall the secrets be encrypted with?',
      'Give --new-key-file FILE, or --none.',
    ),
  ],
  settings: ['secretKey'],
  database: 'works',
  work: async () => (await import('../rekey.ts')).rekey,
})

export const settings = describe({
  name: 'settings',
  about: 'Show the settings in force, and where each comes from; never a secret.',
  options: [option('--json', 'print one JSON object a setting')],
  help: `
The environment wins over .env, and an option of a command over both. NAME_FILE
names a file that holds the value of NAME. A secret is shown as set or not set,
a URL by its host. Cron has another environment than a shell: run it there too.

Examples:
  leadpush settings                            here and now
  leadpush settings --json | jq -r 'select(.from != "default").name'
  env -i PATH="$PATH" HOME="$HOME" leadpush settings`,
  work: async () => (await import('../settings.ts')).settings,
  commands: [rekey],
})
