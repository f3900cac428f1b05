/** `leadpush demo`, which brings a PostgreSQL of its own: on a terminal, and stopped. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { lackingScript } from '../support/installed.ts'
import { cleanEnvironment, onShell, startOnTerminal } from '../support/program.ts'
import { findProgram } from '../support/scripts.ts'

// the moving line once divided by the columns of the terminal, and cleared lines without end where it has none
test('a terminal without columns, as containers make them, gets plain lines', { skip: lackingScript }, async () => {
  const { code, stdout } = await startOnTerminal(`stty rows 0; ${onShell('demo')}`, 0).done
  assert.equal(code, 0)
  assert.match(stdout, /What arrived: 5 requests/)
})

test('a Ctrl-C or a closed terminal during the demo leaves no error, no result, no file, and exits with 130 or 129', async (t) => {
  const temporary = mkdtempSync(join(tmpdir(), 'leadpush-test-'))
  chmodSync(temporary, 0o711)
  t.after(() => rmSync(temporary, { recursive: true, force: true }))
  for (const [ms, signal, exitCode] of [
    [150, 'SIGINT', 130],
    [700, 'SIGHUP', 129],
  ] as const) {
    const child = spawn(process.execPath, [findProgram(), 'demo'], {
      env: cleanEnvironment({ TMPDIR: temporary }),
      detached: true,
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (said += chunk))
    await once(child.stdout, 'data')
    await sleep(ms)
    // the whole group gets it
    process.kill(-(child.pid ?? 0), signal)
    const [code] = await once(child, 'close')
    assert.equal(code, exitCode, said)
    assert.match(said, new RegExp(`^${signal}: cleaning up\\.$`, 'm'))
    assert.doesNotMatch(said, /error|What arrived/)
    assert.deepEqual(readdirSync(temporary), [])
  }
})
