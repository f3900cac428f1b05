/**
 * One attempt of a trigger: builds the request, signs it as Standard Webhooks 1.0 demands, sends it, and tells its outcome
 * (contract 6.3, 6.4).
 */
import { hash } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { triggerRetryAfterMsMax } from '../base/limits.ts'
import { readAnswer, secretsOf } from '../deliveries/answer.ts'
import { parseRetryAfter } from '../http/retry-after.ts'
import type { TriggerKind } from '../index.ts'
import type { HookHttp } from '../integrations/hook-http.ts'
import type { DeliveredLead } from '../leads/lead.ts'
import type { TriggerEvent } from './kinds/kind.ts'
import { kinds } from './kinds/kinds.ts'

/** The content of an attempt, and its target. */
export interface TriggerRequest {
  url: string
  webhookId: string
  href: string
  body: string
}

/** The outcome of an attempt. */
export interface TriggerOutcome {
  ok: boolean
  /** The answer was 410: the platform no longer wants the hook. */
  gone: boolean
  httpStatus: number | null
  /** One line in plain words, without secrets and without text from the answer. */
  error: string | null
  /** How long the answer asks to wait; null if it does not say. */
  retryAfterMs: number | null
  timedOut: boolean
  durationMs: number
  /** The words with which the hook refused, if they are kept (contract 4.16). */
  answer?: string
}

/**
 * The request that brings the event to the hook. The `webhook-id` follows from hook, event and time, so every attempt of the trigger has
 * the same one, and no other trigger has it.
 */
export function buildTriggerRequest(
  hook: { id: string; url: string },
  leadJson: string,
  event: TriggerEvent & { kind: TriggerKind },
): TriggerRequest {
  const lead = kinds[event.kind].build(JSON.parse(leadJson) as DeliveredLead, event)
  const webhookId = `msg_${hash('sha256', `${hook.id}\n${lead.id}\n${lead.occurredAt}`, 'base64url').slice(0, 32)}`
  return { url: hook.url, webhookId, href: lead.href, body: JSON.stringify(lead) }
}

const noAnswer = { ok: false, gone: false, httpStatus: null, retryAfterMs: null, timedOut: false, durationMs: 0 }

const damagedSecret =
  'the stored signing secret cannot be decrypted, since it was changed: `leadpush integrations rotate` makes another'

function describeStatus(status: number): string {
  if (status === 410) return 'HTTP 410: the platform has ended the hook'
  if (status >= 300 && status < 400) return `HTTP ${status}: a redirect, which is not followed`
  return `HTTP ${status}`
}

/**
 * Sends one attempt with the timestamp `now`. Each of the secrets signs, since a platform accepts any signature that it knows. Never
 * throws: all trouble is an outcome.
 */
export async function sendTrigger(
  http: HookHttp,
  { url, webhookId, body }: TriggerRequest,
  signingSecrets: readonly string[],
  { now, timeoutMs, keepsAnswer }: { now: Date; timeoutMs: number; keepsAnswer: boolean },
): Promise<TriggerOutcome> {
  if (signingSecrets.length === 0) return { ...noAnswer, error: damagedSecret }
  const startedMs = performance.now()
  const headers = [
    'Content-Type', 'application/json',
    'webhook-id', webhookId,
    'webhook-timestamp', String(Math.floor(now.getTime() / 1_000)),
    'webhook-signature', signingSecrets.map((secret) => new Webhook(secret).sign(webhookId, now, body)).join(' '),
  ] // biome-ignore format: pairs
  const outcome = await http.post({ url, headers, body: Buffer.from(body), timeoutMs, keepsAnswer })
  const durationMs = Math.round(performance.now() - startedMs)
  if (outcome.kind === 'no-answer') {
    const timedOut = outcome.code === 'TIMEOUT'
    const error = timedOut ? `${outcome.error} (${timeoutMs / 1_000} s)` : outcome.error
    return { ...noAnswer, error, timedOut, durationMs }
  }
  const { status } = outcome
  const ok = status >= 200 && status < 300
  // anybody with its URL could start a workflow
  const answer = keepsAnswer ? readAnswer(outcome, [...signingSecrets, ...secretsOf(url)]) : undefined
  const retryAfterMs = ok ? null : parseRetryAfter(outcome, now.getTime(), triggerRetryAfterMsMax)
  const error = ok ? null : describeStatus(status)
  const said = answer === undefined ? {} : { answer }
  return { ...noAnswer, ok, gone: status === 410, httpStatus: status, error, retryAfterMs, durationMs, ...said }
}
