/** Settings whose values no limit in `docs/reference/settings.md` describes; `npm run lint` holds that table to the others. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { definitions, readSettings, type SettingName } from '../../src/base/config.ts'
import { LeadpushError } from '../../src/base/errors.ts'

const read = (key: SettingName, env: Record<string, string>) => readSettings([key], { env, cwd: '/nowhere' })[key]

function accepts(key: SettingName, value: string): boolean {
  try {
    return read(key, { [definitions[key].name]: value }) === value
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
