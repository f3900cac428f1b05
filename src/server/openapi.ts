/** The OpenAPI 3.1 document: the endpoints, the delivery and the triggers, from the schemas that check and type them. */
import { z } from 'zod'
import { deliveryBodySchema } from '../deliveries/body-schema.ts'
import { flatLeadSchema } from '../integrations/flat-lead.ts'
import { packageVersion } from '../root.ts'
import {
  refusalSchema,
  sampleAnswerSchema,
  subscribeAnswerSchema,
  subscribeBodySchema,
  testAnswerSchema,
  unsubscribeAnswerSchema,
  unsubscribeBodySchema,
} from './answers.ts'

const schemas = {
  Refusal: refusalSchema,
  TestAnswer: testAnswerSchema,
  SampleAnswer: sampleAnswerSchema,
  SubscribeBody: subscribeBodySchema,
  SubscribeAnswer: subscribeAnswerSchema,
  UnsubscribeBody: unsubscribeBodySchema,
  UnsubscribeAnswer: unsubscribeAnswerSchema,
  Delivery: deliveryBodySchema,
  NewLead: flatLeadSchema,
} satisfies Record<string, z.ZodType>

type SchemaName = keyof typeof schemas

const content = (name: SchemaName) => ({
  'application/json': { schema: { $ref: `#/components/schemas/${name}` } },
})

/** Of `io: input`, since answers may gain fields: what is there stays. */
function toJsonSchema(schema: z.ZodType): object {
  const { $schema: _, ...json } = z.toJSONSchema(schema, {
    io: 'input',
    // a format says the same in fewer characters
    override: ({ jsonSchema }) => {
      if (jsonSchema.format === 'date-time') delete jsonSchema.pattern
    },
  })
  return json
}

const refusals = {
  401: 'The API key is unknown or was revoked.',
  413: 'The body is too large.',
  422: 'The API key or something else that is needed is missing or not acceptable.',
  429: 'Too many requests with the key, or too many bad ones from the address.',
  503: 'The database is away for the moment.',
} as const

const retryAfter = { 'Retry-After': { description: 'Seconds.', schema: { type: 'integer', minimum: 1 } } }

function buildResponses(answer: SchemaName): object {
  const refused = Object.entries(refusals).map(([status, description]) => [
    status,
    { description, ...(/429|503/.test(status) && { headers: retryAfter }), content: content('Refusal') },
  ])
  return { 200: { description: 'It is done.', content: content(answer) }, ...Object.fromEntries(refused) }
}

const text = { type: 'string', minLength: 1 }
const apiKey = { name: 'api_key', in: 'query', required: true, description: 'Of the integration.', schema: text }
const hookId = { name: 'id', in: 'query', required: false, description: 'Which hook.', schema: text }
const header = (name: string, description: string, schema: object) => ({
  name, in: 'header', required: true, description, schema,
}) // biome-ignore format: short
const ascii = (most: number) => ({ type: 'string', pattern: `^[!-~]{1,${most}}$` })

const delivery = {
  summary: 'A delivery of leads to the receiver',
  description:
    'POSTed to LEADPUSH_RECEIVER_URL. At most 5,000,000 bytes; at most two attempts with one key and one body.',
  parameters: [
    header('X-Service-API-Key', "The receiver's key of the user.", ascii(50)),
    header('X-Data-Source', 'Who sends.', ascii(100)),
    header('X-Idempotency-Key', 'Of the delivery; the second attempt carries the same.', ascii(64)),
  ],
  requestBody: { required: true, content: content('Delivery') },
  responses: {
    '2XX': { description: 'It is taken.' },
    default: { description: 'It is not; one more attempt follows.' },
  },
}

const newLead = {
  summary: 'A trigger to a hook',
  description: 'POSTed to the URL that `subscribe` registered, signed as Standard Webhooks 1.0 has it.',
  parameters: [
    header('webhook-id', 'The same for each try of one trigger.', text),
    header('webhook-timestamp', 'Seconds since 1970.', { type: 'string', pattern: '^[0-9]+$' }),
    header('webhook-signature', '`v1,` and a base64 HMAC-SHA256, with the signing secret of the integration.', text),
  ],
  requestBody: { required: true, content: content('NewLead') },
  responses: {
    '2XX': { description: 'It is taken.' },
    410: { description: 'The hook is removed.' },
    default: { description: 'It is tried again later.' },
  },
}

export function buildOpenapi({ automation }: { automation: string }): object {
  const operation = (operationId: string, summary: string, answer: SchemaName, more: object = {}) => ({
    operationId,
    summary,
    parameters: [apiKey],
    ...more,
    responses: buildResponses(answer),
  })
  const body = (name: SchemaName, required: boolean) => ({ requestBody: { required, content: content(name) } })
  const prefix = `/api/extern/${automation}`
  return {
    openapi: '3.1.0',
    info: { title: 'leadpush', version: packageVersion, summary: 'For-sale-by-owner leads to receivers and hooks.' },
    servers: [{ url: '/' }],
    paths: {
      [`${prefix}/test`]: { get: operation('test', 'Checks that the integration is connected.', 'TestAnswer') },
      [`${prefix}/sample`]: { get: operation('sample', 'Three leads, to set up a workflow with.', 'SampleAnswer') },
      [`${prefix}/subscribe`]: {
        post: operation('subscribe', 'Registers a hook for triggers.', 'SubscribeAnswer', body('SubscribeBody', true)),
      },
      [`${prefix}/unsubscribe`]: {
        put: operation('unsubscribe', 'Removes one hook, or all of the integration.', 'UnsubscribeAnswer', {
          parameters: [apiKey, hookId],
          ...body('UnsubscribeBody', false),
        }),
      },
    },
    webhooks: { delivery: { post: delivery }, new_lead: { post: newLead } },
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, toJsonSchema(schema)])),
    },
  }
}
