/**
 * The leads that the queries of some users match together, each version at one index, so that it is looked up once for all of
 * them; and which leads the current user already has. A version that is gone is undefined.
 */
import type { LeadInBody } from '../leads/lead-store.ts'

export interface LeadToPlan extends LeadInBody {
  leadId: number
  /** The length of its JSON as UTF-8. */
  bytes: number
}

/** Hands each user a lead at most once. `nextUser` comes before the first `take`. */
export class SharedLeads {
  private readonly leads: readonly (LeadToPlan | undefined)[]
  /** At each index: the first index of the same lead, of which there may be several versions. */
  private readonly firstIndexes: Int32Array
  /** By first index: the number of the user who took the lead last. */
  private readonly takers: Int32Array
  private user = 0

  constructor(leads: readonly (LeadToPlan | undefined)[]) {
    this.leads = leads
    this.takers = new Int32Array(leads.length)
    this.firstIndexes = new Int32Array(leads.length)
    const indexOf = new Map<number, number>()
    for (const [index, lead] of leads.entries()) {
      const first = lead && indexOf.get(lead.leadId)
      if (lead && first === undefined) indexOf.set(lead.leadId, index)
      this.firstIndexes[index] = first ?? index
    }
  }

  /** Leads are taken for the next user from here on, who has none yet. */
  nextUser(): void {
    this.user++
  }

  /** The lead at `index`; undefined where the user already has a version of it, or the version is gone. */
  take(index: number): LeadToPlan | undefined {
    const first = this.firstIndexes[index] as number
    if (this.takers[first] === this.user) return undefined
    this.takers[first] = this.user
    return this.leads[index]
  }
}
