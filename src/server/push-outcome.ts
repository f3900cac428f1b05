/** Reads from the lines of `push --json` how the deliveries of a child process ended, and whether it made progress. */
import { formatCount } from '../base/amounts.ts'
import type { DeliveryLine, SkipLine } from '../index.ts'

const textCharsMax = 500
const shown = ['delivered', 'failed', 'unknown', 'pending', 'held back'] as const

/** Takes the lines of one process. */
export class PushOutcome {
  private readonly isForAll: boolean
  private readonly counts: Record<(typeof shown)[number], number> = {
    ...{ delivered: 0, failed: 0, unknown: 0, pending: 0, 'held back': 0 },
  }
  /** The last delivery, for a process that made only one. */
  private only: string | undefined
  private lastError: string | undefined
  /** Why the whole push was held. */
  private heldBy: string | undefined

  constructor(isForAll: boolean) {
    this.isForAll = isForAll
  }

  /** Lines of other types, and one that a kill has torn, are ignored. */
  note(line: string): void {
    if (line.startsWith('{"type":"delivery"')) this.noteDelivery(parse(line))
    if (line.startsWith('{"type":"skip"')) this.noteSkip(parse(line))
  }

  private noteDelivery(line: DeliveryLine | undefined): void {
    if (line === undefined || line.status === 'planned') return
    const { status, attempts, error } = line
    this.counts[status]++
    if (error !== null) this.lastError = error
    this.only = `${status}${attempts > 1 ? ` with ${attempts} attempts` : ''}${error === null ? '' : `: ${error}`}`
  }

  private noteSkip(line: SkipLine | undefined): void {
    if (line === undefined) return
    if (line.user === undefined) this.heldBy = line.reason
    else {
      this.counts['held back']++
      this.lastError = line.reason
    }
  }

  private get deliveries(): number {
    const { delivered, failed, unknown, pending } = this.counts
    return delivered + failed + unknown + pending
  }

  /**
   * A process for one user has made progress if it made an attempt, since the next attempt is due later. A process for all must have
   * ended deliveries: otherwise it might be started again and again, and take up and give back the same ones for ever.
   */
  get isFruitless(): boolean {
    const { deliveries, counts, heldBy } = this
    return this.isForAll ? heldBy !== undefined || deliveries === counts.pending : deliveries === 0
  }

  /** The outcome in one line; undefined if there is nothing to report. */
  get text(): string | undefined {
    const { counts, lastError, heldBy } = this
    const counted = shown.flatMap((name) => (counts[name] === 0 ? [] : [`${formatCount(counts[name])} ${name}`]))
    if (lastError !== undefined) counted.push(`the last error: ${lastError}`)
    const isOne = this.deliveries === 1 && counts['held back'] === 0
    const told = isOne ? this.only : counted.join(', ')
    return [told, heldBy].filter(Boolean).join('; ').slice(0, textCharsMax) || undefined
  }
}

function parse<Line>(line: string): Line | undefined {
  try {
    return JSON.parse(line)
  } catch {
    return undefined
  }
}
