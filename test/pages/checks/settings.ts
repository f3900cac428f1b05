/** The table of settings has each one, with its default and its allowed values, at the limits too. */
import { definitions, readSettings, type SettingName } from '../../../src/base/config.ts'
import { findTable, manual, spansOf } from '../../support/markdown.ts'
import type { Finding } from './finding.ts'

const file = 'docs/reference/settings.md'

function accepts(key: SettingName, value: string): boolean {
  try {
    readSettings([key], { env: { [definitions[key].name]: value }, cwd: '/nowhere' })
    return true
  } catch {
    return false
  }
}

/** A value just beyond a limit, with or without a unit: `1`, `1d`. */
const beyond = (limit: string, by: 1 | -1) =>
  limit.replace(/^[\d.]+/, (digits) => String(Number(digits) + by * (digits.includes('.') ? 0.0001 : 1)))

function* checkRow(key: SettingName, standard: string, allowed: string): Iterable<Finding> {
  const { name, fallback } = definitions[key] as { name: string; fallback?: string }
  if (fallback === undefined ? /^`[^`]*`$/.test(standard) : standard !== `\`${fallback}\``)
    yield { file, text: `${name}: its default is ${fallback ?? 'none'}` }
  const [, min, max] = /^([\d.]+\w*) to ([\d.]+\w*)/.exec(allowed) ?? []
  const wrong = (value: string, isAllowed: boolean) => accepts(key, value) !== isAllowed
  if (min !== undefined && max !== undefined && !allowed.includes('characters'))
    if (wrong(min, true) || wrong(max, true) || wrong(beyond(min, -1), false) || wrong(beyond(max, 1), false))
      yield { file, text: `${name}: it does not go from ${min} to ${max}` }
  for (const value of spansOf(allowed))
    if (wrong(value.replace('…', 'user@host/database'), true)) yield { file, text: `${name}: it does not take ${value}` }
} // biome-ignore format: dense

export function* checkSettings(): Iterable<Finding> {
  const rows = new Map(findTable(manual, 'name', 'default', 'allowed').map((row) => [spansOf(row[0] ?? '')[0], row]))
  for (const key of Object.keys(definitions) as SettingName[]) {
    const row = rows.get(definitions[key].name)
    if (row) yield* checkRow(key, row[1] ?? '', row[2] ?? '')
    else yield { file, text: `add a row for ${definitions[key].name}` }
    rows.delete(definitions[key].name)
  }
  for (const name of rows.keys()) yield { file, text: `take out ${name}: there is no such setting` }
}
