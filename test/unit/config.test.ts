/** The values that settings take. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { definitions, readSettings, type SettingName, settingNames } from '../../src/base/config.ts'
import { LeadpushError } from '../../src/base/errors.ts'

const read = (key: SettingName, env: Record<string, string>) => readSettings([key], { env, cwd: '/nowhere' })[key]

function accepts(key: SettingName, value: string): boolean {
  try {
    read(key, { [definitions[key].name]: value })
    return true
  } catch (error) {
    assert.ok(error instanceof LeadpushError)
    return false
  }
}

test('the name of the data source has 1 to 100 characters; the guard is on or off', () => {
  assert.deepEqual(
    ['x'.repeat(100), 'x'.repeat(101), 'x'].map((value) => accepts('dataSource', value)),
    [true, false, true],
  )
  assert.equal(read('dataSource', { LEADPUSH_DATA_SOURCE: '' }), 'leadpush')
  assert.deepEqual(
    ['on', 'off', 'of'].map((value) => accepts('guard', value)),
    [true, true, false],
  )
})

test('the home folder follows the XDG rules; of root it is one of the system', () => {
  const own = process.getuid?.() === 0 ? '/var/lib/leadpush' : '/home/user/.local/share/leadpush'
  assert.equal(read('home', { HOME: '/home/user' }), own)
  assert.equal(read('home', { HOME: '/home/user', XDG_DATA_HOME: '/data' }), '/data/leadpush')
})

/** A value just beyond a limit, with or without a unit: `1`, `1d`. */
const beyond = (limit: string, by: 1 | -1) =>
  limit.replace(/^[\d.]+/, (digits) => String(Number(digits) + by * (digits.includes('.') ? 0.0001 : 1)))

test('a setting takes its limits, and nothing beyond them; its error names them', () => {
  let ranges = 0
  for (const key of settingNames) {
    const refused = definitions[key].schema.safeParse('none')
    const [, min, max] = /from ([\d.]+\w*) to ([\d.]+\w*)/.exec(refused.error?.issues[0]?.message ?? '') ?? []
    if (min === undefined || max === undefined) continue
    ranges++
    const values = [min, max, beyond(min, -1), beyond(max, 1)]
    assert.deepEqual(values.map((value) => accepts(key, value)), [true, true, false, false], key)
  }
  assert.ok(ranges >= 10)
}) // biome-ignore format: one line

test('every default is a value that its setting takes', () => {
  for (const key of settingNames) {
    const { fallback } = definitions[key] as { fallback?: string }
    if (fallback !== undefined) assert.ok(accepts(key, fallback), key)
  }
})
