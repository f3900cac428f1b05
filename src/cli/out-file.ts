/**
 * Writes a page or a backup into a file. It checks before any work whether that is possible. A reader of the file sees the old content or
 * the new one, never a part. Only the owner may read it.
 */

import { randomBytes } from 'node:crypto'
import { closeSync, fsyncSync, openSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf, LeadpushError, messageOf, usageError } from '../base/errors.ts'
import type { CommandIo } from './command-io.ts'

/** The content of a file. */
type Content = string | AsyncIterable<Uint8Array>

export interface OutFile {
  /** Puts the content in its place; returns its size in bytes. Throws what `content` throws. */
  write(content: Content): Promise<number>
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

/** In plain words. `name`: what was to be written, as the operator named it. */
export const explain = (name: string, error: unknown) =>
  `${name} cannot be written: ${reasons[codeOf(error) ?? ''] ?? messageOf(error)}.`

const refuse = (name: string, error: unknown) =>
  usageError(explain(name, error), 'Name a file in a folder that you may write to.')

async function* chunksOf(content: Content): AsyncGenerator<Uint8Array> {
  if (typeof content === 'string') yield Buffer.from(content)
  else yield* content
}

/** Hands each chunk to `put`, and returns how many bytes they were. */
async function putAll(content: Content, put: (chunk: Uint8Array) => Promise<void> | void): Promise<number> {
  let size = 0
  for await (const chunk of chunksOf(content)) {
    await put(chunk)
    size += chunk.length
  }
  return size
}

const toStandardOutput = (io: CommandIo): OutFile => ({
  write: (content) => putAll(content, (chunk) => io.out.write(chunk)),
  discard: () => {},
})

function findFile(path: string, name: string) {
  try {
    return statSync(path, { throwIfNoEntry: false })
  } catch (error) {
    throw refuse(name, error)
  }
}

/**
 * `isTaken`: standard output is for something else. `option`: the option whose value `path` is. Throws `usage` if no file can be written.
 */
export function openOutFile(
  io: CommandIo,
  path: string,
  { isTaken, option }: { isTaken: boolean; option?: '--out' | '--rejects' },
): OutFile {
  const name = option ? `${option} ${path}` : path
  if (path === '-') {
    if (isTaken) throw usageError(`${name} and --json exclude each other: both want standard output.`)
    return toStandardOutput(io)
  }
  const found = findFile(path, name)
  if (path === '' || path.endsWith('/') || found?.isDirectory()) throw refuse(name, { code: 'EISDIR' })
  if (found && !found.isFile())
    throw usageError(`${name} cannot be written: it is not a file.`, 'Name a file, or - for standard output.')
  // beside it: a rename works only within one file system
  const temporary = join(dirname(path), `.${basename(path).slice(0, 100)}.${randomBytes(6).toString('hex')}`)
  let descriptor: number | undefined
  try {
    descriptor = openSync(temporary, 'wx', 0o600)
  } catch (error) {
    throw refuse(name, error)
  }
  const close = () => {
    if (descriptor !== undefined) closeSync(descriptor)
    descriptor = undefined
  }
  const discard = () => {
    if (descriptor === undefined) return
    close()
    rmSync(temporary, { force: true })
    forget()
  }
  // a second signal ends the process at once
  const forget = io.onExit(discard)
  /** An error of the content itself is passed on unchanged. */
  const orExplain = <T>(work: (descriptor: number) => T): T => {
    try {
      if (descriptor === undefined) throw new Error('it was discarded')
      return work(descriptor)
    } catch (error) {
      throw new LeadpushError('failed', explain(name, error), { cause: error })
    }
  }
  return {
    write: async (content) => {
      const size = await putAll(content, (chunk) => orExplain((to) => writeFileSync(to, chunk)))
      orExplain((written) => {
        fsyncSync(written)
        renameSync(temporary, path)
      })
      close()
      forget()
      return size
    },
    discard,
  }
}
