/**
 * Writes a page, a backup, rejected records or figures into a file. It checks before any work whether that is possible. A reader of the
 * file sees the old content or the new one, never a part.
 */

import { randomBytes } from 'node:crypto'
import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  lstatSync,
  openSync,
  readlinkSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { codeOf, LeadpushError, messageOf, usageError } from '../base/errors.ts'
import { isOwnFile } from '../base/owners.ts'
import type { CommandIo } from './command-io.ts'

/** Standard output is waited for; a file is written synchronously, so that it can also be written while the process exits. */
export interface OutFile {
  /** Adds to the content. Throws `failed`. */
  put(chunk: string | Uint8Array): Promise<void> | void
  /** Puts the content in its place. Throws `failed`. */
  finish(): void
  /** Removes the unfinished file. */
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

const explain = (name: string, error: unknown) =>
  `${name} cannot be written: ${reasons[codeOf(error) ?? ''] ?? messageOf(error)}.`

/** `name`: what was to be written, as the operator named it. */
export const refuseFile = (name: string, error: unknown) =>
  usageError(explain(name, error), 'Name a file in a folder that you may write to.')

const anothers = () => new Error('what it leads to belongs to another user')

/** Opens a device, such as /dev/null: content goes straight to it. Throws if something else has taken its name meanwhile. */
function openDevice(path: string): number {
  const descriptor = openSync(path, constants.O_WRONLY | constants.O_NOCTTY)
  const found = fstatSync(descriptor)
  if (found.isCharacterDevice() && isOwnFile(found)) return descriptor
  closeSync(descriptor)
  throw found.isCharacterDevice() ? anothers() : new Error('it is not a file')
}

const linksMax = 40

/** Throws if `path` is a link that another user put there, or leads on to one: it may lead to their terminal. */
export function checkLinks(path: string): void {
  let at = resolve(path)
  for (let links = 0; links <= linksMax; links++) {
    const found = lstatSync(at, { throwIfNoEntry: false })
    if (!found?.isSymbolicLink()) return
    if (!isOwnFile(found)) throw anothers()
    at = resolve(dirname(at), readlinkSync(at))
  }
}

/** What is at `path` now. Throws if no file can take its place. */
function findFile(path: string): Stats | undefined {
  if (path === '-') throw new Error('it is no file')
  checkLinks(path)
  const found = statSync(path, { throwIfNoEntry: false })
  if (path === '' || path.endsWith('/') || found?.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
  if (found && !found.isFile() && !found.isCharacterDevice()) throw new Error('it is not a file')
  return found
}

/**
 * `name`: the option and its value, if the file is named by one. `mode`: who may read it; without it only its owner. Throws `usage` if no
 * file can be written.
 */
export function openForOutput(
  io: Pick<CommandIo, 'onExit'>,
  path: string,
  { name = path, mode = 0o600 }: { name?: string; mode?: number } = {},
): OutFile {
  // beside it: a rename works only within one file system
  const beside = join(dirname(path), `.${basename(path).slice(0, 100)}.${randomBytes(6).toString('hex')}`)
  let temporary: string | undefined
  let descriptor: number | undefined
  try {
    temporary = findFile(path)?.isCharacterDevice() ? undefined : beside
    descriptor = temporary === undefined ? openDevice(path) : openSync(temporary, 'wx', 0o600)
  } catch (error) {
    throw refuseFile(name, error)
  }
  const close = () => {
    if (descriptor !== undefined) closeSync(descriptor)
    descriptor = undefined
    forget()
  }
  const discard = () => {
    if (descriptor !== undefined && temporary !== undefined) rmSync(temporary, { force: true })
    close()
  }
  // a second signal ends the process at once
  const forget = io.onExit(discard)
  const orExplain = (work: (descriptor: number) => void): void => {
    try {
      if (descriptor === undefined) throw new Error('it was discarded')
      work(descriptor)
    } catch (error) {
      throw new LeadpushError('failed', explain(name, error), { cause: error })
    }
  }
  return {
    put: (chunk) => orExplain((to) => writeFileSync(to, chunk)),
    finish() {
      orExplain((written) => {
        if (temporary === undefined) return
        // past the umask
        fchmodSync(written, mode)
        fsyncSync(written)
        renameSync(temporary, path)
      })
      close()
    },
    discard,
  }
}

/** The same, but - is standard output, unless that is for JSON. */
export function openOutFile(io: CommandIo, path: string, name = path): OutFile {
  if (path !== '-') return openForOutput(io, path, { name })
  if (io.out.isJson) throw usageError(`${name} and --json exclude each other: both want standard output.`)
  return { put: (chunk) => io.out.write(chunk), finish() {}, discard() {} }
}

/** Writes all of the content, and returns its size in bytes. Throws what `content` throws. */
export async function writeFile(file: OutFile, content: string | AsyncIterable<Uint8Array>): Promise<number> {
  let size = 0
  for await (const chunk of typeof content === 'string' ? [Buffer.from(content)] : content) {
    await file.put(chunk)
    size += chunk.length
  }
  file.finish()
  return size
}
