/** Checks the limits of this machine: free space on the disks that leadpush writes to, and memory. */
import { stat, statfs } from 'node:fs/promises'
import { tmpdir, totalmem } from 'node:os'
import { dirname } from 'node:path'
import { bytes as formatBytes } from '../../base/amounts.ts'
import { codeOf } from '../../base/errors.ts'
import { type Found, note, problem } from '../finding.ts'
import type { Check, CheckContext } from './check.ts'

const freeBytesNote = 1_000_000_000
const freePartNote = 0.1
const freeBytesMin = 100_000_000
const memoryBytesMin = 400_000_000

export interface Disk {
  /** The content of the disk: `LEADPUSH_HOME, temporary files`. */
  what: string
  freeBytes: number
  bytes: number
}

/** A note below 1 GB or a tenth free, a problem below 100 MB. */
export const judgeDisks = (disks: readonly Disk[]): Found[] =>
  disks
    .filter(({ freeBytes, bytes }) => freeBytes < freeBytesNote || freeBytes < freePartNote * bytes)
    .map(({ what, freeBytes, bytes }) =>
      (freeBytes < freeBytesMin ? problem : note)(
        `Only ${formatBytes(freeBytes)} of ${formatBytes(bytes)} free (${what})`,
        'Make room: `leadpush prune --older-than 90d`, old logs, backups.',
      ),
    )

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

async function checkDisks({ inspection, source }: CheckContext): Promise<Found[]> {
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

/** `bytes`: the memory that this process may use. */
export function judgeMemory(bytes: number): Found[] {
  if (bytes >= memoryBytesMin) return []
  const what = `Only ${formatBytes(bytes)} may be used: a push takes up to 250 MB, an import 200, beside what else runs here`
  return [note(what, `Allow this container, service or machine ${formatBytes(memoryBytesMin)} or more.`)]
}

/** Without a limit `constrainedMemory` is 0 or beyond all memory. */
const findMemory = () => Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem())

export const diskAndMemoryChecks: readonly Check[] = [
  { code: 'disk', title: 'Disk', run: checkDisks },
  { code: 'memory', title: 'Memory', run: () => judgeMemory(findMemory()) },
]
