/** Reports to people whether platforms were told that their hooks were removed. */
import { plural } from '../base/amounts.ts'
import type { ToldHook } from '../integrations/hook-http.ts'
import type { CommandIo } from './command-io.ts'

export async function writeTold(io: CommandIo, hooks: readonly ToldHook[]): Promise<void> {
  const untold = hooks.filter(({ error }) => error !== null)
  const told = hooks.length - untold.length
  if (told > 0) await io.out.line(`${plural(told, 'hook')} removed, and the platform told.`)
  for (const { url, error } of untold)
    await io.out.line(`Hook removed, the platform did not take the DELETE: ${url}: ${error}`)
}
