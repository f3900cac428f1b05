/** How hooks are called: directly, never through a proxy, and only at addresses that they may lead to (contract 5.2). */
import { createHttp, type Http } from '../http.ts'
import { hookRemovalTimeoutMs } from '../limits.ts'
import { findHookAddresses, type HookAddressOptions } from './hook-address.ts'
import type { RemovedHook } from './hooks.ts'

export function createHookHttp(
  options: HookAddressOptions,
  { concurrency, timeoutMs }: { concurrency: number; timeoutMs: number },
): Http {
  return createHttp({ concurrency, timeoutMs, findAddresses: (hostname) => findHookAddresses(hostname, options) })
}

export interface ToldHook extends RemovedHook {
  /** Why the platform could not be told, or did not like it; null: it was told. */
  error: string | null
  httpStatus: number | null
}

const tellAtOnce = 16

/** Tells the platform of each removed hook with one `DELETE` of its URL (contract 3). Never throws: it is best effort. */
export async function sendHookRemovals(
  options: HookAddressOptions,
  hooks: readonly RemovedHook[],
): Promise<ToldHook[]> {
  if (hooks.length === 0) return []
  const http = createHookHttp(options, { concurrency: tellAtOnce, timeoutMs: hookRemovalTimeoutMs })
  try {
    return await Promise.all(
      hooks.map(async (hook) => {
        const outcome = await http.delete(hook.url, hookRemovalTimeoutMs)
        if (outcome.kind === 'no-answer') return { ...hook, httpStatus: null, error: outcome.error }
        const { status } = outcome
        return { ...hook, httpStatus: status, error: status >= 200 && status < 300 ? null : `HTTP ${status}` }
      }),
    )
  } finally {
    await http.close()
  }
}
