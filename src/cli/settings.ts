/** The settings in force here, with the source of each. */
import { findInForce, type SettingInForce } from '../base/config.ts'
import type { At, ExitCode } from './describe.ts'
import { paint } from './painted.ts'

export async function settings({ io, source }: At): Promise<ExitCode> {
  const inForce = findInForce(source)
  if (io.out.isJson) {
    for (const { name, value = null, from, by = null, host = null, isSecret, isSet } of inForce) {
      await io.out.json({ type: 'setting', name, value, from, by, set: isSet, secret: isSecret, host })
    }
    return 0
  }
  await io.out.table({
    columns: [{ head: 'setting' }, { head: 'value', wide: true }, { head: 'from', wide: true }],
    rows: inForce.map((setting) => [setting.name, formatValue(setting), formatOrigin(setting)]),
  })
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
