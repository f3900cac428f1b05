/** `leadpush settings`: which settings hold here, and where each comes from. */
import type { Command } from 'commander'
import type { SettingInForce } from '../base/config.ts'
import { type Act, type ExitCode, settingsSource } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { paint } from './painted.ts'
import { addRekey } from './rekey.ts'

export function addSettings(program: Command, act: Act): void {
  const settings = program
    .command('settings')
    .description('Show the settings in force, and where each comes from; never a secret.')
    .option('--json', 'print one JSON object a setting')
    .addHelpText(
      'after',
      `
The environment wins over .env, and a flag of a command over both. NAME_FILE
names a file that holds the value of NAME. Of a secret it is shown whether it is
set, and of a URL its host. Cron has another environment than a shell: run it
there as well.

Examples:
  leadpush settings                            here and now
  leadpush settings --json | jq -r 'select(.from != "default").name'
  env -i PATH="$PATH" HOME="$HOME" leadpush settings`,
    )
    .action(act(showSettings))
  addRekey(settings, act)
}

async function showSettings(io: CommandIo, options: { json?: true }): Promise<ExitCode> {
  const { findInForce } = await import('../base/config.ts')
  const inForce = findInForce(settingsSource(io))
  if (options.json) {
    for (const { name, value = null, from, by = null, host = null, isSecret, isSet } of inForce) {
      await io.out.json({ type: 'setting', name, value, from, by, set: isSet, secret: isSecret, host })
    }
    return 0
  }
  const columns = [{ head: 'setting' }, { head: 'value', wide: true }, { head: 'from', wide: true }]
  await io.out.table(
    columns,
    inForce.map((setting) => [setting.name, formatValue(setting), formatOrigin(setting)]),
  )
  return 0
}

function formatValue({ value, host, isSecret, isSet }: SettingInForce): string {
  if (!isSet) return paint('dim', 'not set')
  if (!isSecret) return value ?? ''
  return `${host === undefined ? '' : `${host}, `}${paint('dim', host === undefined ? 'set, not shown' : 'the rest is not shown')}`
}

function formatOrigin({ name, from, by }: SettingInForce): string {
  if (from === 'default') return paint('dim', from)
  return by === undefined ? from : `${from}, ${name}_FILE: ${by}`
}
