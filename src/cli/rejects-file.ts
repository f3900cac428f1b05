/** The file of `--rejects`: rejected records as they came. It is put in its place once the import is under way. */
import { once } from 'node:events'
import {
  closeSync,
  constants,
  createWriteStream,
  fstatSync,
  lstatSync,
  openSync,
  realpathSync,
  type Stats,
  statSync,
} from 'node:fs'
import { Socket } from 'node:net'
import { PassThrough, type Writable } from 'node:stream'
import { codeOf, LeadpushError, usageError } from '../base/errors.ts'
import { isOwnFile } from '../base/owners.ts'
import type { Rejected } from '../records/import-each.ts'
import type { CommandIo } from './command-io.ts'
import { explain, type OutFile, openOutFile } from './out-file.ts'

/** The rejected records as they came; those of CSV under their header, so that they can be mended and imported. */
class RejectsFile {
  private readonly path: string
  private readonly stream: Writable
  /** The file that gets the stream's content; undefined for a pipe or a device. */
  private readonly file: OutFile | undefined
  private writing: Promise<unknown> | undefined
  private header: string | undefined
  private trouble: unknown

  constructor(path: string, stream: Writable, file?: OutFile) {
    this.path = path
    this.stream = stream
    this.file = file
    stream.on('error', (error) => {
      this.trouble ??= error
    })
  }

  /** From now on it replaces a file that was there: not before the import is under way, since wrong usage changes nothing. */
  begin(): void {
    this.writing ??= this.file?.write(this.stream as PassThrough).catch((error) => this.stream.destroy(error))
  }

  /** Throws `failed` if writing cannot go on. */
  async add({ raw, header }: Rejected): Promise<void> {
    this.begin()
    // a record with an erased href or contact is reported, and not kept
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
    if (this.trouble) throw new LeadpushError('failed', describeTrouble(this.path, this.trouble))
  }

  /** Throws `failed` if not all of it was written. */
  async finish(): Promise<void> {
    await this.close()
    if (this.trouble)
      throw new LeadpushError('failed', `${describeTrouble(this.path, this.trouble)} The import itself went in.`)
  }

  async close(): Promise<void> {
    if (this.file && !this.writing) return this.file.discard()
    if (this.stream.closed) return
    this.stream.end()
    await (this.writing ?? once(this.stream, 'close').catch(() => {}))
  }
}

const describeTrouble = (path: string, trouble: unknown) =>
  trouble instanceof LeadpushError ? trouble.message : explain(`--rejects ${path}`, trouble)

const anothers = (path: string) =>
  usageError(
    `--rejects: ${path} belongs to another user, who could read the contacts and keys in it.`,
    'Name a file of your own, in a folder of your own.',
  )

/** A pipe or a device. Throws `usage` if it cannot be written, or is a pipe of another user. */
function openOther(path: string, isPipe: boolean): Writable {
  let fd: number | undefined
  try {
    fd = openSync(path, constants.O_WRONLY | (isPipe ? constants.O_NONBLOCK : 0))
    const found = fstatSync(fd)
    // opened without waiting for a pipe's reader: no signal could end a waiting thread
    if (isPipe && found.isFIFO() && isOwnFile(found)) return new Socket({ fd, readable: false, writable: true })
    if (found.isCharacterDevice()) return createWriteStream(path, { fd })
  } catch (error) {
    throw usageError(
      describeTrouble(path, codeOf(error) === 'ENXIO' ? new Error('it is a pipe, and nobody reads it') : error),
    )
  }
  closeSync(fd)
  throw anothers(path)
}

/** The files that an import reads. */
interface Inputs {
  files: readonly string[]
  mapFile?: string
}

/** The file at `path`. Throws `usage` if the import reads it. */
function findRejects(path: string, { files, mapFile }: Inputs): Stats | undefined {
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
  if (!rejects?.isFile()) return rejects
  const { dev, ino } = rejects
  const isSame = (file: string) => {
    const found = file === '-' ? undefined : statSync(file, { throwIfNoEntry: false })
    return found?.dev === dev && found.ino === ino
  }
  const what = files.some(isSame) ? 'file to be imported' : mapFile !== undefined && isSame(mapFile) ? 'map file' : ''
  if (what) throw usageError(`--rejects: ${path} is the ${what}, and would be overwritten.`, 'Name another one.')
  return rejects
}

/**
 * Throws `usage` if it cannot be written, if the import reads it, or if another user has put it or a link there to get contacts and
 * receiver keys.
 */
export function openRejects(io: CommandIo, path: string, inputs: Inputs): RejectsFile {
  const found = findRejects(path, inputs)
  const link = lstatSync(path, { throwIfNoEntry: false })
  if (link && !isOwnFile(link)) throw anothers(path)
  if (found?.isFIFO() || found?.isCharacterDevice()) return new RejectsFile(path, openOther(path, found.isFIFO()))
  if (found && !isOwnFile(found)) throw anothers(path)
  // a new file: users who may read the old one, or have it open, see nothing of this one
  const file = openOutFile(io, found ? realpathSync(path) : path, { isTaken: true, option: '--rejects' })
  return new RejectsFile(path, new PassThrough(), file)
}
