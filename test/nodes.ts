/**
 * `npm run test:nodes`: all of `npm test` with each Node.js that leadpush has to work with, from the lowest to the newest, one after
 * the other. Versions as arguments (`20.19.0 latest`) instead of all; with `--narrow` only the files that test what a version of
 * Node.js can break. npm brings the versions; a failure of one fails the run.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { packageRoot } from '../src/base/package-root.ts'

/** The lowest that `engines` allows, the newest of those that are maintained for long, and the newest of all. */
const versions = ['20.19.0', '22', '24', 'latest']
const runMsMax = 40 * 60_000
/** HTTP, TLS, streams, zlib, signals, terminals, child processes, and the end of a process. */
const narrow = [
  ...['unit/gzip-body', 'unit/record-splitters', 'unit/backup-reader', 'unit/rate-limit', 'unit/proxies'],
  ...['integration/attempt', 'integration/close', 'integration/copy', 'integration/leads-files'],
  ...['e2e/client-certificate', 'e2e/compression', 'e2e/database-url', 'e2e/door', 'e2e/full-disk', 'e2e/hangup'],
  ...['e2e/import', 'e2e/mistakes', 'e2e/push', 'e2e/receiver', 'e2e/serve', 'e2e/terminal'],
  ...['slow/embedded', 'slow/serve-hard'],
].map((name) => `test/${name}.test.ts`)
/** Not in the checkout, which may be its owner's alone: some tests start Node.js as another user. */
const folder = mkdtempSync(join(tmpdir(), 'leadpush-nodes-'))
chmodSync(folder, 0o755)

interface Outcome {
  version: string
  node: string
  tests: Record<string, string>
  /** What the run says of each test that failed. */
  failures: string[]
  seconds: number
  ok: boolean
}

/** Its exit code, and the end of what it wrote, all of which is passed on. */
async function run(
  file: string,
  args: string[],
  env: NodeJS.ProcessEnv = process.env,
): Promise<{ code: number; end: string }> {
  const child = spawn(file, args, { cwd: packageRoot, env, stdio: ['ignore', 'pipe', 'inherit'], timeout: runMsMax })
  let end = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    process.stdout.write(text)
    end = (end + text).slice(-100_000)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code: code ?? 1, end }
}

const npm = (args: string[], env?: NodeJS.ProcessEnv) =>
  run(process.execPath, [process.env.npm_execpath ?? '', ...args], env)

/** The folder of the program: from the package of this platform, which is Node.js itself; that of `node` fetches it by a script. */
async function install(version: string): Promise<string> {
  if (version === process.versions.node) return dirname(process.execPath)
  const prefix = join(folder, version)
  mkdirSync(prefix)
  writeFileSync(join(prefix, 'package.json'), '{"private":true}')
  const name = `node-${process.platform}-${process.arch}`
  const options = ['--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  const { code } = await npm(['install', '--prefix', prefix, ...options, `${name}@${version}`])
  if (code !== 0) throw new Error(`npm could not install ${name}@${version}`)
  return join(prefix, 'node_modules', name, 'bin')
}

async function test(version: string, hasBrowser: boolean): Promise<Outcome> {
  const startedAt = performance.now()
  const outcome = (node: string, ok: boolean, tests = {}, failures: string[] = []) => {
    return { version, node, ok, tests, failures, seconds: Math.round((performance.now() - startedAt) / 1_000) }
  }
  try {
    const bin = await install(version)
    const node = join(bin, 'node')
    const { end: found } = await run(node, ['--version'])
    const PATH = [bin, dirname(process.execPath), process.env.PATH].join(delimiter)
    // every Node.js writes the same page: one run with a browser is enough
    const others = hasBrowser ? {} : { CHROMIUM: 'none', REQUIRE_ALL: undefined }
    const env = { ...process.env, PATH, ...others }
    console.log(`\n${'='.repeat(20)} npm test with Node.js ${found.trim()} ${'='.repeat(20)}`)
    const files = isNarrow ? ['--', ...narrow] : []
    const { code, end } = await run(node, [process.env.npm_execpath ?? '', 'test', '--loglevel=error', ...files], env)
    const counts = end.matchAll(/^\W*(tests|pass|fail|skipped) (\d+)$/gm)
    const tests = Object.fromEntries([...counts].map(([, what, n]) => [what, n]))
    const failures = [...end.matchAll(/^Failed: .*$/gm)].map(([line]) => line)
    return outcome(found.trim(), code === 0, tests, failures)
  } catch (error) {
    console.error(error)
    return outcome('?', false)
  }
}

const isNarrow = process.argv.includes('--narrow')
const given = process.argv.slice(2).filter((argument) => argument !== '--narrow')
const outcomes: Outcome[] = []
for (const [at, version] of (given.length > 0 ? given : versions).entries())
  outcomes.push(await test(version, at === 0 && !isNarrow))

console.log('\nNode.js      tests  pass  fail  skipped  seconds')
for (const { node, tests, seconds, ok } of outcomes) {
  const counts = [tests.tests, tests.pass, tests.fail, tests.skipped, seconds]
  const widths = [5, 6, 6, 9, 9]
  const columns = counts.map((value, at) => String(value ?? '-').padStart(widths[at] ?? 0))
  console.log(`${node.padEnd(12)} ${columns.join('')}  ${ok ? 'passed' : 'FAILED'}`)
}
for (const { node, failures } of outcomes) for (const failure of failures) console.log(`${node}  ${failure}`)
rmSync(folder, { recursive: true, force: true })
if (!outcomes.every(({ ok }) => ok)) process.exitCode = 1
