/**
 * The types that others import (`import type { DeliveryLine, FsboLead } from 'leadpush'`): bodies that leadpush sends, and
 * lines that commands print with `--json`. Fields may be added; none goes or changes.
 */

/** A listing in a delivery: every field, with its default where the value is unknown. */
export interface FsboLead {
  /** The full URL of the listing's page, which identifies it. */
  href: string
  postalCode: string
  schemaVersion: string
  /** USD; 0 means unknown, as in all numbers. */
  price: number
  rawListingDate: string | null
  sqft: number
  bedrooms: number
  bathrooms: number
  yearBuilt: number
  description: string | null
  propertyType: string | null
  contactName: string | null
  contactPhone: string | null
  contactEmail: string | null
  /** Left out where unknown: the one field without a default. */
  fullAddress?: string
  address: string | null
  secondAddress: string | null
  city: string | null
  state: string | null
  country: string | null
}

/** One of a user's queries. */
export interface Query {
  type: 'zipcode' | 'text'
  value: string
  /** Miles. */
  radius: number
}

/** The body of a delivery to the receiver. */
export interface DeliveryBody {
  queryList: Query[]
  fsbos: FsboLead[]
}

/** The kinds of triggers. */
export type TriggerKind = 'new_lead' | 'price_change' | 'lead_gone'

/** The body of a `new_lead` to a hook: a flat object, always of one shape. */
export type NewLead = {
  /** Identifies the lead; it stays the same when the lead changes. */
  id: string
  trigger: 'new_lead'
  /** When it was first imported: ISO 8601, UTC. */
  occurredAt: string
} & FlatFields

/** The body of a `price_change` to a hook: likewise flat, with the price before. */
export type PriceChange = {
  /** Identifies the change; each change of a lead has another, and none is the lead's own. */
  id: string
  trigger: 'price_change'
  /** When the import began that brought the price: ISO 8601, UTC. */
  occurredAt: string
  /** The price when the hook's trigger was last looked for. */
  previousPrice: number
} & FlatFields

/** The body of a `lead_gone` to a hook: the lead as it was when it went from its feed. */
export type LeadGone = {
  /** Identifies this time that the lead went; each time has another, and none is the lead's own. */
  id: string
  trigger: 'lead_gone'
  /** When the import began that lacked the lead: ISO 8601, UTC. */
  occurredAt: string
} & FlatFields

/** The body of any trigger. */
export type FlatLead = NewLead | PriceChange | LeadGone

/** The fields of a lead in a trigger: every one is there. */
type FlatFields = Omit<FsboLead, 'fullAddress'> & { fullAddress: string | null }

/** A line of `push --json` or `preview --json`. */
export type PushLine = DeliveryLine | SkipLine | WarningLine | SummaryLine

/** One delivery and its outcome so far. */
export interface DeliveryLine {
  type: 'delivery'
  /** The user's e-mail; null once the user was removed. */
  user: string | null
  kind: 'weekly' | 'forced' | 'single' | 'subscription'
  /** Null in a preview where the delivery has not begun. */
  idempotencyKey: string | null
  /** The ISO week of its run: `2026-W47`. */
  period: string
  part: number
  parts: number
  queries: number
  leads: number
  bytes: number
  status: 'pending' | 'delivered' | 'failed' | 'unknown' | 'planned'
  attempts: number
  httpStatus: number | null
  error: string | null
}

/** A user who gets nothing, or a run that is held back, and why. */
export interface SkipLine {
  type: 'skip'
  /** Left out where a whole run is held back. */
  user?: string
  reason: string
}

/** A listing that a user's push had to leave out. */
export interface WarningLine {
  type: 'warning'
  user: string
  /** The listing that it is about; null: it is about the answer of the receiver. */
  href: string | null
  message: string
}

/** The last line of `push --json` and `preview --json`. */
export interface SummaryLine {
  type: 'summary'
  period: string
  /** `users`, `skipped`, `already`, `elsewhere` and `owed` count users, `deliveries` to `unknown` deliveries. */
  users: number
  deliveries: number
  delivered: number
  failed: number
  unknown: number
  skipped: number
  already: number
  elsewhere: number
  owed: number
  leads: number
  bytes: number
  seconds: number
  /** About how many attempts a second the receiver allowed; only if it asked for less. */
  allowedPerSecond?: number
  /** Listings that were left out for another of their house, summed over users; only with `LEADPUSH_SAME_HOUSE=once`. */
  sameHouse?: number
  /** Only in a preview, where something is planned for some user. */
  leadsPerUser?: LeadsPerUser
}

/** How many leads users get: the fewest, the median and the most. */
export interface LeadsPerUser {
  /** How many users get no leads. */
  withoutLeads: number
  smallest: { user: string; leads: number }
  median: number
  largest: { user: string; leads: number }
}

/** A line of `trigger --json`: one attempt of a trigger. */
export interface TriggerLine {
  type: 'trigger'
  trigger: TriggerKind
  integration: number
  hook: string
  href: string
  /** The trigger's `webhook-id`, the same at every attempt. */
  webhookId: string
  /** `failed` is tried again; `removed`: the hook answered 410 and was removed. */
  status: 'delivered' | 'failed' | 'abandoned' | 'removed'
  attempts: number
  httpStatus: number | null
  error: string | null
}

/** The last line of `trigger --json`: what became of the triggers that were due. */
export interface TriggerSummaryLine {
  type: 'summary'
  due: number
  delivered: number
  failed: number
  abandoned: number
  removed: number
  /** Triggers beyond the 300 newest of a kind of a hook: counted, and kept for `--again`. */
  dropped: number
  /** Ended without an attempt: the listing, or the hook, is no more, or the listing is back. */
  ended: number
  /** Due but not sent, because their hooks got a pause in this run, by their own wish or for failing. */
  waiting: number
  /** Due but not sent, because the run was stopped or its time was up. `due` is the sum of all but `dropped`. */
  left: number
  seconds: number
}
