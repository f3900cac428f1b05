/**
 * Packs what would be published and installs it as an operator does: an empty prefix, an empty home, a PATH with nothing but
 * Node.js, no install scripts, and where the tests run as root, as an ordinary user.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { packageRoot } from '../../src/base/package-root.ts'

export interface Ended {
  code: number | null
  stdout: string
  stderr: string
  // biome-ignore lint/suspicious/noExplicitAny: a command may print anything
  json: any[]
}

export interface Installed {
  /** What npm says of the archive. */
  packed: { files: { path: string }[]; size: number; unpackedSize: number }
  archive: string
  home: string
  /** The folder for the files of a test. */
  work: string
  temporary: string
  /** The package in the prefix. */
  folder: string
  /** As the user, in `work`. */
  start(file: string, args: readonly string[], env?: NodeJS.ProcessEnv): ReturnType<typeof spawn>
  run(file: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended>
  leadpush(...args: string[]): Promise<Ended>
  program: string
  /** Installs the archive once more, with another version of a library; returns the program. */
  installWith(library: string, version: string): Promise<string>
  remove(): void
}

const nobody = { uid: 65_534, gid: 65_534 }
const runMsMax = 180_000
/** The settings of npm that lead to the registry; where it keeps things is for the place to say. */
const npmSettings = Object.fromEntries(
  Object.entries(process.env).filter(([name]) =>
    /^(npm_config_(registry|cafile|proxy|https_proxy|noproxy)|https?_proxy|no_proxy|node_extra_ca_certs)$/i.test(name),
  ),
)

function makePlace() {
  const folder = mkdtempSync(join(tmpdir(), 'leadpush-package-'))
  chmodSync(folder, 0o755)
  const place = Object.fromEntries(
    ['home', 'work', 'temporary', 'prefix', 'path', 'archive', 'npm'].map((name) => [name, join(folder, name)]),
  ) as Record<'home' | 'work' | 'temporary' | 'prefix' | 'path' | 'archive' | 'npm', string>
  for (const path of Object.values(place)) mkdirSync(path)
  symlinkSync(process.execPath, join(place.path, 'node'))
  return { folder, ...place }
}

/** The user to be: for root another one, unless that one cannot start Node.js and npm where they are. */
function findUser(npm: string): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const { status } = spawnSync(process.execPath, [npm, '--version'], { ...nobody, cwd: '/', env: {}, stdio: 'ignore' })
  return status === 0 ? nobody : {}
}

export async function packAndInstall(): Promise<Installed> {
  const { folder, home, work, temporary, prefix, path, archive, npm: npmCache } = makePlace()
  const npm = process.env.npm_execpath ?? ''
  const user = findUser(npm)
  for (const own of [home, work, temporary, prefix, npmCache]) chownSync(own, user.uid ?? -1, user.gid ?? -1)

  const start: Installed['start'] = (file, args, env = {}) => {
    const base = { PATH: path, HOME: home, TMPDIR: temporary }
    const stdio = ['ignore', 'pipe', 'pipe'] as const
    return spawn(file, args, { ...user, cwd: work, env: { ...base, ...env }, stdio: [...stdio], timeout: runMsMax })
  }
  const end = async (child: ReturnType<typeof spawn>): Promise<Ended> => {
    const written = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const) {
      child[name]?.setEncoding('utf8').on('data', (text: string) => {
        written[name] += text
      })
    }
    const [code] = (await once(child, 'close')) as [number | null]
    const lines = written.stdout.split('\n').filter((line) => line.startsWith('{'))
    return {
      code,
      ...written,
      get json() {
        return lines.map((line) => JSON.parse(line))
      },
    }
  }
  const run: Installed['run'] = (file, args, env) => end(start(file, args, env))
  const must = async (what: Promise<Ended>): Promise<Ended> => {
    const ended = await what
    if (ended.code !== 0) throw new Error(`npm ended with ${ended.code}:\n${ended.stdout}\n${ended.stderr}`)
    return ended
  }

  const packing = spawn(process.execPath, [npm, 'pack', '--json', '--pack-destination', archive], {
    cwd: packageRoot,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { stdout } = await must(end(packing))
  // what the build prints stands before it
  const listed = JSON.parse(stdout.slice(stdout.search(/^[[{]/m)))
  const packed = Array.isArray(listed) ? listed[0] : Object.values(listed)[0]
  const archiveFile = join(archive, packed.filename)
  const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error', `--cache=${npmCache}`]
  const npmPath = { PATH: [path, '/usr/bin', '/bin', dirname(npm)].join(delimiter) }
  const install = [npm, 'install', '--global', '--prefix', prefix, ...options, archiveFile]
  await must(run(process.execPath, install, { ...npmSettings, ...npmPath }))
  const installWith: Installed['installWith'] = async (library, version) => {
    const project = join(work, basename(library))
    mkdirSync(project)
    const manifest = { dependencies: { leadpush: `file:${archiveFile}` }, overrides: { [library]: version } }
    writeFileSync(join(project, 'package.json'), JSON.stringify(manifest))
    chownSync(project, user.uid ?? -1, user.gid ?? -1)
    await must(run(process.execPath, [npm, 'install', '--prefix', project, ...options], { ...npmSettings, ...npmPath }))
    return join(project, 'node_modules', '.bin', 'leadpush')
  }

  const program = join(prefix, 'bin', 'leadpush')
  return {
    packed,
    archive: archiveFile,
    home,
    work,
    temporary,
    folder: join(prefix, 'lib', 'node_modules', 'leadpush'),
    start,
    run,
    program,
    installWith,
    leadpush: (...args) => run(program, args),
    remove: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }),
  }
}
