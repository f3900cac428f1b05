/** The units in `examples/systemd`, as systemd reads them. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { packageRoot } from '../../src/base/package-root.ts'
import { findInstalled } from '../support/installed.ts'

test('systemd finds nothing to say of the units', {
  // a container has none
  skip: findInstalled('systemd-analyze') === undefined && 'there is no systemd here',
}, () => {
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-units-'))
  try {
    cpSync(join(packageRoot, 'examples/systemd'), folder, { recursive: true })
    const units = readdirSync(folder).filter((name) => /\.(service|timer)$/.test(name))
    assert.ok(units.length >= 13)
    // it looks whether the program is there
    for (const unit of units) {
      const path = join(folder, unit)
      writeFileSync(path, readFileSync(path, 'utf8').replace('/usr/bin/leadpush', process.execPath))
    }
    const { stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...units], {
      cwd: folder,
      env: { ...process.env, SYSTEMD_UNIT_PATH: `${folder}:` },
      encoding: 'utf8',
    })
    const said = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('leadpush'))
    assert.deepEqual(said, [])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

// One of the files with secrets was to be closed, and another was forgotten.
test('the steps that the units name close each file with secrets', () => {
  const text = readFileSync(join(packageRoot, 'examples/systemd/leadpush-.service.d/common.conf'), 'utf8')
  const [, closed = ''] = /^# +chmod 600 (\S+)/m.exec(text) ?? []
  const read = [...text.matchAll(/^#?(?:EnvironmentFile=|LoadCredential=[\w-]+:)(\S+)/gm)].map(([, path = '']) => path)
  assert.equal(read.length, 3)
  for (const path of read) assert.equal(closed, join(dirname(path), '*'))
})
