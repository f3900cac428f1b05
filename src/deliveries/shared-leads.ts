/**
 * The leads that the queries of some users match, each version at one index, so that it is looked up once for all of them; and the leads
 * that the current user already has. A deleted version is undefined.
 */
import type { LeadInBody } from '../leads/lead-store.ts'

export interface LeadToPlan extends LeadInBody {
  leadId: number
  /** The length of its JSON in UTF-8. */
  bytes: number
}

/** Hands each user a lead at most once, and one lead of a house. `nextUser` comes before the first `take`. */
export class SharedLeads {
  private readonly leads: readonly (LeadToPlan | undefined)[]
  /** The houses of leads, by id, if several of these leads are of one house (contract 4.20). */
  private readonly rivals: ReadonlyMap<number, string>
  /** At each index: the first index of the same lead, of which there may be several versions. */
  private readonly firstIndexes: Int32Array
  /** By first index: the number of the user who took the lead last. */
  private readonly takers: Int32Array
  private user = 0
  /** The leads that the current user does not get because of another one of their house. */
  leftOut: LeadToPlan[] = []

  constructor(leads: readonly (LeadToPlan | undefined)[], rivals: ReadonlyMap<number, string> = new Map()) {
    this.leads = leads
    this.rivals = rivals
    this.takers = new Int32Array(leads.length)
    this.firstIndexes = new Int32Array(leads.length)
    const indexOf = new Map<number, number>()
    for (const [index, lead] of leads.entries()) {
      const first = lead && indexOf.get(lead.leadId)
      if (lead && first === undefined) indexOf.set(lead.leadId, index)
      this.firstIndexes[index] = first ?? index
    }
  }

  /** From here on leads are taken for the next user, who has none yet. `lists`: the indexes that the user's queries match. */
  nextUser(lists: readonly ArrayLike<number>[]): void {
    this.user++
    this.leftOut = []
    if (this.rivals.size > 0) this.leaveOut(lists)
  }

  /** The lead at `index`; undefined if the user already has a version of it or a lead of its house, or if the version is deleted. */
  take(index: number): LeadToPlan | undefined {
    const first = this.firstIndexes[index] as number
    if (this.takers[first] === this.user) return undefined
    this.takers[first] = this.user
    return this.leads[index]
  }

  /** The lead of a house that was imported first counts; it has the lowest id. The others are treated as taken. */
  private leaveOut(lists: readonly ArrayLike<number>[]): void {
    const firstOf = new Map<string, number>()
    const contested: { lead: LeadToPlan; house: string; index: number }[] = []
    for (const indexes of lists) {
      for (let at = 0; at < indexes.length; at++) {
        const index = indexes[at] as number
        const lead = this.leads[index]
        const house = lead && this.rivals.get(lead.leadId)
        if (lead === undefined || house === undefined) continue
        contested.push({ lead, house, index })
        firstOf.set(house, Math.min(lead.leadId, firstOf.get(house) ?? lead.leadId))
      }
    }
    for (const { lead, house, index } of contested) {
      if (firstOf.get(house) !== lead.leadId && this.take(index) !== undefined) this.leftOut.push(lead)
    }
  }
}
