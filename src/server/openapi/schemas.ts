/** The schemas of the OpenAPI document, each with an example; made from the schemas that check bodies and type answers. */
import * as z from 'zod'
import type { TriggerKind } from '../../index.ts'
import { triggerKinds } from '../../integrations/hooks.ts'
import { buildExampleLead } from '../../leads/example-lead.ts'
import { deliveredLeadSchema } from '../../leads/lead.ts'
import { deliveryBodySchema } from '../../receiver-kit/body/body-schema.ts'
import type { Kind } from '../../triggers/kinds/kind.ts'
import { kinds } from '../../triggers/kinds/kinds.ts'
import { deliveredQuerySchema } from '../../users/query.ts'
import {
  doneSchema,
  refusalSchema,
  sampleAnswerSchema,
  subscribeAnswerSchema,
  subscribeBodySchema,
  testAnswerSchema,
  unsubscribeBodySchema,
} from '../answers.ts'

/** The schemas of the bodies of triggers, by the names that their kinds give them. */
type TriggerSchemas = { [K in TriggerKind as (typeof kinds)[K]['name']]: (typeof kinds)[K]['schema'] }

const schemas = {
  Done: doneSchema,
  Refusal: refusalSchema,
  TestAnswer: testAnswerSchema,
  SampleAnswer: sampleAnswerSchema,
  SubscribeBody: subscribeBodySchema,
  SubscribeAnswer: subscribeAnswerSchema,
  UnsubscribeBody: unsubscribeBodySchema,
  Delivery: deliveryBodySchema,
  Query: deliveredQuerySchema,
  FsboLead: deliveredLeadSchema,
  ...(Object.fromEntries(triggerKinds.map((kind) => [kinds[kind].name, kinds[kind].schema])) as TriggerSchemas),
} satisfies Record<string, z.ZodType>

/** The names below `components.schemas`. */
export type SchemaName = keyof typeof schemas

const hook = { id: '4c9c5a3e-2f0b-4b7e-9d0e-6f1f3c1f2a55', hookUrl: 'https://hooks.example.com/new-lead' }
const lead = buildExampleLead(1)
const buildExample = (trigger: TriggerKind) => {
  const kind: Kind = kinds[trigger]
  return kind.build(lead, {
    occurredAt: new Date('2026-01-01T00:00:00Z'),
    payload: kind.samplePayload?.(lead) ?? null,
  })
}

type TriggerExamples = { [N in keyof TriggerSchemas]: z.input<TriggerSchemas[N]> }

const examples: { [N in SchemaName]: z.input<(typeof schemas)[N]> } = {
  Done: { ok: true, msg: 'The hook is removed.' },
  Refusal: { ok: false, msg: 'The API key is unknown or was revoked.' },
  TestAnswer: {
    ok: true,
    msg: 'The integration is connected.',
    date: '2026-01-01T00:00:00.000Z',
    userEmail: 'user@example.com',
  },
  SampleAnswer: { ok: true, msg: 'Leads as the trigger `new_lead` sends them.', leads: [buildExample('new_lead')] },
  SubscribeBody: { hookUrl: hook.hookUrl, trigger: 'new_lead' },
  SubscribeAnswer: { ok: true, msg: 'The hook is registered.', id: hook.id },
  UnsubscribeBody: { id: hook.id },
  Delivery: { queryList: [{ type: 'zipcode', value: '78704', radius: 25 }], fsbos: [lead] },
  Query: { type: 'zipcode', value: '78704', radius: 25 },
  FsboLead: lead,
  ...(Object.fromEntries(triggerKinds.map((kind) => [kinds[kind].name, buildExample(kind)])) as TriggerExamples),
}

const refTo = (name: string) => `#/components/schemas/${name}`

/** The `content` of a body that has one of the schemas. */
export const buildContent = (name: SchemaName, example: unknown = examples[name]) => ({
  'application/json': { schema: { $ref: refTo(name) }, example },
})

/** `components.schemas`. With `io: input`, because answers may gain fields and so must not be closed to others. */
export function buildSchemas(): Record<string, object> {
  const registry = z.registry<{ id: string }>()
  for (const [id, schema] of Object.entries(schemas)) registry.add(schema, { id })
  const built = z.toJSONSchema(registry, {
    io: 'input',
    uri: refTo,
    // the format says the same in fewer characters
    override: ({ jsonSchema }) => {
      if (jsonSchema.format === 'date-time') delete jsonSchema.pattern
    },
  })
  return Object.fromEntries(
    Object.entries(built.schemas).map(([name, { $schema: _, $id: __, ...json }]) => [name, json]),
  )
}
