/** The file of `--rejects`: rejected records as they came. It is put in its place once the import is under way. */
import { realpathSync, statSync } from 'node:fs'
import { LeadpushError, messageOf, usageError } from '../base/errors.ts'
import { isOwnFile } from '../base/owners.ts'
import { type Encode, encoderOf } from '../records/encode.ts'
import type { Rejected } from '../records/import-each.ts'
import type { CommandIo } from './command-io.ts'
import { checkLinks, type OutFile, openForOutput, refuseFile } from './out-file.ts'

/** The rejected records in the encoding of their file; those of CSV under their header, so that they can be mended and imported. */
class RejectsFile {
  private readonly file: OutFile
  private isWanted = false
  private header: string | undefined
  private encoding: string | undefined
  private encode: Encode = (utf8) => utf8

  constructor(file: OutFile) {
    this.file = file
  }

  /** From now on it replaces a file that was there: not before the import is under way, since wrong usage changes nothing. */
  begin(): void {
    this.isWanted = true
  }

  /** Throws `failed` if writing cannot go on. */
  async add({ raw, header, encoding }: Rejected): Promise<void> {
    this.begin()
    // a record with an erased href or contact is reported, and not kept
    if (raw.length === 0) return
    const mark = this.encoding === undefined ? encoding.mark : Buffer.alloc(0)
    if (this.encoding !== encoding.name) this.encode = encoderOf(encoding.name)
    this.encoding = encoding.name
    const head = header?.toString()
    const isNew = head !== undefined && head !== this.header
    if (isNew) this.header = head
    const text = Buffer.concat([Buffer.from(isNew ? `${head}\n` : ''), raw, Buffer.from('\n')])
    try {
      await this.file.put(Buffer.concat([mark, this.encode(text)]))
    } catch (error) {
      this.isWanted = false
      throw error
    }
  }

  /** Throws `failed` if not all of it was written. */
  finish(): void {
    try {
      this.file.finish()
    } catch (error) {
      throw new LeadpushError('failed', `${messageOf(error)} The import itself went in.`)
    }
  }

  /** After an import that did not come to its end, too: what was rejected until then is kept. */
  close(): void {
    try {
      if (this.isWanted) this.file.finish()
    } catch {} // it is in its place, or the import has told of worse
    this.file.discard()
  }
}

const anothers = (path: string) =>
  usageError(
    `--rejects: ${path} belongs to another user, who could read the contacts and keys in it.`,
    'Name a file of your own, in a folder of your own.',
  )

/** The files that an import reads. */
interface Inputs {
  files: readonly string[]
  mapFile?: string
}

/** The file that the path leads to. Throws `usage` if the import reads it, or if it is another user's. */
function findRejects(path: string, { files, mapFile }: Inputs): string {
  const found = statSync(path, { throwIfNoEntry: false })
  const isSame = (file: string) => {
    const read = file === '-' ? undefined : statSync(file, { throwIfNoEntry: false })
    return found?.isFile() && read?.dev === found.dev && read.ino === found.ino
  }
  const what = files.some(isSame) ? 'file to be imported' : mapFile !== undefined && isSame(mapFile) ? 'map file' : ''
  if (what) throw usageError(`--rejects: ${path} is the ${what}, and would be overwritten.`, 'Name another one.')
  checkLinks(path)
  if (found && !isOwnFile(found)) throw anothers(path)
  return found?.isFile() ? realpathSync(path) : path
}

/** Throws `usage` if it cannot be written, if the import reads it, or if another user could read the contacts and receiver keys in it. */
export function openRejects(io: CommandIo, path: string, inputs: Inputs): RejectsFile {
  const name = `--rejects ${path}`
  let target: string
  try {
    target = findRejects(path, inputs)
  } catch (error) {
    throw error instanceof LeadpushError ? error : refuseFile(name, error)
  }
  // a new file: users who may read the old one, or have it open, see nothing of this one
  return new RejectsFile(openForOutput(io, target, { name }))
}
