/** Checks the limits of this machine: free space on the disks that leadpush writes to, open files, memory. */
import { stat, statfs } from 'node:fs/promises'
import { tmpdir, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { bytes as formatBytes } from '../../base/amounts.ts'
import { codeOf } from '../../base/errors.ts'
import {
  type Check,
  type CheckContext,
  failure,
  judge,
  pass,
  skipped,
  type Trouble,
  type Verdict,
  warning,
} from './check.ts'

const freeBytesWarn = 1_000_000_000
const freePartWarn = 0.1
const freeBytesMin = 100_000_000
/** Open files beside requests: connections to the database, the program's own files, standard streams. */
const filesBeside = 64
const memoryBytesMin = 400_000_000

export interface Disk {
  /** What is on the disk: `LEADPUSH_HOME, temporary files`. */
  what: string
  freeBytes: number
  bytes: number
}

/** A warning below 1 GB or a tenth free, a failure below 100 MB. */
export function judgeDisks(disks: readonly Disk[]): Verdict {
  const describe = ({ what, freeBytes, bytes }: Disk) =>
    `${formatBytes(freeBytes)} of ${formatBytes(bytes)} free (${what})`
  const troubles: Trouble[] = []
  for (const disk of disks) {
    const { freeBytes, bytes } = disk
    if (freeBytes >= freeBytesWarn && freeBytes >= freePartWarn * bytes) continue
    const trouble = freeBytes < freeBytesMin ? failure : warning
    troubles.push(
      trouble(`Only ${describe(disk)}.`, 'Make room: `leadpush prune --older-than 90d`, old logs, backups.'),
    )
  }
  return judge(disks.map(describe).join('; '), troubles)
}

/** The folder, or its nearest parent that exists. */
async function findFolder(path: string): Promise<string> {
  try {
    await stat(path)
    return path
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(path) === path) throw error
    return await findFolder(dirname(path))
  }
}

async function checkDisks({ inspection, source }: CheckContext): Promise<Verdict> {
  const { databaseUrl, home } = inspection.settings
  const isEmbedded = databaseUrl === undefined && !inspection.wrong.has('databaseUrl')
  const folders = [
    ...(isEmbedded && home !== undefined ? [{ what: 'LEADPUSH_HOME', path: home }] : []),
    { what: 'temporary files', path: tmpdir() },
    { what: 'working directory', path: source.cwd },
  ]
  const byDevice = new Map<number, Disk>()
  for (const { what, path } of folders) {
    const folder = await findFolder(path)
    const { dev } = await stat(folder)
    const known = byDevice.get(dev)
    if (known) known.what += `, ${what}`
    else {
      const { bavail, blocks, bsize } = await statfs(folder)
      byDevice.set(dev, { what, freeBytes: bavail * bsize, bytes: blocks * bsize })
    }
  }
  return judgeDisks([...byDevice.values()])
}

/** `limit`: how many files the process may open; `concurrency`: requests under way at once. */
export function judgeOpenFiles(limit: number, concurrency: number): Verdict {
  const wanted = concurrency + filesBeside
  const message = `This process may open ${limit} files; ${concurrency} requests at once (LEADPUSH_CONCURRENCY) want ${wanted}.`
  const remedy = 'Raise it (`ulimit -n 4096`; LimitNOFILE in systemd; nofile in limits.conf).'
  return judge(`${limit} may be open`, limit < wanted ? [warning(message, remedy)] : [])
}

async function checkOpenFiles({ inspection }: CheckContext): Promise<Verdict> {
  const { concurrency } = inspection.settings
  if (concurrency === undefined) return skipped('LEADPUSH_CONCURRENCY is wrong')
  // the report would otherwise look up the host names of all connections
  Object.assign(process.report, { excludeNetwork: true })
  const { userLimits } = process.report.getReport() as { userLimits?: Record<string, { soft: number | 'unlimited' }> }
  const limit = userLimits?.open_files?.soft
  if (limit === undefined) return skipped('this system tells no limit')
  return limit === 'unlimited' ? pass('any number may be open') : judgeOpenFiles(limit, concurrency)
}

/** `bytes`: the memory that this process may use. */
export function judgeMemory(bytes: number): Verdict {
  const well = `${formatBytes(bytes)} may be used`
  if (bytes >= memoryBytesMin) return pass(well)
  const message = `Only ${well}: a push takes up to 250 MB, an import 200, beside what else runs here.`
  const remedy = `Allow this container, service or machine ${formatBytes(memoryBytesMin)} or more.`
  return judge('', [warning(message, remedy)])
}

/** Without a limit `constrainedMemory` is 0 or beyond all memory. */
const findMemory = () => Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem())

export const machineChecks: readonly Check[] = [
  { name: 'disk', title: 'Disk', run: checkDisks },
  { name: 'files', title: 'Open files', run: checkOpenFiles },
  { name: 'memory', title: 'Memory', run: async () => judgeMemory(findMemory()) },
]
