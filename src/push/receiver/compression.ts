/**
 * Decides whether first attempts go out compressed (contract 4.17): by the setting and, with `auto`, by the receiver's answers to
 * this process or, through the receiver's row, to another.
 */
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { Known } from '../ledger.ts'

export type CompressMode = 'auto' | 'gzip' | 'off'

/** The decision for the attempts of one process. */
export class Compression {
  private readonly mode: CompressMode
  private takes = false
  /** A 415 came lately: no `Accept-Encoding` counts then. */
  private isRefused = false

  constructor(mode: CompressMode) {
    this.mode = mode
  }

  get isOn(): boolean {
    return this.mode === 'gzip' || (this.mode === 'auto' && this.takes)
  }

  learn({ takes, isRefused }: Known['gzip']): void {
    this.takes = takes
    this.isRefused = isRefused
  }

  /** Takes the outcome of an attempt. Returns whether the receiver takes compressed deliveries, if that is news. */
  note({ httpStatus, acceptsGzip }: Pick<AttemptOutcome, 'httpStatus' | 'acceptsGzip'>): boolean | undefined {
    if (this.mode !== 'auto') return undefined
    const takes = httpStatus === 415 ? false : acceptsGzip && !this.isRefused ? true : this.takes
    if (takes === this.takes) return undefined
    this.takes = takes
    this.isRefused ||= !takes
    return takes
  }
}
