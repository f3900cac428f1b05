/** A kind of trigger: one record with everything that is special to the kind, and the parts for such records. */
import { hash } from 'node:crypto'
import type { RawBuilder } from 'kysely'
import * as z from 'zod'
import type { FlatLead, TriggerKind } from '../../index.ts'
import { type DeliveredLead, deliveredFields, deliveredLeadShape, textSchema } from '../../leads/lead.ts'
import type { Live } from '../../matching/listed.ts'

/** The event of a trigger: its time, and the data that the kind keeps of it; null if the lead says everything. */
export interface TriggerEvent {
  occurredAt: Date
  payload: Record<string, number> | null
}

/** The range of a look: the imports after `since` and up to `upTo`, whose versions all lie above `base`. */
export interface LookRange {
  base: RawBuilder<unknown>
  since: number
  upTo: number
  /** SQL: whether the listing in the row `s` of `lead_seen` is live. */
  listed: RawBuilder<boolean>
  sameHouse: Live['sameHouse'] | undefined
  /** SQL: the columns that the look needs of the lead, the row `l` of `leads`. */
  lead: RawBuilder<unknown>
}

/** The fate of a due trigger: it is sent, waits until an import changes that, or ends unsent. */
export type Fate = 'send' | 'wait' | 'end'

export interface Kind<Name extends string = string> {
  /** The name of the body's schema in the OpenAPI document. */
  name: Name
  schema: z.ZodType<FlatLead>
  /**
   * SQL: news for hooks, with the columns `lead`, version, from_import_id, import_id, occurred_at, payload, gone_at. A row is news for
   * hooks that were looked at up to an import from `from_import_id` on and before `import_id`; with `gone_at` for those alone to which a
   * `lead_gone` of that time was due. Versions rise with recency.
   */
  findFresh(range: LookRange): RawBuilder<unknown>
  /** SQL: the fate of trigger `t`, whose lead has the row `s` of `lead_seen`. Without it a trigger waits until its lead is live. */
  fate?: RawBuilder<Fate>
  /** The body. Its `id` follows from the event alone. */
  build(lead: DeliveredLead, event: TriggerEvent): FlatLead
  /** A made-up payload for a sample of the shape, if the event has one. */
  samplePayload?(lead: DeliveredLead): TriggerEvent['payload']
  words: {
    /** `A new lead to a hook`: the title of the request. */
    what: string
    /** `once for each new lead`. */
    each: string
  }
}

const fieldsOf = (lead: DeliveredLead) =>
  Object.fromEntries(deliveredFields.map(({ name }) => [name, lead[name] ?? null]))

/** The flat object of a kind; `id`: the texts and numbers from which its id follows; `own`: its own fields. */
export const flatten = (
  trigger: TriggerKind,
  lead: DeliveredLead,
  { occurredAt }: TriggerEvent,
  id: readonly (string | number)[],
  own: object = {},
): FlatLead =>
  ({
    id: hash('sha256', id.join('\n')).slice(0, 32),
    trigger,
    occurredAt: occurredAt.toISOString(),
    ...own,
    ...fieldsOf(lead),
  }) as FlatLead

/** The schema of a flat object. */
export const flatSchema = (
  trigger: TriggerKind,
  { id, occurredAt }: { id: string; occurredAt: string },
  own: z.ZodRawShape = {},
) =>
  z.object({
    id: z.string().meta({ description: id }),
    trigger: z.literal(trigger),
    occurredAt: z.iso.datetime().meta({ description: occurredAt }),
    ...own,
    ...deliveredLeadShape,
    fullAddress: textSchema.nullable(),
  }) as unknown as z.ZodType<FlatLead>
