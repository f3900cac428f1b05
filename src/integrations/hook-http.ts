/** Calls hooks: directly, never through a proxy, and only at allowed URLs and addresses (contract 5.2). */

import { hookRemovalTimeoutMs } from '../base/limits.ts'
import { createHttp, type Http } from '../http/client.ts'
import type { HttpNoAnswer } from '../http/exchange.ts'
import { findHookAddresses, findUrlProblem, type HookAddressOptions } from './hook-address.ts'
import type { RemovedHook } from './hooks.ts'

/** Sends requests to hooks. */
export type HookHttp = Pick<Http, 'post' | 'delete' | 'close'>

/** Requests never throw: a URL that may not be called is an outcome, like a refused connection. */
export function createHookHttp(
  options: HookAddressOptions,
  { concurrency, timeoutMs }: { concurrency: number; timeoutMs: number },
): HookHttp {
  const http = createHttp({ concurrency, timeoutMs, findAddresses: (hostname) => findHookAddresses(hostname, options) })
  // for URLs that were registered under other rules
  const refusalOf = (url: string): HttpNoAnswer | undefined => {
    const error = findUrlProblem(url, options)
    return error === undefined
      ? undefined
      : { kind: 'no-answer', sent: false, stage: 'connect', error, code: undefined, reused: false }
  }
  return {
    post: async (request) => refusalOf(request.url) ?? (await http.post(request)),
    delete: async (url, timeout) => refusalOf(url) ?? (await http.delete(url, timeout)),
    close: () => http.close(),
  }
}

/** A removed hook, and whether its platform was told. */
export interface ToldHook extends RemovedHook {
  httpStatus: number | null
  /** Why the platform could not be told, or refused; null if it was told. */
  error: string | null
}

const tellAtOnce = 16

/** Tells each removed hook's platform with one `DELETE` of its URL (contract 3). Best effort: never throws. */
export async function sendHookRemovals(
  options: HookAddressOptions,
  hooks: readonly RemovedHook[],
  timeoutMs: number = hookRemovalTimeoutMs,
): Promise<ToldHook[]> {
  if (hooks.length === 0) return []
  const http = createHookHttp(options, { concurrency: tellAtOnce, timeoutMs })
  try {
    return await Promise.all(
      hooks.map(async (hook) => {
        const outcome = await http.delete(hook.url, timeoutMs)
        if (outcome.kind === 'no-answer') return { ...hook, httpStatus: null, error: outcome.error }
        const { status } = outcome
        return { ...hook, httpStatus: status, error: status >= 200 && status < 300 ? null : `HTTP ${status}` }
      }),
    )
  } finally {
    await http.close()
  }
}
