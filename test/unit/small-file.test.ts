/** Small files with settings or keys: pipes are as good as files, and none may hold up the program. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readSmallFile } from '../../src/base/small-file.ts'
import { testHome } from '../support/program.ts'

function makePipe(name: string): string {
  const path = join(testHome(), name)
  execFileSync('mkfifo', [path])
  return path
}

test('a file is read up to its limit of bytes, and refused beyond it', () => {
  const path = join(testHome(), 'file')
  for (const size of [2, 3]) {
    writeFileSync(path, 'x'.repeat(size))
    assert.equal(readSmallFile(path, 3), 'x'.repeat(size))
  }
  writeFileSync(path, 'xxxx')
  assert.throws(() => readSmallFile(path, 3), /it holds more than 3 bytes/)
})

test('a pipe is read to its end', { skip: process.platform !== 'linux' }, () => {
  const path = makePipe('written')
  // opened for both, it waits for no reader
  const writer = openSync(path, constants.O_RDWR)
  writeSync(writer, '\ufeffa setting')
  assert.equal(
    readSmallFile(path, undefined, () => closeSync(writer)),
    'a setting',
  )
})

test('a pipe that nobody writes to is given up', { skip: process.platform === 'win32' }, () => {
  // reading it hung in a system call, deaf to every signal
  assert.throws(
    () => readSmallFile(makePipe('unwritten'), undefined, undefined, 1),
    /nothing came through it for 0\.001 s/,
  )
})
