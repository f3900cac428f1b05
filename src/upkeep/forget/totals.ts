/** The sums of an erasure. Ids of versions are kept as far as memory allows: they tell how many deliveries had gone out with them. */
import { versionsCountedMax } from '../../base/limits.ts'
import type { Erased } from './erase.ts'

/** Sums over batches. */
export class Totals {
  listings = 0
  redacted = 0
  versions = 0
  triggers = 0
  ended = 0
  anew = 0
  readonly underWay: string[] = []
  readonly inHand: number[] = []
  readonly versionIds = new Set<number>()

  /** Whether `versionIds` has them all. */
  get isComplete(): boolean {
    return this.versionIds.size >= this.versions
  }

  add(erased: Partial<Erased>): void {
    const { versionIds = [], underWay = [], inHand = [] } = erased
    for (const name of ['listings', 'redacted', 'triggers', 'ended', 'anew'] as const) this[name] += erased[name] ?? 0
    this.versions += versionIds.length
    for (const id of versionIds) if (this.versionIds.size < versionsCountedMax) this.versionIds.add(id)
    for (const key of underWay) this.underWay.push(key)
    for (const id of inHand) this.inHand.push(id)
  }
}
