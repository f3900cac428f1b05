/** Files that commands write (contract 3), where another account has put something in their place. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chownSync, lchownSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createDatabase } from '../support/database.ts'
import { callProgram, testHome } from '../support/program.ts'

const skip = process.getuid?.() !== 0 && 'only root can give a link to another user'
const stranger = 54_321

function canWrite(path: string): boolean {
  try {
    writeFileSync(path, '')
    return true
  } catch {
    return false
  }
}

// Only `--rejects` looked: the others wrote a backup, with all contacts, to the terminal of whoever had put a link there.
test('no command writes to a device of another user, or through their link to one', { skip }, async (t) => {
  const folder = join(testHome(), 'out')
  mkdirSync(folder)
  const theirs = join(folder, 'theirs')
  symlinkSync('/dev/null', theirs)
  lchownSync(theirs, stranger, stranger)
  const onwards = join(folder, 'onwards')
  symlinkSync(theirs, onwards)
  const own = join(folder, 'own')
  symlinkSync('/dev/null', own)
  // a container may have no right to make a device, or to open it
  const device = join(folder, 'device')
  const hasDevice = spawnSync('mknod', [device, 'c', '1', '3']).status === 0 && canWrite(device)
  if (hasDevice) chownSync(device, stranger, stranger)
  const { url } = await createDatabase(t)
  const receiver = { LEADPUSH_RECEIVER_URL: 'http://127.0.0.1:1' }
  const [embedded, external] = [{ LEADPUSH_HOME: join(folder, 'none') }, { ...receiver, DATABASE_URL: url }]
  for (const [path, isRefused] of [
    [theirs, true],
    [onwards, true],
    [own, false],
    ...(hasDevice ? ([[device, true]] as const) : []),
  ] as const) {
    for (const args of [
      ['db', 'backup', path],
      ['report', '--out', path],
      ['push', '--all', '--metrics-file', path],
      ['users', 'import', '-', '--rejects', path],
    ]) {
      const { code, stderr } = await callProgram(args, { env: args[0] === 'db' ? embedded : external })
      assert.equal(/belongs to another user/.test(stderr), isRefused, `${args} ${stderr}`)
      if (isRefused) assert.equal(code, 2, stderr)
    }
  }
  assert.ok(lstatSync(theirs).isSymbolicLink())
  // nothing beside them either
  assert.deepEqual(
    readdirSync(folder).filter((name) => name.startsWith('.')),
    [],
  )
})
