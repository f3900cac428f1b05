/** Shows an import to its operator: progress, rejected records, summary, exit code. */
import { once } from 'node:events'
import {
  constants,
  createWriteStream,
  fchmodSync,
  fstatSync,
  ftruncateSync,
  openSync,
  type Stats,
  statSync,
} from 'node:fs'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { bytes, formatCount, plural } from '../base/amounts.ts'
import { codeOf, LeadpushError, messageOf } from '../base/errors.ts'
import { spellOut } from '../base/printable.ts'
import type { ImportCounts, ImportOptions, ImportOutcome, ImportProgress, Rejected } from '../records/import-each.ts'
import { type ExitCode, usageError } from './command.ts'
import { boundHeap } from './heap.ts'
import type { Log } from './log.ts'
import { isLively, writeFacts, writeJson, writeLine } from './output.ts'
import { paint } from './painted.ts'
import { listenForStop } from './signals.ts'

const plainProgressMs = 10_000
/** So many rejected records are shown to a person; the rest are counted, and in --rejects. */
const shownMax = 50

interface ImportView {
  onProgress(progress: ImportProgress): void
  onRejected(rejected: Rejected): Promise<void>
  end(summary: Summary): Promise<void>
  /** Throws `failed` where not all the rejected records could be kept. */
  finish(): Promise<void>
  close(): Promise<void>
}

/** Of listings: `erased`, `filtered`, `gone`, `unplaced`, `unreadable` and `examples`; of users: `folded` and `unsubscribed`. */
interface OwnCounts {
  erased?: number
  filtered?: number
  gone?: number
  unplaced?: number
  folded?: number
  unsubscribed?: number
}

type Summary = ImportOutcome<ImportCounts & OwnCounts>['summary'] & {
  unreadable?: Record<string, number>
  examples?: Record<string, { file: string; line: number; message: string; value: string }>
}

export interface ImportViewOptions {
  files: readonly string[]
  json?: true
  rejects?: string
  mapFile?: string
  /** Nothing is written: it says so first. */
  dryRun?: true | undefined
}

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
    if (isPipe) return new RejectsFile(path, openPipe(path))
    try {
      const fd = openSync(path, constants.O_WRONLY | constants.O_CREAT, ownerOnly)
      return new RejectsFile(path, createWriteStream(path, { fd }), fd)
    } catch (error) {
      throw usageError(describeTrouble(path, error))
    }
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

/** Opens a pipe without a thread that waits for its reader: no signal would end that. Throws `usage` where nobody reads. */
function openPipe(path: string): Writable {
  try {
    return new Socket({
      fd: openSync(path, constants.O_WRONLY | constants.O_NONBLOCK),
      readable: false,
      writable: true,
    })
  } catch (error) {
    const why = codeOf(error) === 'ENXIO' ? 'it is a pipe, and nobody reads it' : (codeOf(error) ?? messageOf(error))
    throw usageError(`--rejects: ${path} cannot be written (${why}).`)
  }
}

/**
 * The import empties the file for the rejected records. Throws `usage` where it is one of those that the import reads; returns whether
 * it is a pipe.
 */
