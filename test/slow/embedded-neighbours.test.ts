/** The embedded database beside other accounts of the machine (contract 2, `LEADPUSH_HOME`): what they can put in its way. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { chmodSync, chownSync, copyFileSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { lackingAccounts, makeFolders, runAs, stranger, victim } from '../support/accounts.ts'
import { findInstalled } from '../support/installed.ts'

const options = { skip: lackingAccounts }
const user = JSON.stringify({ email: 'a@example.com', receiverApiKey: 'k'.repeat(32), queries: [{ value: '78704' }] })

// Another user's PostgreSQL counted as the server that the file named: every command failed after a minute, `db stop` never ended.
test('a stale pid file counts for nothing if its number is now the PostgreSQL of another user', options, () => {
  const [home = '', other = ''] = makeFolders(victim, stranger)
  const env = { LEADPUSH_HOME: home }
  assert.equal(runAs(victim, ['users', 'import', '-'], { env, input: user }).status, 0)
  const program = join(other, 'postgres')
  copyFileSync(findInstalled('sleep') ?? '', program)
  chmodSync(program, 0o755)
  const theirs = spawn(program, ['600'], { uid: stranger, gid: stranger, cwd: other, stdio: 'ignore' })
  try {
    const file = join(home, 'data', 'postmaster.pid')
    const leave = () => {
      writeFileSync(file, `${theirs.pid}\n${join(home, 'data')}\n`)
      chownSync(file, victim, victim)
    }
    leave()
    assert.equal(runAs(victim, ['db', 'stop'], { env }).stdout, 'It was not running.\n')
    const { status, stderr } = runAs(victim, ['users', 'list'], { env })
    assert.equal(status, 0, stderr)
    assert.equal(existsSync(file), false)
  } finally {
    theirs.kill('SIGKILL')
  }
})
