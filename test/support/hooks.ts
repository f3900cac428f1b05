/** Registers hooks and runs `trigger` within the test's process. */
import assert from 'node:assert/strict'
import type { Sleeper } from '../../src/base/sleeper.ts'
import type { OpenDatabase } from '../../src/db/open.ts'
import type { TriggerKind, TriggerLine } from '../../src/index.ts'
import { registerHook } from '../../src/integrations/hooks.ts'
import { createIntegration, findIntegrationByKey } from '../../src/integrations/integrations.ts'
import { plainVault, type Vault } from '../../src/secrets/vault.ts'
import { type Looked, type LookOptions, lookForLeads } from '../../src/triggers/look-for-leads.ts'
import type { LostToRenew } from '../../src/triggers/lost-triggers.ts'
import { runTriggers } from '../../src/triggers/triggers.ts'
import { defaults } from './push-settings.ts'

export interface TestHook {
  id: string
  integrationId: number
  signingSecret: string
}

/** Registers `url` with an integration of its own. */
export async function addHook(
  opened: OpenDatabase,
  email: string,
  url: string,
  triggers?: readonly TriggerKind[],
): Promise<TestHook> {
  const { apiKey, signingSecret } = await createIntegration(opened.db, { email })
  const integration = await findIntegrationByKey(opened.db, apiKey)
  assert.ok(integration)
  const registered = await registerHook(opened.db, integration, url, triggers)
  assert.ok(typeof registered === 'object')
  return { id: registered.hookId, integrationId: integration.id, signingSecret }
}

/** Looks for due triggers, group by group, and returns the sum. */
export async function lookAtAll(
  opened: OpenDatabase,
  options: Omit<LookOptions, 'stop'>,
  onLooked?: (looked: Looked) => void,
): Promise<Looked> {
  const sum: Looked = { hooks: 0, found: 0, dropped: 0 }
  for await (const looked of lookForLeads(opened, { ...options, stop: new AbortController().signal })) {
    for (const name of ['hooks', 'found', 'dropped'] as const) sum[name] += looked[name]
    onLooked?.(looked)
  }
  return sum
}

const { leaseMs, maxLeadAgeMs, sameHouse, keepAnswers } = defaults
const settings = {
  ...{ leaseMs, maxLeadAgeMs, sameHouse, keepAnswers },
  allowInsecureHooks: '1',
  hookHosts: undefined as readonly string[] | undefined,
}

/** One run of `trigger` in this process. */
export async function runTrigger(
  opened: OpenDatabase,
  options: {
    settings?: Partial<typeof settings>
    vault?: Vault
    runMsMax?: number
    timeoutMs?: number
    stop?: AbortSignal
    again?: LostToRenew
    sleeper?: Sleeper
  } = {},
) {
  const lines: TriggerLine[] = []
  const notes: string[] = []
  const {
    seconds: _,
    type: __,
    ...counts
  } = await runTriggers({
    opened,
    vault: options.vault ?? plainVault,
    settings: { ...settings, ...options.settings },
    stop: options.stop ?? new AbortController().signal,
    onTrigger: (line) => void lines.push(line),
    onNote: (text) => void notes.push(text),
    again: options.again,
    ...(options.sleeper !== undefined && { sleeper: options.sleeper }),
    ...(options.runMsMax !== undefined && { runMsMax: options.runMsMax }),
    ...(options.timeoutMs !== undefined && { timeoutMs: options.timeoutMs }),
  })
  return { counts, lines, notes }
}

export const noTriggers = {
  due: 0,
  delivered: 0,
  failed: 0,
  abandoned: 0,
  removed: 0,
  ended: 0,
  dropped: 0,
  waiting: 0,
  left: 0,
}

/** Makes every trigger that waits for another attempt due, as if the pauses were over. */
export async function passPauses(opened: OpenDatabase): Promise<void> {
  await opened.pool.query(`update triggers set due_at = now() - interval '1 second'`)
  await opened.pool.query('update hooks set paused_until = null')
}

/**
 * Lets time pass for hooks and triggers: every moment that counts for them lies so much longer ago. When a lead was imported stays, as
 * ids of triggers follow from it.
 */
export async function passTime(opened: OpenDatabase, ms: number): Promise<void> {
  const moments = {
    triggers: ['due_at', 'failing_since'],
    hooks: ['created_at', 'last_at', 'paused_until', 'failing_since', 'off_since', 'abandoned_at', 'dropped_at'],
    lost_triggers: ['lost_at'],
  }
  for (const [table, columns] of Object.entries(moments)) {
    const changes = columns.map((column) => `${column} = ${column} - ${ms} * interval '1 millisecond'`)
    await opened.pool.query(`update ${table} set ${changes.join()}`)
  }
}
