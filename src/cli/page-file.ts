/**
 * Writes a page into a file. Whether that is possible is known before any work; a reader of the file sees the old page or the new
 * one, never a part. Only the owner may read it.
 */
import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { usageError } from './command.ts'
import { write } from './output.ts'

export interface PageFile {
  /** Puts the page in its place; returns its size in bytes. */
  write(page: string): Promise<number>
  /** Leaves nothing behind of a page that was not written. */
  discard(): void
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist',
  ENOTDIR: 'its folder is a file',
  EACCES: 'its folder may not be written to',
  EPERM: 'its folder may not be written to',
  EROFS: 'its folder is on a file system that only reads',
  ENOSPC: 'there is no room left',
  ENAMETOOLONG: 'its name is too long',
  EISDIR: 'it is a folder',
}

const explain = (path: string, error: unknown) =>
  `--out ${path} cannot be written: ${reasons[codeOf(error) ?? ''] ?? messageOf(error)}.`

const refuse = (path: string, error: unknown) =>
  usageError(explain(path, error), 'Name a file in a folder that you may write to.')

const toStandardOutput: PageFile = {
  write: async (page) => {
    await write(page)
    return Buffer.byteLength(page)
  },
  discard: () => {},
}

function findFile(path: string) {
  try {
    return statSync(path, { throwIfNoEntry: false })
  } catch (error) {
    throw refuse(path, error)
  }
}

/** `isTaken`: standard output is for something else. Throws `usage` where no file can be written. */
export function openPageFile(path: string, { isTaken }: { isTaken: boolean }): PageFile {
  if (path === '-') {
    if (isTaken) throw usageError('--out - and --json exclude each other: both want standard output.')
    return toStandardOutput
  }
  const found = findFile(path)
  if (path === '' || path.endsWith('/') || found?.isDirectory()) throw refuse(path, { code: 'EISDIR' })
  if (found && !found.isFile())
    throw usageError(`--out ${path} cannot be written: it is no file.`, 'Name a file, or - for standard output.')
  // beside it: a name can only be given to another file on one file system
  const temporary = join(dirname(path), `.${basename(path).slice(0, 100)}.${randomBytes(6).toString('hex')}`)
  let descriptor: number | undefined
  try {
    descriptor = openSync(temporary, 'wx', 0o600)
  } catch (error) {
    throw refuse(path, error)
  }
  const close = () => {
    if (descriptor !== undefined) closeSync(descriptor)
    descriptor = undefined
  }
  const discard = () => {
    if (descriptor === undefined) return
    close()
    rmSync(temporary, { force: true })
    process.off('exit', discard)
  }
  // a second signal ends the process at once
  process.on('exit', discard)
  return {
    write: async (page) => {
      const bytes = Buffer.from(page)
      try {
        if (descriptor === undefined) throw new Error('the page was discarded')
        writeFileSync(descriptor, bytes)
        fsyncSync(descriptor)
        renameSync(temporary, path)
      } catch (error) {
        throw new LeadpushError('failed', explain(path, error), { cause: error })
      }
      close()
      process.off('exit', discard)
      return bytes.length
    },
    discard,
  }
}
