/** What an import shows: how far it is, the records it rejected, and what it came to. */

import { once } from 'node:events'
import { createWriteStream, type WriteStream } from 'node:fs'
import type { ImportProgress, Rejected } from '../leads/import-each.ts'
import type { Log } from './log.ts'
import { bytes, count, isLively, paint, plural, writeFacts, writeJson, writeLine } from './output.ts'

const plainProgressMs = 10_000
/** So many rejected records are shown to a person; the rest are counted, and in --rejects. */
const shownMax = 50

export interface ImportView {
  onProgress(progress: ImportProgress): void
  onRejected(rejected: Rejected): Promise<void>
  end(what: string, summary: ImportCounts): Promise<void>
  close(): Promise<void>
}

export interface ImportCounts {
  read: number
  inserted: number
  updated: number
  unchanged: number
  rejected: number
  repeated: number
  erased?: number
  ignored: Record<string, number>
}

/** The rejected records as they came; those of CSV under their header, so that they can be mended and imported. */
class RejectsFile {
  private readonly stream: WriteStream
  private header: string | undefined

  constructor(path: string) {
    this.stream = createWriteStream(path)
  }

  async open(): Promise<void> {
    await once(this.stream, 'open')
  }

  async add({ raw, header }: Rejected): Promise<void> {
    const pieces: (string | Uint8Array)[] = [raw, '\n']
    const head = header === undefined ? undefined : Buffer.from(header).toString()
    if (head !== undefined && head !== this.header) {
      this.header = head
      pieces.unshift(head, '\n')
    }
    for (const piece of pieces) if (!this.stream.write(piece)) await once(this.stream, 'drain')
  }

  async close(): Promise<void> {
    this.stream.end()
    await once(this.stream, 'close')
  }
}

export async function createImportView(log: Log, options: { json?: true; rejects?: string }): Promise<ImportView> {
  const rejects = options.rejects === undefined ? undefined : new RejectsFile(options.rejects)
  await rejects?.open()
  const { default: ora } = isLively() ? await import('ora') : { default: undefined }
  const spinner = ora?.({ stream: process.stderr, discardStdin: false })
  let toldAt = performance.now()
  let shown = 0
  return {
    onProgress({ file, phase, records, bytesRead, bytesTotal }) {
      const share = bytesTotal ? `, ${Math.min(100, Math.floor((100 * bytesRead) / bytesTotal))} %` : ''
      const text =
        phase === 'merging'
          ? `${file}: merging ${plural(records, 'record')}`
          : `${file}: ${plural(records, 'record')}, ${bytes(bytesRead)}${share}`
      if (spinner) {
        spinner.text = text
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
    async end(what, summary) {
      spinner?.stop()
      if (options.json) return await writeJson({ type: 'summary', ...summary })
      if (shown > shownMax)
        await writeLine(
          `… and ${plural(shown - shownMax, 'rejected record')} more${rejects ? '' : '; --json lists all, --rejects FILE keeps them'}`,
        )
      await writeFacts(describe(what, summary))
    },
    async close() {
      spinner?.stop()
      await rejects?.close()
    },
  }
}

function describe(what: string, summary: ImportCounts): [string, string][] {
  const facts: [string, string][] = [['read', plural(summary.read, what)]]
  const names = ['inserted', 'updated', 'unchanged', 'rejected', 'repeated', 'erased'] as const
  const meanings = {
    repeated: ' replaced by a later record of the file',
    erased: ' kept out, since they were erased',
  } as Record<string, string>
  for (const name of names) {
    const value = summary[name]
    if (value === undefined || (value === 0 && !['inserted', 'updated', 'unchanged'].includes(name))) continue
    const painted = name === 'rejected' ? paint('yellow', count(value)) : count(value)
    facts.push([name, `${painted}${meanings[name] ?? ''}`])
  }
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
