/** Checks whether there is room on the disks that leadpush writes to. */
import { stat, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import { bytes as formatBytes } from '../../base/amounts.ts'
import { codeOf } from '../../base/errors.ts'
import { type Found, note, problem } from '../finding.ts'
import type { Check, CheckContext } from './check.ts'

const freeBytesNote = 1_000_000_000
const freePartNote = 0.1
const freeBytesMin = 100_000_000

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

export const diskCheck: Check = { code: 'disk', title: 'disk', run: checkDisks }
