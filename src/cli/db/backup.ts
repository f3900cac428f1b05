/** Backups of the embedded database, and restoring them. */
import { createGzip } from 'node:zlib'
import { bytes, formatCount, plural, secondsSince } from '../../base/amounts.ts'
import { writeBackup } from '../../db/backup.ts'
import { type Restored, restoreBackup } from '../../db/restore.ts'
import { checkReadable, openFile } from '../../records/read-records.ts'
import { openErasureKey, sealErasureKey } from '../../secrets/erasure-key.ts'
import type { AtDatabase, ExitCode } from '../describe.ts'
import { openOutFile, writeFile } from '../out-file.ts'
import { homeOf } from './embedded.ts'

/** 6, the default, took three times as long for listings, and saved 8 %. */
const gzipLevel = 3

export async function backup({ io, open, readSettings }: AtDatabase<'secretKey'>, path: string): Promise<ExitCode> {
  homeOf(readSettings())
  const file = openOutFile(io, path)
  const work = async (opened: Parameters<typeof writeBackup>[0], { secretKey }: { secretKey: Buffer | undefined }) => {
    const startedAt = performance.now()
    const gzip = createGzip({ level: gzipLevel })
    const writing = writeBackup(opened, gzip, secretKey && ((key) => sealErasureKey(secretKey, key)))
    writing.catch(() => {}) // `file` tells it, or why it could not go on
    const size = await writeFile(file, gzip)
    const { tables, rows } = await writing
    const line = { type: 'backup', file: path, bytes: size, tables, rows, seconds: secondsSince(startedAt) }
    const text = `${path}: ${plural(rows, 'row')} in ${plural(tables, 'table')}, ${bytes(size)}`
    // standard output may have the backup itself
    await io.out.result(line, path === '-' ? [] : text)
    return 0
  }
  try {
    return await open(work, { schema: 'untouched' })
  } finally {
    file.discard()
  }
}

export async function restore({ io, open, readSettings }: AtDatabase<'secretKey'>, path: string): Promise<ExitCode> {
  const settings = readSettings()
  const home = homeOf(settings)
  const startedAt = performance.now()
  if (path !== '-') checkReadable(path)
  const input = path === '-' ? io.openStdin() : openFile(path)
  const { rows, strangers, madeAt, version, postgres } = await restoreBackup(home, input, (sealed) =>
    openErasureKey(settings.secretKey, sealed),
  )
  // brings an older schema up to date, and shows that the database can be used
  await open(async () => {})
  if (strangers.count > 0) io.log.warn(tellStrangers(strangers))
  const line = { type: 'restore', home, rows, madeAt, version, postgres, seconds: secondsSince(startedAt) }
  const text = `${home}: ${plural(rows, 'row')} of ${madeAt}, from leadpush ${version} on PostgreSQL ${postgres}`
  await io.out.result(line, text)
  return strangers.count > 0 ? 1 : 0
}

function tellStrangers({ count, names }: Restored['strangers']): string {
  const more = count > names.length ? ` and ${formatCount(count - names.length)} more` : ''
  return `Tables that are not leadpush's were left out: ${names.join(', ')}${more}. The backup has them, as text.`
}
