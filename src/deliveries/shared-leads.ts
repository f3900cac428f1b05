/**
 * What the queries of some users match together: each lead version once, at its place, so that what is known of it is looked up once
 * for all of them; and which of it the user has already whose turn it is. A version that is gone is undefined.
 */
import type { LeadInBody } from '../leads/lead-store.ts'

export interface LeadToPlan extends LeadInBody {
  leadId: number
  /** Of its JSON, as UTF-8. */
  bytes: number
}

/** `nextUser` comes before the first `take`. */
export class SharedLeads {
  private readonly leads: readonly (LeadToPlan | undefined)[]
  /** Of each place, the first place of the same lead, of which there may be several versions. */
  private readonly firstPlaces: Int32Array
  /** By first places: the number of the user who took it last. */
  private readonly takers: Int32Array
  private user = 0

  constructor(leads: readonly (LeadToPlan | undefined)[]) {
    this.leads = leads
    this.takers = new Int32Array(leads.length)
    this.firstPlaces = new Int32Array(leads.length)
    const placeOf = new Map<number, number>()
    for (const [place, lead] of leads.entries()) {
      const first = lead && placeOf.get(lead.leadId)
      if (lead && first === undefined) placeOf.set(lead.leadId, place)
      this.firstPlaces[place] = first ?? place
    }
  }

  /** From here on leads are taken for another user, who has none yet. */
  nextUser(): void {
    this.user++
  }

  /** The lead at `place`, unless the user has it, in this version or another, or it is gone. */
  take(place: number): LeadToPlan | undefined {
    const first = this.firstPlaces[place] as number
    if (this.takers[first] === this.user) return undefined
    this.takers[first] = this.user
    return this.leads[place]
  }
}
