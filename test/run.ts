/**
 * `npm test`: starts a throw-away PostgreSQL, builds and runs the test files that the arguments name (by default all but the slow ones)
 * with Node.js's runner, and cleans up however that ends. With `--oldest` only the files that a version of PostgreSQL can break run, on
 * the oldest. Exit code: the runner's; 1 where no test ran.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { buildCheckout, buildTests, findCheckoutBuild } from '../bin/build.js'
import { packageRoot } from '../src/base/package-root.ts'
import type { ThrowAwayServer } from '../src/db/embedded/throw-away.ts'
import { gatherBuilt, gatherer, nameBuilt, nameShort } from './support/processes.ts'
import { buildVariable, programVariable, scripts } from './support/scripts.ts'

/** One more than two cores keep busy: some always wait. */
const concurrency = 4
/** What a version of PostgreSQL can break: much SQL, COPY, words, plans. */
const byVersion = [
  ...['backup', 'browse-leads', 'indexes', 'leads-import', 'lexemes', 'machine-checks', 'matches', 'redaction'],
  ...['users-complete', 'users-csv', 'users-import'],
]
  .map((name) => `integration/${name}`)
  .concat('e2e/prune')
/** Of a whole file too, on a machine that is busy with other things. */
const testTimeoutMs = 480_000
const runTimeoutMs = 1_800_000

const isFolder = (path: string) => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true

/** Not those that libraries of the benchmark bring along. */
function findFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))
    .map((name) => join(folder, name))
    .sort()
}

const folders = ['unit', 'integration', 'e2e'].map((name) => join(packageRoot, 'test', name))

/** Test files and folders of them; anything else that is given goes to the runner as it stands (`--test-name-pattern=…`). */
function readArguments(given: string[]): { files: string[]; options: string[]; onOldest: boolean } {
  const onOldest = given.includes('--oldest')
  const args = given.filter((argument) => argument !== '--oldest')
  const options = args.filter((argument) => argument.startsWith('-'))
  const paths = args.filter((argument) => !argument.startsWith('-')).map((path) => resolve(path))
  const chosen = paths.length > 0 ? paths : folders
  const found = chosen.flatMap((path) => (isFolder(path) ? findFiles(path) : [path]))
  const files = onOldest ? byVersion.map((name) => join(packageRoot, 'test', `${name}.test.ts`)) : found
  for (const file of files) {
    if (!statSync(file, { throwIfNoEntry: false })) throw new Error(`there is no test file ${file}`)
  }
  return { files: files.map((file) => relative(packageRoot, file)), options, onOldest }
}

/** Only what the files need is built and started: one file of `test/unit` is told of at once. */
interface Needs {
  /** The program and a PostgreSQL. */
  server: boolean
  /** The scripts that tests start as processes. */
  scripts: boolean
}

const needsOf = (files: readonly string[]): Needs => ({
  server: files.some((file) => !file.startsWith(join('test', 'unit'))),
  scripts: files.some((file) => /findScript|chaos-run|simulated/.test(readFileSync(join(packageRoot, file), 'utf8'))),
})

/** A PostgreSQL for the tests; undefined where there is none of that version. With the environment that leads to it. */
async function startPostgres(
  onOldest: boolean,
): Promise<{ server: ThrowAwayServer; env: NodeJS.ProcessEnv } | undefined> {
  const { hasServer, oldestVariable, serverVariable, startServer } = await import('./support/servers.ts')
  const version = onOldest ? 15 : 18
  if (!hasServer(version)) return undefined
  const server = await startServer(version)
  return { server, env: { [serverVariable(version)]: server.url, ...(onOldest && { [oldestVariable]: '1' }) } }
}

interface Outcome {
  code: number
  tests: number
  /** Each test that failed: its file, and its name. */
  failures: string[]
}

/** `folder`, that of the built files, also takes the list of those that fail. */
async function runTests(
  files: string[],
  options: string[],
  { folder, env, stop }: { folder: string; env: NodeJS.ProcessEnv; stop: AbortSignal },
): Promise<Outcome> {
  const list = join(folder, 'failures.txt')
  const reporter = join(packageRoot, 'test', 'support', 'failures.js')
  const args = [
    ...['--enable-source-maps', '--test', `--test-concurrency=${concurrency}`, `--test-timeout=${testTimeoutMs}`],
    ...['--test-reporter=spec', '--test-reporter-destination=stdout'],
    ...[`--test-reporter=${reporter}`, `--test-reporter-destination=${list}`, ...options, ...files],
  ]
  const child = spawn(process.execPath, args, {
    cwd: packageRoot,
    env: {
      ...(process.stdout.isTTY ? { FORCE_COLOR: '1' } : {}),
      ...process.env,
      // Node.js 20 reads a machine's certificates at each start, which takes longer than the start; tests bring their own
      NODE_EXTRA_CA_CERTS: undefined,
      ...env,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: runTimeoutMs,
  })
  stop.addEventListener('abort', () => child.kill('SIGINT'))
  let end = ''
  child.stdout.on('data', (chunk: Buffer) => {
    process.stdout.write(chunk)
    end = (end + chunk).slice(-100_000)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  const lines = existsSync(list) ? readFileSync(list, 'utf8').split('\n').filter(Boolean) : []
  const failures = lines.map((line) => line.split('\t') as [string, string])
  return {
    code: code ?? 1,
    tests: Number(/^\W*tests (\d+)/m.exec(end)?.[1] ?? 0),
    failures: failures.map(([file, name]) => `${nameShort(file)}: ${name}`),
  }
}

async function main(): Promise<number> {
  const { files, options, onOldest } = readArguments(process.argv.slice(2))
  const needs = needsOf(files)
  const stopping = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort(signal))
  const sources = [
    ...files,
    ...(needs.server ? [gatherer] : []),
    ...(needs.scripts ? scripts.map((name) => join('test', name)) : []),
  ]
  const building = buildTests(Object.fromEntries(sources.map((source) => [nameBuilt(source), source])))
  const starting = needs.server ? startPostgres(onOldest) : undefined
  const findProgram = async () => (needs.server ? (findCheckoutBuild() ?? (await buildCheckout())) : undefined)
  try {
    const [folder, program, postgres] = await Promise.all([building, findProgram(), starting])
    if (needs.server && postgres === undefined) {
      console.log('There is no such PostgreSQL here: nothing runs on it.')
      return 0
    }
    const env = { [buildVariable]: folder, ...(program && { [programVariable]: program }), ...postgres?.env }
    if (stopping.signal.aborted) return 130
    const { code, tests, failures } = await runTests(gatherBuilt(files, options, folder), options, {
      folder,
      env,
      stop: stopping.signal,
    })
    for (const failure of failures) console.log(`Failed: ${failure}`)
    if (stopping.signal.aborted) return 130
    if (tests === 0) {
      console.error('no test ran')
      return code || 1
    }
    return code
  } finally {
    const [folder, postgres] = await Promise.allSettled([building, starting])
    if (postgres.status === 'fulfilled') await postgres.value?.server.leave()
    if (folder.status === 'fulfilled') rmSync(folder.value, { recursive: true, force: true })
  }
}

process.exitCode = await main()
