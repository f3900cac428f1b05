/**
 * The file of `--metrics-file`: replaced as a whole by a rename, readable for node exporter, and written a last time when the process
 * exits in any way.
 */
import { randomBytes } from 'node:crypto'
import { chmodSync, lstatSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { codeOf, messageOf, usageError } from '../base/errors.ts'
import type { CommandIo } from './command-io.ts'

/** How often the file is written while a run goes on. */
const updateMs = 30_000
/** This module never writes a longer file. */
const readBytesMax = 256 * 1024
const mode = 0o644

function replaceFile(file: string, text: string): void {
  // in the same folder, so that a rename suffices; collectors do not read its ending
  const temporary = join(dirname(file), `.${basename(file)}.${randomBytes(6).toString('hex')}.tmp`)
  try {
    writeFileSync(temporary, text, { mode, flag: 'wx', flush: true })
    // past the umask: another user collects the file
    chmodSync(temporary, mode)
    renameSync(temporary, file)
  } catch (error) {
    rmSync(temporary, { force: true })
    throw error
  }
}

/** The text that an earlier run left in the file. Throws where it names no file that can be replaced. */
function readBefore(file: string): string {
  if (file === '' || file === '-' || file.endsWith('/')) throw new Error('it names no file')
  const found = lstatSync(file, { throwIfNoEntry: false })
  // a rename would replace a device or a link with a file
  if (found && !found.isFile()) throw new Error('it is there, and is no regular file')
  if (!found || found.size > readBytesMax) return ''
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** Makes the text of the file; `exitCode` is undefined while the run goes on. */
interface Metrics {
  render(nowMs: number, exitCode: number | undefined): string
}

/**
 * Keeps the file, if one is named, until the process exits; `make` gets the text that an earlier run left in it. Throws `usage` if the
 * file cannot be written; a later failure is only a warning.
 */
export function keepMetricsFile<M extends Metrics>(
  io: CommandIo,
  file: string | undefined,
  make: (before: string) => M,
): M | undefined {
  if (file === undefined) return undefined
  let metrics: M
  try {
    metrics = make(readBefore(file))
    replaceFile(file, metrics.render(io.nowMs(), undefined))
  } catch (error) {
    const why = { ENOENT: 'there is no such folder', EACCES: 'this user may not write there' }[codeOf(error) ?? '']
    const hint = 'Name a file in a folder that this user may write to: it is written beside it, then renamed.'
    throw usageError(`--metrics-file ${file} cannot be written: ${why ?? messageOf(error)}`, hint)
  }
  let isTroubled = false
  const write = (exitCode: number | undefined) => {
    try {
      replaceFile(file, metrics.render(io.nowMs(), exitCode))
    } catch (error) {
      if (!isTroubled) io.log.warn(`--metrics-file ${file} could not be written: ${messageOf(error)}`)
      isTroubled = true
    }
  }
  const timer = setInterval(() => write(undefined), updateMs).unref()
  io.onExit((exitCode) => {
    clearInterval(timer)
    write(exitCode)
  })
  return metrics
}
