/** The four endpoints, called once the caller is known (contract 5, 5.3, 5.4). */

import type { FastifyRequest } from 'fastify'
import { listed } from '../base/amounts.ts'
import { hooksPerIntegrationMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import { checkHookUrl, type HookRules } from '../integrations/hook-address.ts'
import { type HooksToRemove, hasHook, registerHook, removeHooks, triggerKinds } from '../integrations/hooks.ts'
import type { Live } from '../matching/listed.ts'
import {
  type Done,
  type SampleAnswer,
  type SubscribeAnswer,
  sampleTriggerProblem,
  subscribeBodySchema,
  type TestAnswer,
  triggerSchema,
} from './answers.ts'
import { Refusal } from './refusal.ts'
import { findSampleLeads } from './sample-leads.ts'

/** The dependencies of the endpoints. */
export interface EndpointContext {
  db: Database
  hookRules: HookRules
  maxLeadAgeMs: number
  sameHouse: Live['sameHouse']
  /** Called when a subscription push has just become owed to the user. */
  onOwed(userId: number): void
}

/** `test`: says that the connection works, and which user has the integration. */
export function answerTest({ integration }: FastifyRequest): TestAnswer {
  return {
    ok: true,
    msg: 'The integration is connected.',
    date: new Date().toISOString(),
    userEmail: integration.email,
  }
}

/** `sample`: a few leads in the form of the requested trigger. Throws a `Refusal`. */
export async function answerSample(
  { db, maxLeadAgeMs, sameHouse }: EndpointContext,
  { integration, query }: FastifyRequest,
): Promise<SampleAnswer> {
  const parsed = triggerSchema.safeParse((query as Record<string, unknown>).trigger || 'new_lead')
  if (!parsed.success) throw new Refusal(422, sampleTriggerProblem)
  const leads = await findSampleLeads(db, integration.userId, { maxLeadAgeMs, sameHouse, trigger: parsed.data })
  return { ok: true, msg: `Leads as the trigger \`${parsed.data}\` sends them.`, leads }
}

function parseJson(body: unknown): unknown {
  try {
    // some platforms begin with a byte order mark; without this, `unsubscribe` would remove all hooks instead of one
    return JSON.parse(String(body).replace(/^\ufeff/, ''))
  } catch {
    return undefined
  }
}

const onItsWay = 'A delivery of the leads there are now is on its way.'
const onceThereAreQueries = 'The user has no queries yet: a delivery comes as soon as there are some.'

/** `subscribe`: registers the hook; a user's first hook owes them a subscription push. Throws a `Refusal`. */
export async function answerSubscribe(
  context: EndpointContext,
  { integration, body }: FastifyRequest,
): Promise<SubscribeAnswer> {
  const parsed = subscribeBodySchema.safeParse(parseJson(body))
  if (!parsed.success) throw new Refusal(422, parsed.error.issues[0]?.message ?? '')
  const { hookUrl, trigger } = parsed.data
  const asked = [trigger ?? []].flat()
  const triggers = asked.length > 0 ? triggerKinds.filter((kind) => asked.includes(kind)) : undefined
  // DNS may be away: a registered hook must not be refused for that. Each connection looks the address up again
  const isRegistered = await hasHook(context.db, integration.id, hookUrl)
  const problem = await checkHookUrl(hookUrl, context.hookRules, { isRegistered })
  if (problem !== undefined) throw new Refusal(422, problem)
  const registered = await registerHook(context.db, integration, hookUrl, triggers)
  if (registered === 'revoked') throw new Refusal(401, 'The API key is unknown or was revoked.')
  if (registered === 'too many') {
    throw new Refusal(422, `The integration has ${hooksPerIntegrationMax} hooks already: unsubscribe one first.`)
  }
  const { hookId, isNew, wasOff, newTriggers, owed } = registered
  if (owed) context.onOwed(integration.userId)
  const before = isNew
    ? 'The hook is registered.'
    : wasOff
      ? 'The hook is switched on again.'
      : 'The hook was registered before.'
  const what = newTriggers ? `${before} Its triggers changed: it now gets ${listed(newTriggers)}.` : before
  return {
    ok: true,
    msg: owed ? `${what} ${registered.hasQueries ? onItsWay : onceThereAreQueries}` : what,
    id: hookId,
  }
}

const asText = (value: unknown) => (typeof value === 'string' ? value : '')

/** The hooks to remove. A request that names a hook in any form, even a wrong one, never means all of them. */
function findNamed(id: unknown, body: unknown): HooksToRemove {
  if (id !== undefined) return { id: asText(id) }
  const named = parseJson(body)
  if (typeof named !== 'object' || named === null) return 'all'
  for (const name of ['id', 'hookUrl'] as const) {
    const value = (named as Partial<Record<typeof name, unknown>>)[name]
    // a workflow that has lost the hook puts null or '' there
    if (value === null || value === '')
      throw new Refusal(422, `\`${name}\` is empty: give that of the hook, or leave it out to remove all hooks.`)
  }
  if ('id' in named) return { id: asText(named.id) }
  return 'hookUrl' in named ? { url: asText(named.hookUrl) } : 'all'
}

/** `unsubscribe`: removes one hook, or all of the integration. Throws a `Refusal`. */
export async function answerUnsubscribe(
  context: EndpointContext,
  { integration, query, body }: FastifyRequest,
): Promise<Done> {
  const which = findNamed((query as Record<string, unknown>).id, body)
  const { length } = await removeHooks(context.db, integration.id, which)
  if (which !== 'all') {
    return { ok: true, msg: length > 0 ? 'The hook is removed.' : 'There is no such hook: nothing was removed.' }
  }
  const all = length === 1 ? 'The one hook of the integration is' : `All ${length} hooks of the integration are`
  return { ok: true, msg: length > 0 ? `${all} removed.` : 'The integration had no hooks.' }
}
