/** Shows an import to its operator: progress, rejected records, summary, exit code. */
import { bytes, formatCount, plural } from '../base/amounts.ts'
import { LeadpushError } from '../base/errors.ts'
import { spellOut } from '../base/printable.ts'
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
/** At most so many unknown fields are named. */
const fieldsShown = 8

/** Of listings: `erased`, `filtered`, `gone`, `unplaced`, `unreadable` and `examples`; of users: `folded` and `unsubscribed`. */
interface OwnCounts {
  erased?: number
  filtered?: number
  gone?: number
  unplaced?: number
  folded?: number
  unsubscribed?: number
  unnamed?: number
}

type Summary = ImportOutcome<ImportCounts & OwnCounts>['summary'] & {
  unreadable?: Record<string, number>
  examples?: Record<string, { file: string; line: number; message: string; value: string }>
}

export interface ImportViewOptions {
  files: readonly string[]
  rejects?: string
  mapFile?: string
  /** What the records are of, and what names it. */
  of: { who: 'listing'; by: 'href' } | { who: 'user'; by: 'e-mail' }
  /** Whether so many rejected records, of those read, are no failure; absent: none is. */
  tolerate?: (rejected: number, read: number) => boolean
  /** Nothing is written: it says so first. */
  dryRun?: true | undefined
}

function describeProgress({ file, phase, records, bytesRead, bytesTotal }: ImportProgress): string {
  if (phase === 'merging') return `${file}: merging ${plural(records, 'record')}`
  const share = bytesTotal ? `, ${Math.min(100, Math.floor((100 * bytesRead) / bytesTotal))} %` : ''
  return `${file}: ${plural(records, 'record')}, ${bytes(bytesRead)}${share}`
}

async function writeSummary(io: CommandIo, summary: Summary): Promise<void> {
  for (const [path, { file, line, message }] of Object.entries(summary.examples ?? {})) {
    const what = path === 'postalCode' ? 'unplaced' : 'unreadable'
    await io.out.line(`${file}:${line}  ${paint('yellow', what)}  ${path} ${message}`)
  }
  await io.out.facts(describe(summary))
}

/** The counts in their order; those after `unchanged` are shown above 0. */
const meanings = {
  inserted: '',
  updated: '',
  unchanged: '',
  rejected: '',
  repeated: ' replaced by a later record of the file',
  erased: ' kept out, since they were erased',
  filtered: ' not taken by --where',
  gone: ' that no source has any more',
  folded: ' kept once: the same query twice with one user',
  unsubscribed: ' in none of the files',
} as const

function describe(summary: Summary): [string, string][] {
  const facts: [string, string][] = [['read', plural(summary.read, 'record')]]
  for (const name of Object.keys(meanings) as (keyof typeof meanings)[]) {
    const value = summary[name] ?? 0
    if (value === 0 && !['inserted', 'updated', 'unchanged'].includes(name)) continue
    const painted = name === 'rejected' ? paint('yellow', formatCount(value)) : formatCount(value)
    facts.push([name, `${painted}${meanings[name]}`])
  }
  facts.push(...describeDoubts(summary))
  const ignored = Object.keys(summary.ignored)
  const some = ignored.slice(0, fieldsShown).join(', ')
  const more = ignored.length > fieldsShown ? ', …' : ''
  if (ignored.length > 0) facts.push(['ignored', `${plural(ignored.length, 'unknown field')}: ${some}${more}`])
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
  const rejects = options.rejects === undefined ? undefined : openRejects(io, options.rejects, options)
  let doing: string | undefined
  let rejected = 0
  const progress = await startProgress(io, () => doing && spellOut(doing))
  if (options.dryRun && !io.out.isJson) await io.out.line('Dry run: nothing is written. An import would do this:')
  const stop = io.stops.listen((signal) => io.log.info(`${signal}: nothing of the file under way is taken in.`))
  const how = {
    signal: stop.signal,
    stdin: options.files.includes('-') ? io.openStdin() : undefined,
    onNote: (text: string) => io.log.info(text),
    onProgress(progress: ImportProgress) {
      doing = describeProgress(progress)
    },
    async onRejected(record: Rejected) {
      const { file, line, path, message } = record
      const text = `${file}:${line}  ${paint('yellow', 'rejected')}  ${path ? `${path} ` : ''}${message}`
      const shown = ++rejected <= shownMax ? text : []
      await io.out.result({ type: 'rejected', file, line, path, message }, shown)
      await rejects?.add(record)
    },
  }
  const end = async (summary: Summary) => {
    rejects?.begin()
    progress.stop()
    const line = { type: 'summary', ...summary, ...(options.dryRun && { dryRun: true }) }
    await io.out.result(line, async () => {
      const where = rejects ? '' : '; --json lists all, --rejects FILE keeps them'
      await io.out.more(rejected - shownMax, 'rejected record', where)
      await writeSummary(io, summary)
    })
  }
  try {
    const outcome = await importFiles(how).catch(async (error) => {
      if (error instanceof RefusedImport) await end(error.summary)
      throw error
    })
    await end(outcome.summary)
    if (outcome.stopped) io.log.warn('The import was stopped: nothing of the file under way went in.')
    if (outcome.broken) throw brokenOff(outcome.broken, options.files.length > 1 && outcome.summary.read === 0)
    rejects?.finish()
    const { read, rejected, unnamed = 0 } = outcome.summary
    const isTolerated = options.tolerate?.(rejected, read) ?? rejected === 0
    if (unnamed > 0) io.log.warn(describeUnnamed(unnamed, options.of))
    return stop.exitCode ?? (isTolerated && unnamed === 0 ? 0 : 1)
  } finally {
    rejects?.close()
  }
}

function describeUnnamed(unnamed: number, { who, by }: ImportViewOptions['of']): string {
  const records = `${plural(unnamed, 'rejected record')} ${unnamed === 1 ? 'has' : 'have'} no ${by} that can be read`
  return `No ${who} was taken away: ${records}, and may be any ${who}. Mend ${unnamed === 1 ? 'it' : 'them'}, or import again with --accept.`
}

/** `isFirst`: the first of several files broke off, and no later one was begun. */
function brokenOff(
  { file, message, hint }: NonNullable<ImportOutcome<ImportCounts>['broken']>,
  isFirst: boolean,
): LeadpushError {
  const nothing = `Nothing of ${isFirst ? 'any' : 'this'} file went in.`
  return new LeadpushError('failed', `${file}: ${message}`, { hint: hint ? `${nothing} ${hint}` : nothing })
}
