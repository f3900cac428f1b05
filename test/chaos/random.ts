/** Numbers that look random and are the same for the same seed: what goes wrong in a round can be made to happen again. */
import { createHash } from 'node:crypto'

export class Random {
  private state: number

  constructor(...seed: (string | number)[]) {
    this.state = createHash('sha256').update(JSON.stringify(seed)).digest().readUInt32LE()
  }

  /** From 0 to below 1 (mulberry32). */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.state ^ (this.state >>> 15), this.state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  /** A whole number, both ends included. */
  from(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  one<T>(values: readonly T[]): T {
    return values[this.from(0, values.length - 1)] as T
  }
}
