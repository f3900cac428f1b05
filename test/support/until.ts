/** Waiting for what another process or connection brings about. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

/** Waits until that holds. `what` tells what was waited for in vain; the time is for a machine that stalls for seconds. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  for (const endAt = Date.now() + 120_000; !(await holds()); await sleep(10)) {
    assert.ok(Date.now() < endAt, `waited in vain: ${what}`)
  }
}