function checkRejects(path: string, { files, mapFile }: ImportViewOptions): boolean {
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

async function createImportView(log: Log, options: ImportViewOptions): Promise<ImportView> {
  const { rejects: path } = options
  const rejects = path === undefined ? undefined : RejectsFile.open(path, checkRejects(path, options))
  const { default: ora } = isLively() && log.format === 'pretty' ? await import('ora') : { default: undefined }
  const spinner = ora?.({ stream: process.stderr, discardStdin: false })
  let toldAt = performance.now()
  let shown = 0
  if (options.dryRun && !options.json) await writeLine('Dry run: nothing is written. An import would do this:')
  return {
    onProgress({ file, phase, records, bytesRead, bytesTotal }) {
      const share = bytesTotal ? `, ${Math.min(100, Math.floor((100 * bytesRead) / bytesTotal))} %` : ''
      const text =
        phase === 'merging'
          ? `${file}: merging ${plural(records, 'record')}`
          : `${file}: ${plural(records, 'record')}, ${bytes(bytesRead)}${share}`
      if (spinner) {
        spinner.text = spellOut(text)
        if (!spinner.isSpinning) spinner.start()
      } else if (performance.now() - toldAt > plainProgressMs) {
        toldAt = performance.now()
        log.info(text)
      }
    },
    async onRejected(rejected) {
      await rejects?.add(rejected)
      const { file, line, path, message } = rejected
      if (options.json) await writeJson({ type: 'rejected', file, line, path, message })
      else if (++shown <= shownMax)
        await writeLine(`${file}:${line}  ${paint('yellow', 'rejected')}  ${path ? `${path} ` : ''}${message}`)
    },
    async end(summary) {
      rejects?.begin()
      spinner?.stop()
      if (options.json) return await writeJson({ type: 'summary', ...summary, ...(options.dryRun && { dryRun: true }) })
      if (shown > shownMax)
        await writeLine(
          `… and ${plural(shown - shownMax, 'rejected record')} more${rejects ? '' : '; --json lists all, --rejects FILE keeps them'}`,
        )
      for (const [path, { file, line, message }] of Object.entries(summary.examples ?? {})) {
        const what = path === 'postalCode' ? 'unplaced' : 'unreadable'
        await writeLine(`${file}:${line}  ${paint('yellow', what)}  ${path} ${message}`)
      }
      await writeFacts(describe(summary))
    },
    async finish() {
      await rejects?.finish()
    },
    async close() {
      spinner?.stop()
      await rejects?.close()
    },
  }
}

function describe(summary: Summary): [string, string][] {
  const facts: [string, string][] = [['read', plural(summary.read, 'record')]]
  const names = [
    'inserted',
    'updated',
    'unchanged',
    'rejected',
    'repeated',
    'erased',
    'filtered',
    'gone',
    'folded',
    'unsubscribed',
  ] as const
  const meanings = {
    repeated: ' replaced by a later record of the file',
    erased: ' kept out, since they were erased',
    filtered: ' not taken by --where',
    gone: ' that no source has any more',
    folded: ' kept once: the same query twice with one user',
    unsubscribed: ' in none of the files',
  } as Record<string, string>
  for (const name of names) {
    const value = summary[name]
    if (value === undefined || (value === 0 && !['inserted', 'updated', 'unchanged'].includes(name))) continue
    const painted = name === 'rejected' ? paint('yellow', formatCount(value)) : formatCount(value)
    facts.push([name, `${painted}${meanings[name] ?? ''}`])
  }
  facts.push(...describeDoubts(summary))
  const ignored = Object.entries(summary.ignored)
  if (ignored.length > 0) {
    const some = ignored.slice(0, 8).map(([field]) => field)
    facts.push([
      'ignored',
      `${plural(ignored.length, 'unknown field')}: ${some.join(', ')}${ignored.length > some.length ? ', …' : ''}`,
    ])
  }
  return facts
}

/** What went in with a doubt, each with the first value of its kind. */
function describeDoubts({ unplaced = 0, unreadable = {}, examples = {} }: Summary): [string, string][] {
  const facts: [string, string][] = []
  const suchAs = (path: string) => `such as ${examples[path]?.value}`
  if (unplaced > 0) {
    facts.push(['unplaced', `${plural(unplaced, 'listing')} with a postal code in no table, ${suchAs('postalCode')}`])
  }
  const fields = Object.entries(unreadable)
  if (fields.length > 0) {
    const each = fields.map(([field, count]) => `${field} ${formatCount(count)}, ${suchAs(field)}`)
    facts.push(['unreadable', `values, taken as unknown: ${each.join('; ')}`])
  }
  return facts
}

/** Runs an import of leads or users with everything that is seen of it. */
export async function runImport(
  log: Log,
  options: ImportViewOptions,
  importFiles: (
    options: ImportOptions & { onNote(text: string): void },
  ) => Promise<Omit<ImportOutcome<ImportCounts>, 'summary'> & { summary: Summary }>,
): Promise<ExitCode> {
  await boundHeap()
  const view = await createImportView(log, options)
  const stop = listenForStop((signal) => log.info(`${signal}: nothing of the file under way is taken in.`))
  try {
    const { onRejected, onProgress } = view
    const onNote = (text: string) => log.info(text)
    const { formatAwayMax } = await import('../db/away.ts')
    const onAway = () =>
      log.warn(`The database is away: the file is begun again when it is back, for ${formatAwayMax()} at most.`)
    const outcome = await importFiles({ signal: stop.signal, onRejected, onProgress, onAway, onNote })
    await view.end(outcome.summary)
    if (outcome.stopped) log.warn('The import was stopped: nothing of the file under way went in.')
    if (outcome.broken) {
      const { file, message, hint } = outcome.broken
      // where the first one broke off no later one was begun; or else all of them together have too little
      const isNone = options.files.length > 1 && outcome.summary.read === 0
      const nothing = `Nothing of ${isNone ? 'any' : 'this'} file went in.`
      throw new LeadpushError('failed', `${file}: ${message}`, { hint: hint ? `${nothing} ${hint}` : nothing })
    }
    await view.finish()
    return stop.exitCode ?? (outcome.summary.rejected > 0 ? 1 : 0)
  } finally {
    stop.dispose()
    await view.close()
  }
}
