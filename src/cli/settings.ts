/** `leadpush settings`: which settings hold here, and where each comes from. */
import type { Command } from 'commander'
import type { SettingInForce } from '../base/config.ts'
import { type Act, type ExitCode, settingsSource } from './command.ts'
import type { CommandIo } from './command-io.ts'
import { paint } from './painted.ts'
import { addRekey } from './rekey.ts'

/** The flags of other commands that win over a setting. */
const flagged = {
  concurrency: { flag: '--concurrency', key: 'concurrency' },
  rate: { flag: '--rate', key: 'ratePerSecond' },
  host: { flag: '--host', key: 'host' },
  port: { flag: '--port', key: 'port' },
} as const

type SettingsOptions = Partial<Record<keyof typeof flagged, string>> & { json?: true }

export function addSettings(program: Command, act: Act): void {
  const settings = program
    .command('settings')
    .description('Show the settings in force, and where each comes from; never a secret.')
    .option('--concurrency <n>', 'as `push` takes it')
    .option('--rate <n>', 'as `push` takes it')
    .option('--host <address>', 'as `serve` takes it')
    .option('--port <n>', 'as `serve` takes it')
    .option('--json', 'print one JSON object a setting')
    .addHelpText(
      'after',
      `
A flag wins over the environment, the environment over .env. NAME_FILE names a file
that holds the value of NAME. Of a secret it is shown whether it is set, and of a
URL its host. Cron has another environment than a shell: run it there as well.

Examples:
  leadpush settings                            here and now
  leadpush settings --json | jq -r 'select(.from != "default").name'
  env -i PATH="$PATH" HOME="$HOME" leadpush settings`,
    )
    .action(act(showSettings))
  addRekey(settings, act)
}

async function showSettings(io: CommandIo, options: SettingsOptions): Promise<ExitCode> {
  const { findInForce } = await import('../base/config.ts')
  const flags = Object.entries(flagged).flatMap(([name, { flag, key }]) => {
    const value = options[name as keyof typeof flagged]
    return value === undefined ? [] : [[key, { flag, value }] as const]
  })
  const inForce = findInForce(settingsSource(io, Object.fromEntries(flags)))
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
  if (from === 'flag') return by ?? from
  return by === undefined ? from : `${from}, ${name}_FILE: ${by}`
}
