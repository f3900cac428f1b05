import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { packageRoot } from '../../src/base/package-root.ts'
import { cleanEnvironment } from '../support/program.ts'

interface Ended {
  code: number
  stdout: string
  stderr: string
}

function runNode(args: string[]): Promise<Ended> {
  return new Promise((done) => {
    execFile(process.execPath, args, { env: cleanEnvironment(), timeout: 240_000 }, (error, stdout, stderr) =>
      done({ code: error ? Number(error.code ?? 1) : 0, stdout, stderr }),
    )
  })
}

/** A checkout with a program of two files, the second of which is imported when it is needed. */
function makeCheckout(): string {
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-door-'))
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
  cpSync(join(packageRoot, 'bin'), join(folder, 'bin'), { recursive: true })
  cpSync(join(packageRoot, 'package.json'), join(folder, 'package.json'))
  symlinkSync(join(packageRoot, 'node_modules'), join(folder, 'node_modules'))
  mkdirSync(join(folder, 'src'))
  writeFileSync(join(folder, 'src', 'main.ts'), "const { word } = await import('./word.ts')\nconsole.log(word)\n")
  writeWord(folder, 'one')
  return folder
}

const writeWord = (folder: string, word: string) =>
  writeFileSync(join(folder, 'src', 'word.ts'), `export const word: string = '${word}'\n`)
const doorOf = (folder: string) => join(folder, 'bin', 'leadpush.js')
const buildsIn = (folder: string) => readdirSync(join(folder, 'dist'))

for (const [version, fits] of [
  ['20.18.3', false],
  ['20.19.0', true],
] as const) {
  test(`Node.js ${version} is ${fits ? 'taken' : 'refused with a sentence that says what is needed'}`, async () => {
    const pretend = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`
    const { code, stdout, stderr } = await runNode([
      ...['--import', `data:text/javascript,${encodeURIComponent(pretend)}`],
      doorOf(makeCheckout()),
    ])
    assert.equal(code, fits ? 0 : 2)
    assert.equal(stdout, fits ? 'one\n' : '')
    if (!fits) assert.ok(stderr.includes('Node.js 20.19 or newer') && stderr.includes(version))
  })
}

test('a checkout is built once when it is first started, even by several at once, and again when a source has changed', async () => {
  const folder = makeCheckout()
  const results = await Promise.all([0, 1, 2].map(() => runNode([doorOf(folder)])))
  assert.deepEqual(results, Array(3).fill({ code: 0, stdout: 'one\n', stderr: '' }))
  assert.equal(buildsIn(folder).length, 1)
  writeWord(folder, 'another')
  assert.equal((await runNode([doorOf(folder)])).stdout, 'another\n')
  assert.equal(buildsIn(folder).length, 2)
  await runNode([doorOf(folder)])
  assert.equal(buildsIn(folder).length, 2)
})

test('a start that is killed while it builds leaves nothing that the next one takes for a program', async () => {
  const folder = makeCheckout()
  for (const ms of [80, 160, 240]) {
    const child = spawn(process.execPath, [doorOf(folder)], { stdio: 'ignore' })
    const ended = once(child, 'close')
    await sleep(ms)
    child.kill('SIGKILL')
    await ended
  }
  assert.deepEqual(await runNode([doorOf(folder)]), { code: 0, stdout: 'one\n', stderr: '' })
})

test('a checkout that does not build says where, and ends with 2', async () => {
  const folder = makeCheckout()
  writeFileSync(join(folder, 'src', 'word.ts'), "import './missing.ts'\n")
  const { code, stderr } = await runNode([doorOf(folder)])
  assert.equal(code, 2)
  assert.match(stderr, /missing\.ts/)
})

test('if everything is installed, the setup does nothing', async () => {
  const setup = await runNode([join(packageRoot, 'bin', 'setup.js')])
  assert.deepEqual(setup, { code: 0, stdout: '', stderr: '' })
})
