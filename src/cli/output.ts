/**
 * Writes the results of a command to standard output, as JSON lines or text, and copes with a reader that is slow or has gone.
 */
import { once } from 'node:events'
import { formatCount, plural } from '../base/amounts.ts'
import { codeOf } from '../base/errors.ts'
import { spellOut } from '../base/printable.ts'
import type { Column, Table } from '../base/table.ts'
import { isPlain } from '../base/terminal.ts'
import { gather } from './gather.ts'
import type { Io } from './io.ts'
import { escapeControls, lineBreak, paint, seenLength, spellUnsealed } from './painted.ts'
import { layOutTable } from './table.ts'

/** An object as one line, with control characters escaped for terminals. */
export const toJsonLine = (value: object): string => `${spellOut(JSON.stringify(value))}\n`

/** A value with its name. */
export type Fact = readonly [name: string, value: string]

/** How things of one kind are listed. */
interface Listing<T> {
  columns: readonly Column[]
  toRows(one: T): Table['rows']
  toLine(one: T): object
  none?: string
}

const thingsPerTable = 200

type OutputIo = Pick<Io, 'stdout' | 'env' | 'onExit'>

export class Output {
  private readonly io: OutputIo
  private readonly hasColours: boolean
  private isUnread = false
  /** Whether results are JSON lines. */
  isJson = false
  private lost: string | undefined
  private readonly gathered = gather((text) => void this.put(text))

  constructor(io: OutputIo) {
    this.io = io
    this.hasColours = io.stdout.isTTY === true && !isPlain(io.env)
    io.onExit(this.gathered.flush)
  }

  /** The reader has gone: later output is dropped. */
  stop(): void {
    this.isUnread = true
  }

  /** For output that cannot be repeated: if it cannot be written, or the reader has gone, `told` is reported, and the exit code is 1. */
  noteLoss(told: string): void {
    this.lost = told
  }

  /** The report for the loss of output that cannot be written; undefined if nothing is lost. */
  get loss(): string | undefined {
    return this.lost
  }

  /** Waits for a slow reader. */
  async write(text: string | Uint8Array): Promise<void> {
    this.gathered.flush()
    if (this.put(text)) return
    // the only error is a reader that has gone
    await once(this.io.stdout, 'drain').catch(() => {})
  }

  /** Returns whether there is room for more. */
  private put(text: string | Uint8Array): boolean {
    if (this.isUnread) return true
    const { stdout } = this.io
    try {
      return stdout.write(text)
    } catch (error) {
      if (codeOf(error) === undefined) throw error
      // if standard output is a file, Node.js 20 throws; for a pipe or a terminal it emits an event
      stdout.emit('error', error)
      return true
    }
  }

  private toText(lines: readonly string[]): string {
    return lines.map((line) => `${escapeControls(line, this.hasColours)}\n`).join('')
  }

  async line(...texts: string[]): Promise<void> {
    await this.write(this.toText(texts))
  }

  /** Sentences, each in lines that fit the terminal. */
  async paragraph(...texts: string[]): Promise<void> {
    await this.line(...texts.map((text) => this.wrap(text, 0)))
  }

  async json(value: object): Promise<void> {
    await this.write(toJsonLine(value))
  }

  /** A result: with `--json` the object, else its lines for people, or a function that writes these. */
  async result(value: object, text: string | readonly string[] | (() => Promise<void>)): Promise<void> {
    if (this.isJson) await this.json(value)
    else if (typeof text === 'function') await text()
    else await this.line(...[text].flat())
  }

  /** The same for results that come in bursts: waits for nobody, and writes together what comes at one moment. */
  resultSoon(value: object, ...texts: string[]): void {
    this.gathered.add(this.isJson ? toJsonLine(value) : this.toText(texts))
  }

  /** Says how many things are not shown, if any; `plural` names them. */
  async more(count: number, noun?: string, where = '; --json lists all'): Promise<void> {
    if (count > 0)
      await this.paragraph(`… and ${noun === undefined ? formatCount(count) : plural(count, noun)} more${where}`)
  }

  /** A heading, after a blank line. */
  async title(text: string): Promise<void> {
    await this.line('', paint('bold', text))
  }

  /** Two columns: names and values; false is none. */
  async facts(facts: readonly (Fact | false)[]): Promise<void> {
    const shown = facts.filter((fact) => fact !== false)
    const width = Math.max(...shown.map(([name]) => name.length))
    for (const [name, value] of shown) await this.line(`${paint('dim', name.padEnd(width))}  ${value}`)
  }

  /** A table that fits the terminal: wide columns cut long texts with an ellipsis. */
  async table(table: Table): Promise<void> {
    const { hasColours } = this
    await this.write(await layOutTable(table, { room: this.io.stdout.columns || undefined, hasColours }))
  }

  /**
   * Any number of things, as they are found: with --json a line each, else in tables; a table needs all its rows before it is printed, so
   * many become several. `none` is said if there are none.
   */
  async list<T>(found: AsyncIterable<T>, { columns, toRows, toLine, none }: Listing<T>): Promise<void> {
    let some: T[] = []
    let isNone = true
    const write = async () => {
      const rows = this.isJson ? [] : some.flatMap(toRows)
      if (rows.length > 0) await this.table({ columns, rows })
      if (this.isJson) await this.write(some.map((one) => toJsonLine(toLine(one))).join(''))
      some = []
    }
    for await (const one of found) {
      isNone = false
      if (some.push(one) === thingsPerTable) await write()
    }
    await write()
    if (isNone && none !== undefined && !this.isJson) await this.line(none)
  }

  /** Text, painted or not, in lines that fit the terminal, if there is one; the second and further ones are indented by `indent` spaces. */
  wrap(text: string, indent: number): string {
    const { isTTY, columns = 0 } = this.io.stdout
    const room = isTTY && columns > 0 ? columns : Number.POSITIVE_INFINITY
    const lines = ['']
    for (const word of spellUnsealed(text).split(' ')) {
      const line = lines.at(-1) ?? ''
      const more = line === '' ? word : `${line} ${word}`
      if (line !== '' && indent + seenLength(more) > room) lines.push(word)
      else lines[lines.length - 1] = more
    }
    return lines.join(`${lineBreak}${' '.repeat(indent)}`)
  }
}
