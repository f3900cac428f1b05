/**
 * The requests that leadpush sends, as the OpenAPI document describes them: the delivery (contract 4) and the trigger
 * (contract 6).
 */
import { bodyBytesMax, receiverKeyCharsMax } from '../../base/limits.ts'
import type { TriggerKind } from '../../index.ts'
import { triggerKinds } from '../../integrations/hooks.ts'
import { kinds } from '../../triggers/kinds/kinds.ts'
import { buildContent } from './schemas.ts'

const text = { type: 'string', minLength: 1 }
const ascii = (most: number) => ({ type: 'string', pattern: `^[!-~]{1,${most}}$` })
const header = (name: string, description: string, schema: object, example: unknown) => ({
  name,
  in: 'header',
  required: true,
  description,
  schema,
  example,
})

const userAgent = header(
  'User-Agent',
  'The version of leadpush that sends.',
  { type: 'string', pattern: '^leadpush/' },
  'leadpush/1.0.0',
)
const contentLength = (more: { maximum?: number } = {}) =>
  header(
    'Content-Length',
    'The length of the body, which is never chunked.',
    { type: 'integer', minimum: 2, ...more },
    2048,
  )

const retryAfter = (most: string) => ({
  'Retry-After': {
    description: `Seconds, or a date, before which no further attempt is made (${most} at most).`,
    schema: text,
    example: '120',
  },
})

/** The operation of a delivery to the receiver. */
export const delivery = {
  operationId: 'delivery',
  summary: 'A delivery of leads to the receiver',
  description:
    'POSTed to LEADPUSH_RECEIVER_URL. It succeeds with a 2xx whose response ends, or exceeds 64 KiB, in time. Anything else is ' +
    'a failure: then one more attempt is made, with the same key and byte-identical body, and after it nothing more. A null, or ' +
    'a field that is left out, means that the value is absent; it does not ask to delete one that was delivered earlier.',
  security: [{ receiver_key: [] }],
  parameters: [
    header('X-Service-API-Key', 'The key of the user at the receiver.', ascii(receiverKeyCharsMax), 'receiver-key'),
    header('X-Data-Source', 'The name of the sender.', ascii(100), 'leadpush'),
    header(
      'X-Idempotency-Key',
      'Identifies the delivery; its second attempt carries the same key.',
      ascii(64),
      '2026-W01-1-example',
    ),
    contentLength({ maximum: bodyBytesMax }),
    { ...header('Content-Encoding', 'Of a receiver that takes it.', { enum: ['gzip'] }, 'gzip'), required: false },
    userAgent,
  ],
  requestBody: { required: true, content: buildContent('Delivery') },
  responses: {
    '2XX': { description: 'The request is accepted.' },
    409: {
      description:
        'The delivery with this key is under way, or was taken with another body. After both attempts its outcome is unknown.',
    },
    422: { description: 'The body is refused, or the key came with another body.' },
    429: { description: 'Too many requests.', headers: retryAfter('5 minutes') },
    503: { description: 'The receiver asks to try later.', headers: retryAfter('5 minutes') },
    default: { description: 'The delivery is not accepted. A redirect counts as a refusal: it is not followed.' },
  },
}

const buildTrigger = (operationId: TriggerKind) => ({
  operationId,
  summary: kinds[operationId].words.what,
  description:
    `POSTed to the URL that \`subscribe\` registered, once for each ${kinds[operationId].words.each}; again,` +
    ' with the same webhook-id, where an attempt failed ' +
    'or its outcome is unknown. Signed as Standard Webhooks 1.0 has it, with the signing secret of the integration.',
  security: [],
  parameters: [
    header('webhook-id', 'The same for each attempt of one trigger.', text, 'msg_example'),
    header(
      'webhook-timestamp',
      'The time of this attempt, in seconds since 1970.',
      { type: 'string', pattern: '^[0-9]+$' },
      '1767225600',
    ),
    header(
      'webhook-signature',
      '`v1,` and a base64 HMAC-SHA256 of webhook-id, webhook-timestamp and body, with dots between; while the overlap after a ' +
        'rotation lasts, a space and one with the old secret follow.',
      { type: 'string', pattern: '^v1,[A-Za-z0-9+/]{43}=( v1,[A-Za-z0-9+/]{43}=)?$' },
      'v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=',
    ),
    contentLength(),
    userAgent,
  ],
  requestBody: { required: true, content: buildContent(kinds[operationId].name) },
  responses: {
    '2XX': { description: 'The request is accepted.' },
    410: { description: 'The hook is removed: nothing more is sent to it.' },
    default: {
      description:
        'It is tried again after 1 m, 5 m, 30 m, 2 h, 8 h, 16 h, 24 h and 24 h, and then given up. After a timeout, or 5 failures in a row, the hook gets ' +
        'nothing for a minute, or until the time that it asks for is over.',
      headers: retryAfter('a week'),
    },
  },
})

/** The operations of the triggers to hooks, by their kinds. */
export const triggers = Object.fromEntries(triggerKinds.map((kind) => [kind, { post: buildTrigger(kind) }]))
