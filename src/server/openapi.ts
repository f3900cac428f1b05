/** The OpenAPI 3.1 document: endpoints, delivery and triggers, made from the schemas that check and type them. */
import { packageVersion } from '../base/package-root.ts'
import { triggerKinds } from '../integrations/hooks.ts'
import { buildContent, buildSchemas, type SchemaName } from './openapi/schemas.ts'
import { delivery, triggers } from './openapi/webhooks.ts'

const retryAfter = {
  'Retry-After': { required: true, description: 'Seconds.', schema: { type: 'integer', minimum: 1 }, example: 5 },
}
const allow = {
  Allow: { required: true, description: 'The methods of the path.', schema: { type: 'string' }, example: 'GET' },
}
/** Refusals in the order in which contract 5.1 checks them. */
const refusals: Readonly<Record<string, { description: string; headers?: object }>> = {
  404: { description: 'There is no such path: `serve` may be set up for another platform.' },
  405: { description: 'The path does not take this method.', headers: allow },
  429: {
    description: 'Too many requests with the key, or too many bad ones from the address.',
    headers: retryAfter,
  },
  422: { description: 'The API key or another required value is missing or not acceptable.' },
  503: { description: 'The database is away for the moment.', headers: retryAfter },
  401: { description: 'The API key is unknown or was revoked.' },
  413: { description: 'The body is too large.' },
  default: { description: 'The request was not valid HTTP or too slow, or leadpush failed.' },
}

function buildResponses(answer: object, statuses = Object.keys(refusals)): object {
  const refused = statuses.map((status) => [status, { ...refusals[status], content: buildContent('Refusal') }])
  return { 200: { description: 'The request was carried out.', content: answer }, ...Object.fromEntries(refused) }
}

const endpoint = (operationId: string, summary: string, answer: SchemaName, more: object = {}) => ({
  operationId,
  summary,
  ...more,
  responses: buildResponses(buildContent(answer)),
})

/** An endpoint for the operator of `serve`: without a key, and not for the internet. */
const inside = (operationId: string, summary: string, answer: object, more: string[] = []) => ({
  operationId,
  summary,
  security: [],
  responses: buildResponses(answer, ['405', ...more, 'default']),
})

const body = (name: SchemaName, required: boolean) => ({ requestBody: { required, content: buildContent(name) } })
const hookId = {
  name: 'id',
  in: 'query',
  required: false,
  description: 'The id that `subscribe` answered with, instead of a body.',
  schema: { type: 'string' },
}
const sampleTrigger = {
  name: 'trigger',
  in: 'query',
  required: false,
  description: 'The trigger whose shape the leads have.',
  schema: { enum: triggerKinds, default: 'new_lead' },
}

function buildPaths(automation: string): object {
  const prefix = `/api/extern/${automation}`
  const all = { ok: true, msg: 'Leadpush is alive.' }
  return {
    [`${prefix}/test`]: { get: endpoint('test', 'Checks that the integration is connected.', 'TestAnswer') },
    [`${prefix}/sample`]: {
      get: endpoint('sample', 'Three leads, to set up a workflow with.', 'SampleAnswer', {
        parameters: [sampleTrigger],
      }),
    },
    [`${prefix}/subscribe`]: {
      post: endpoint('subscribe', 'Registers a hook for triggers.', 'SubscribeAnswer', body('SubscribeBody', true)),
    },
    [`${prefix}/unsubscribe`]: {
      put: endpoint('unsubscribe', 'Removes one hook, or all of the integration.', 'Done', {
        parameters: [hookId],
        ...body('UnsubscribeBody', false),
      }),
    },
    '/healthz': { get: inside('healthz', 'Whether `serve` is alive.', buildContent('Done', all)) },
    '/readyz': { get: inside('readyz', 'Whether `serve` can do its work.', buildContent('Done', all), ['503']) },
    '/metrics': {
      get: inside('metrics', 'Metrics for Prometheus.', { 'text/plain': { schema: { type: 'string' } } }),
    },
    '/openapi.json': {
      get: inside('openapi', 'This document.', { 'application/json': { schema: { type: 'object' } } }),
    },
  }
}

const securitySchemes = {
  api_key: {
    type: 'apiKey',
    in: 'query',
    name: 'api_key',
    description: 'The API key of the integration, given once in the query.',
  },
  receiver_key: {
    type: 'apiKey',
    in: 'header',
    name: 'X-Service-API-Key',
    description: 'The key of the user at the receiver.',
  },
}

/** The document for endpoints below `/api/extern/<automation>/`. */
export function buildOpenapi({ automation }: { automation: string }): object {
  return {
    openapi: '3.1.0',
    info: {
      title: 'leadpush',
      version: packageVersion,
      summary: 'For-sale-by-owner leads to receivers and hooks.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'Where `serve` listens, or the proxy before it.' }],
    security: [{ api_key: [] }],
    paths: buildPaths(automation),
    webhooks: { delivery: { post: delivery }, ...triggers },
    components: { securitySchemes, schemas: buildSchemas() },
  }
}
