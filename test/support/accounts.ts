/**
 * Other accounts of this machine, for tests of what they can do to each other. Only root can become another; elsewhere such tests are
 * skipped, and say so.
 */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findInstalled } from './installed.ts'
import { findProgram } from './scripts.ts'

/** One account runs the program; the other is hostile. Of these the system knows the first, as PostgreSQL demands. */
export const [victim, stranger] = [65_534, 54_321] as const

const identity = (uid: number) => (uid === 0 ? {} : { uid, gid: uid })
const environment = { PATH: process.env.PATH, HOME: '/nonexistent' }

/** For the option `skip` of a test that needs other accounts. */
export const lackingAccounts: string | false = (() => {
  if (process.getuid?.() !== 0) return 'only root can become another user'
  const tried = spawnSync(process.execPath, [findProgram(), '--version'], {
    ...identity(stranger),
    cwd: '/',
    env: environment,
  })
  return tried.status !== 0 && 'another user may not read this checkout'
})()

/** By architecture: prctl, and each form of chown. */
const systemCalls: Record<string, string> = { x64: '157 92 93 94 260', arm64: '167 54 55' }
const perl = findInstalled('perl')

/** For the option `skip` of a test that takes a right away. */
export const lackingFilter: string | false =
  (perl === undefined || systemCalls[process.arch] === undefined) && 'there is no Perl, or another processor'

/**
 * Arguments that run a command by user `uid` who may not give files away, as `SystemCallFilter=~@privileged` of a unit has it: each chown
 * fails with EPERM, also where nothing would change.
 */
const withoutChown = (uid: number): string[] => [
  perl ?? '',
  '-e',
  `
my ($uid, $prctl, @calls) = split ' ', shift;
my $filter = pack('SCCL', 0x20, 0, 0, 0);
$filter .= pack('SCCL', 0x15, @calls - $_, 0, $calls[$_]) for 0 .. $#calls;
$filter .= pack('SCCL', 0x06, 0, 0, 0x7fff0000) . pack('SCCL', 0x06, 0, 0, 0x00050001);
my $program = pack('Sx![P]P', length($filter) / 8, $filter);
syscall($prctl, 38, 1, 0, 0, 0) == 0 && syscall($prctl, 22, 2, $program, 0, 0) == 0 or die "no filter: $!";
$) = $( = "$uid $uid";
$< = $> = $uid;
exec @ARGV;
`,
  `${uid} ${systemCalls[process.arch]}`,
]

/** The program, run by user `uid` to its end. */
export async function runAs(
  uid: number,
  args: readonly string[],
  { input = '', env = {}, mayChown = true }: { input?: string; env?: Record<string, string>; mayChown?: boolean } = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const [command = '', ...rest] = [...(mayChown ? [] : withoutChown(uid)), process.execPath, findProgram(), ...args]
  const child = spawn(command, rest, {
    ...{ ...(mayChown && identity(uid)), cwd: '/', env: { ...environment, ...env } },
    ...{ stdio: 'pipe', timeout: 240_000, killSignal: 'SIGKILL' },
  })
  const written = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      written[name] += text
    })
  }
  child.stdin.on('error', () => {}) // it may end before it has read all
  child.stdin.end(input)
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, ...written }
}

/** A folder that all may enter, removed after the file, with a folder of its own for each of `owners`. */
export function makeFolders(...owners: number[]): string[] {
  const shared = mkdtempSync(join(tmpdir(), 'leadpush-accounts-'))
  chmodSync(shared, 0o755)
  // an `after` here would belong to the test that asked first
  process.on('exit', () => rmSync(shared, { recursive: true, force: true, maxRetries: 5 }))
  return owners.map((owner, at) => {
    const folder = join(shared, String(at))
    mkdirSync(folder, { mode: 0o700 })
    chownSync(folder, owner, owner)
    return folder
  })
}
