/**
 * The shapes that others meet: bodies that go out, and the lines that commands print with `--json`. Types alone, and all that the
 * package offers to import (`import type { DeliveryLine, FsboLead } from 'leadpush'`): fields may be added, none goes or changes.
 */

/** A listing on the wire: every field, with its default where the value is unknown. */
export interface FsboLead {
  /** The full URL of the listing's page: what identifies it. */
  href: string
  postalCode: string
  schemaVersion: string
  /** USD; 0: unknown, as in all numbers. */
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

export interface Query {
  type: 'zipcode' | 'text'
  value: string
  /** Miles. */
  radius: number
}

/** What a receiver gets. */
export interface DeliveryBody {
  queryList: Query[]
  fsbos: FsboLead[]
}

/** What a hook gets of a lead, always of one shape. */
export type NewLead = {
  /** Stable for the lead, whatever becomes of it. */
  id: string
  trigger: 'new_lead'
  /** When it was first imported: ISO 8601, UTC. */
  occurredAt: string
} & Omit<FsboLead, 'fullAddress'> & { fullAddress: string | null }

/** `push --json`, `preview --json`. */
export type PushLine = DeliveryLine | SkipLine | WarningLine | SummaryLine

export interface DeliveryLine {
  type: 'delivery'
  /** An e-mail; null once the user was removed. */
  user: string | null
  kind: 'weekly' | 'forced' | 'single' | 'subscription'
  /** Null in a preview, for what is not begun. */
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

export interface SkipLine {
  type: 'skip'
  /** Left out where a whole run is held back. */
  user?: string
  reason: string
}

export interface WarningLine {
  type: 'warning'
  user: string
  href: string
  message: string
}

export interface SummaryLine {
  type: 'summary'
  period: string
  /** These count users: with `skipped`, `already`, `owed`; the others count deliveries. */
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
  /** Of a preview, where something is planned for anybody. */
  leadsPerUser?: LeadsPerUser
}

/** How unlike what users get is: the fewest leads, the middle and the most. */
export interface LeadsPerUser {
  /** Users. */
  withoutLeads: number
  smallest: { user: string; leads: number }
  median: number
  largest: { user: string; leads: number }
}

/** `trigger --json`. */
export interface TriggerLine {
  type: 'trigger'
  integration: number
  hook: string
  href: string
  /** What it is sent under, every time. */
  webhookId: string
  /** `failed` is tried again; `removed`: the hook answered 410. */
  status: 'delivered' | 'failed' | 'abandoned' | 'removed'
  attempts: number
  httpStatus: number | null
  error: string | null
}

/** The last line of `trigger --json`: of the triggers that were due, what became of them. */
export interface TriggerSummaryLine {
  type: 'summary'
  due: number
  delivered: number
  failed: number
  abandoned: number
  removed: number
  /** Beyond the 300 newest of a hook: told, and never sent. */
  dropped: number
  /** Due and not sent: their hooks got a pause in this run, which they asked for or got for failing. */
  waiting: number
  seconds: number
}
