/** The file of `--rejects`: the records that an import rejects, as they came. The import empties it once it is under way. */
import { once } from 'node:events'
import {
  closeSync,
  constants,
  createWriteStream,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  type Stats,
  statSync,
} from 'node:fs'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { isOwnFile } from '../base/owners.ts'
import type { Rejected } from '../records/import-each.ts'
import { usageError } from './command.ts'

/** Records of users hold receiver keys, those of listings contacts. */
const ownerOnly = 0o600

/** The rejected records as they came; those of CSV under their header, so that they can be mended and imported. */
class RejectsFile {
  private readonly path: string
  private readonly stream: Writable
  private header: string | undefined
  private trouble: unknown
  /** Until it is emptied. */
  private fd: number | undefined

  private constructor(path: string, stream: Writable, fd?: number) {
    this.path = path
    this.stream = stream
    this.fd = fd
    stream.on('error', (error) => {
      this.trouble ??= error
    })
  }

  /** Throws `usage` where it cannot be written. */
  static open(path: string, isPipe: boolean): RejectsFile {
    const fd = openOwn(path, isPipe)
    // a pipe without a thread that waits for its reader: no signal would end that
    if (isPipe) return new RejectsFile(path, new Socket({ fd, readable: false, writable: true }))
    return new RejectsFile(path, createWriteStream(path, { fd }), fd)
  }

  /** Empties a file that was there: not before the import is under way, since wrong usage does nothing. */
  begin(): void {
    const { fd } = this
    this.fd = undefined
    if (fd === undefined) return
    const found = fstatSync(fd)
    if (!found.isFile()) return
    try {
      if (found.uid === process.geteuid?.()) fchmodSync(fd, ownerOnly)
    } catch {
      // a file system without modes
    }
    ftruncateSync(fd)
  }

  /** Throws `failed` where it cannot be written on. */
  async add({ raw, header }: Rejected): Promise<void> {
    this.begin()
    // a record with what was erased is told, and not kept
    if (raw.length === 0) return
    const pieces: (string | Uint8Array)[] = [raw, '\n']
    const head = header === undefined ? undefined : Buffer.from(header).toString()
    if (head !== undefined && head !== this.header) {
      this.header = head
      pieces.unshift(head, '\n')
    }
    for (const piece of pieces) {
      if (!this.trouble && !this.stream.write(piece)) await once(this.stream, 'drain').catch(() => {})
    }
    if (this.trouble) throw new LeadpushError('failed', this.describeTrouble())
  }

  /** Throws `failed` where not all of it was written. */
  async finish(): Promise<void> {
    await this.close()
    if (this.trouble) throw new LeadpushError('failed', `${this.describeTrouble()} The import itself went in.`)
  }

  async close(): Promise<void> {
    if (this.stream.closed) return
    this.stream.end()
    await once(this.stream, 'close').catch(() => {})
  }

  private describeTrouble(): string {
    return describeTrouble(this.path, this.trouble)
  }
}

const describeTrouble = (path: string, trouble: unknown) =>
  `--rejects: ${path} cannot be written (${codeOf(trouble) ?? messageOf(trouble)}).`

/**
 * Opens what gets contacts and receiver keys. Throws `usage` where it cannot be written, and where another user has put it, or a link to
 * it, there to get them.
 */
function openOwn(path: string, isPipe: boolean): number {
  let fd: number | undefined
  try {
    const link = lstatSync(path, { throwIfNoEntry: false })
    // from here on nobody else can put a link there
    const asItIs = link?.isSymbolicLink() ? 0 : constants.O_NOFOLLOW
    fd = openSync(path, constants.O_WRONLY | asItIs | (isPipe ? constants.O_NONBLOCK : constants.O_CREAT), ownerOnly)
    const found = fstatSync(fd)
    const isMeant = found.isFIFO() === isPipe && (found.isCharacterDevice() || isOwnFile(found))
    if (isMeant && (link === undefined || isOwnFile(link))) return fd
  } catch (error) {
    const isUnread = isPipe && codeOf(error) === 'ENXIO'
    throw usageError(describeTrouble(path, isUnread ? new Error('it is a pipe, and nobody reads it') : error))
  }
  closeSync(fd)
  throw usageError(
    `--rejects: ${path} belongs to another user, who could read the contacts and keys in it.`,
    'Name a file of your own, in a folder of your own.',
  )
}

/** What an import reads. */
interface Inputs {
  files: readonly string[]
  mapFile?: string
}

/**
 * The import empties the file for the rejected records. Throws `usage` where it is one of those that the import reads; returns whether
 * it is a pipe.
 */
function checkRejects(path: string, { files, mapFile }: Inputs): boolean {
  if (path === '-')
    throw usageError(
      '--rejects: - is no file, and standard output has what the import tells.',
      'Name a file, such as rejected.ndjson.',
    )
  let rejects: Stats | undefined
  try {
    rejects = statSync(path, { throwIfNoEntry: false })
  } catch (error) {
    throw usageError(describeTrouble(path, error))
  }
  if (!rejects?.isFile()) return rejects?.isFIFO() ?? false
  const { dev, ino } = rejects
  const isSame = (file: string) => {
    const found = file === '-' ? undefined : statSync(file, { throwIfNoEntry: false })
    return found?.dev === dev && found.ino === ino
  }
  const what = files.some(isSame) ? 'file to be imported' : mapFile !== undefined && isSame(mapFile) ? 'map file' : ''
  if (what) throw usageError(`--rejects: ${path} is the ${what}, and would be overwritten.`, 'Name another one.')
  return false
}

/** Throws `usage` where it cannot be written, or is one of those that the import reads. */
export const openRejects = (path: string, inputs: Inputs): RejectsFile =>
  RejectsFile.open(path, checkRejects(path, inputs))
