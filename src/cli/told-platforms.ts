/** Tells platforms that hooks were removed, and reports the results. */
import { plural } from '../base/amounts.ts'
import { hookRulesOf } from '../integrations/hook-address.ts'
import { sendHookRemovals, type ToldHook } from '../integrations/hook-http.ts'
import type { RemovedHook } from '../integrations/hooks.ts'
import type { CommandIo } from './command-io.ts'

/** After the hooks are gone: one `DELETE` of each URL. */
export async function tellPlatforms(
  settings: Parameters<typeof hookRulesOf>[0],
  hooks: readonly RemovedHook[],
): Promise<ToldHook[]> {
  return await sendHookRemovals(hookRulesOf(settings), hooks)
}

export async function writeTold(io: CommandIo, hooks: readonly ToldHook[]): Promise<void> {
  const untold = hooks.filter(({ error }) => error !== null)
  const told = hooks.length - untold.length
  if (told > 0) await io.out.line(`${plural(told, 'hook')} removed, and the platform told.`)
  for (const { url, error } of untold)
    await io.out.line(`Hook removed, the platform did not take the DELETE: ${url}: ${error}`)
}
