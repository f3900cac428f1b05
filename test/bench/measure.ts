/** What the benchmarks of the push measure with: processor time, WAL, what the receiver got, and processes run to their end. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { OpenDatabase } from '../../src/db/open.ts'

/** Processor seconds of a process with all that it has started; undefined where the system does not tell (no Linux). */
export function readCpu(pid: number): number | undefined {
  if (!existsSync('/proc/self/stat')) return undefined
  const statOf = (of: string) => {
    try {
      return readFileSync(`/proc/${of}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ')
    } catch {
      return undefined
    }
  }
  const ticks = (fields: string[] | undefined, from: number, to: number) =>
    (fields ?? []).slice(from, to).reduce((sum, field) => sum + Number(field), 0)
  let sum = ticks(statOf(String(pid)), 11, 15)
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const fields = statOf(name)
    if (Number(fields?.[1]) === pid) sum += ticks(fields, 11, 15)
  }
  return sum / 100
}

export async function findServerPid({ pool }: OpenDatabase): Promise<number> {
  const { rows } = await pool.query(`select split_part(pg_read_file('postmaster.pid'), E'\n', 1)::integer as pid`)
  return rows[0].pid
}

export async function readWal({ pool }: OpenDatabase): Promise<number> {
  const { rows } = await pool.query(`select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::double precision as bytes`)
  return rows[0].bytes
}

interface Received {
  requests: number
  bytes: number
  keys: number
  users: number
  cpuSeconds: number
}

export async function askReceived(receiver: ChildProcess): Promise<Received> {
  receiver.send('tell')
  const [received] = await once(receiver, 'message')
  return received
}

const usageScript = join(dirname(fileURLToPath(import.meta.url)), 'usage.js')

/** The summary is the last line of hundreds of megabytes. */
const tailBytes = 64 * 1024

/**
 * Runs a process to its end. `last` is the last line of its standard output, where that is an object. Throws where it ends with another
 * code than `codes`.
 */
export async function runProcess(
  args: string[],
  env: NodeJS.ProcessEnv,
  work: string,
  name: string,
  { onStart, codes = [0] }: { onStart?: ((pid: number) => void) | undefined; codes?: readonly number[] } = {},
) {
  const usageFile = join(work, `usage-${name}`)
  // as an operator has it: results and log go to files
  const [out, log] = [await open(join(work, `out-${name}`), 'w+'), await open(join(work, `log-${name}`), 'w+')]
  const child = spawn(process.execPath, ['--import', usageScript, ...args], {
    env: { PATH: process.env.PATH, HOME: work, USAGE_FILE: usageFile, ...env },
    cwd: work,
    stdio: ['ignore', out.fd, log.fd],
  })
  if (child.pid !== undefined) onStart?.(child.pid)
  const [code] = await once(child, 'close')
  const { size } = await out.stat()
  const tail = Buffer.alloc(Math.min(size, tailBytes))
  await out.read(tail, 0, tail.length, size - tail.length)
  await Promise.all([out.close(), log.close()])
  const last = tail.toString().trim().split('\n').at(-1) ?? ''
  if (!codes.includes(code))
    throw new Error(`${name}: exit ${code}\n${(await readFile(join(work, `log-${name}`), 'utf8')).slice(-4_000)}`)
  return {
    last: last.startsWith('{') ? JSON.parse(last) : {},
    usage: JSON.parse(await readFile(usageFile, 'utf8')) as { peakBytes: number; cpuSeconds: number },
  }
}
