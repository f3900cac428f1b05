/** The spread of leads per user: the fewest, the median and the most, in memory that does not grow with the users. */

import type { LeadsPerUser } from '../../index.ts'

export class Spread {
  /** Users by number of leads. A user has at most some 100,000 leads, which bounds the entries. */
  private readonly usersWith = new Map<number, number>()
  private users = 0
  private smallest: { user: string; leads: number } | undefined
  private largest: { user: string; leads: number } | undefined

  add(user: string, leads: number): void {
    this.users++
    this.usersWith.set(leads, (this.usersWith.get(leads) ?? 0) + 1)
    if (this.smallest === undefined || leads < this.smallest.leads) this.smallest = { user, leads }
    if (this.largest === undefined || leads > this.largest.leads) this.largest = { user, leads }
  }

  /** Undefined without users. */
  get(): LeadsPerUser | undefined {
    const { smallest, largest } = this
    if (!smallest || !largest) return undefined
    return { withoutLeads: this.usersWith.get(0) ?? 0, smallest, median: this.median(), largest }
  }

  /** The lower of the two in the middle. */
  private median(): number {
    let left = Math.ceil(this.users / 2)
    for (const leads of [...this.usersWith.keys()].sort((a, b) => a - b)) {
      left -= this.usersWith.get(leads) ?? 0
      if (left <= 0) return leads
    }
    return 0
  }
}
