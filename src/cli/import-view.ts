/** Shows an import to its operator: progress, rejected records, summary, exit code. */
import { bytes, formatCount, plural } from '../base/amounts.ts'
import { LeadpushError } from '../base/errors.ts'
import { spellOut } from '../base/printable.ts'
import { formatAwayMax } from '../db/away.ts'
import {
  type ImportCounts,
  type ImportOptions,
  type ImportOutcome,
  type ImportProgress,
  RefusedImport,
  type Rejected,
} from '../records/import-each.ts'
import type { CommandIo } from './command-io.ts'
import type { ExitCode } from './describe.ts'
import { boundHeap } from './heap.ts'
import { paint } from './painted.ts'
import { startProgress } from './progress.ts'
import { openRejects } from './rejects-file.ts'

/** A person is shown at most so many rejected records; the others are counted, and kept by --rejects. */
const shownMax = 50

interface ImportView {
  onProgress(progress: ImportProgress): void
  onRejected(rejected: Rejected): Promise<void>
  end(summary: Summary): Promise<void>
  /** Throws `failed` if not all rejected records could be kept. */
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
  rejects?: string
  mapFile?: string
  /** Nothing is written: it says so first. */
  dryRun?: true | undefined
}

async function createImportView(io: CommandIo, options: ImportViewOptions): Promise<ImportView> {
  const { rejects: path } = options
  const rejects = path === undefined ? undefined : openRejects(io, path, options)
  let text: string | undefined
  let shown = 0
  const progress = await startProgress(io, () => text && spellOut(text))
  const { isJson } = io.out
  if (options.dryRun && !isJson) await io.out.line('Dry run: nothing is written. An import would do this:')
  return {
    onProgress({ file, phase, records, bytesRead, bytesTotal }) {
      const share = bytesTotal ? `, ${Math.min(100, Math.floor((100 * bytesRead) / bytesTotal))} %` : ''
      text =
        phase === 'merging'
          ? `${file}: merging ${plural(records, 'record')}`
          : `${file}: ${plural(records, 'record')}, ${bytes(bytesRead)}${share}`
    },
    async onRejected(rejected) {
      await rejects?.add(rejected)
      const { file, line, path, message } = rejected
      if (isJson) await io.out.json({ type: 'rejected', file, line, path, message })
      else if (++shown <= shownMax)
        await io.out.line(`${file}:${line}  ${paint('yellow', 'rejected')}  ${path ? `${path} ` : ''}${message}`)
    },
    async end(summary) {
      rejects?.begin()
      progress.stop()
      if (isJson) return await io.out.json({ type: 'summary', ...summary, ...(options.dryRun && { dryRun: true }) })
      const where = rejects ? '' : '; --json lists all, --rejects FILE keeps them'
      await io.out.more(shown - shownMax, 'rejected record', where)
      for (const [path, { file, line, message }] of Object.entries(summary.examples ?? {})) {
        const what = path === 'postalCode' ? 'unplaced' : 'unreadable'
        await io.out.line(`${file}:${line}  ${paint('yellow', what)}  ${path} ${message}`)
      }
      await io.out.facts(describe(summary))
    },
    async finish() {
      rejects?.finish()
    },
    async close() {
      progress.stop()
      rejects?.close()
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

/** Doubtful values that went in as unknown, each kind with its first value. */
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

/** Runs an import of leads or users with all its output. */
export async function runImport(
  io: CommandIo,
  options: ImportViewOptions,
  importFiles: (
    options: ImportOptions & { onNote(text: string): void },
  ) => Promise<Omit<ImportOutcome<ImportCounts>, 'summary'> & { summary: Summary }>,
): Promise<ExitCode> {
  boundHeap()
  const view = await createImportView(io, options)
  const stop = io.stops.listen((signal) => io.log.info(`${signal}: nothing of the file under way is taken in.`))
  try {
    const { onRejected, onProgress } = view
    const onNote = (text: string) => io.log.info(text)
    const onAway = () =>
      io.log.warn(`The database is away: the file is begun again when it is back, for ${formatAwayMax()} at most.`)
    const stdin = options.files.includes('-') ? io.openStdin() : undefined
    const outcome = await importFiles({ signal: stop.signal, stdin, onRejected, onProgress, onAway, onNote }).catch(
      async (error) => {
        if (error instanceof RefusedImport) await view.end(error.summary)
        throw error
      },
    )
    await view.end(outcome.summary)
    if (outcome.stopped) io.log.warn('The import was stopped: nothing of the file under way went in.')
    if (outcome.broken) {
      const { file, message, hint } = outcome.broken
      // if the first file broke off, no later one was begun
      const isNone = options.files.length > 1 && outcome.summary.read === 0
      const nothing = `Nothing of ${isNone ? 'any' : 'this'} file went in.`
      throw new LeadpushError('failed', `${file}: ${message}`, { hint: hint ? `${nothing} ${hint}` : nothing })
    }
    await view.finish()
    return stop.exitCode ?? (outcome.summary.rejected > 0 ? 1 : 0)
  } finally {
    await view.close()
  }
}
