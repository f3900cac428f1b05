/** A receiver that takes 20 requests a second, and what a push makes of it. */
import { sql } from 'kysely'
import type { PushHouse } from './push-house.ts'
import type { Answer } from './receiver.ts'

export const defaults = { retryDelayMs: 5_000, timeoutMs: 30_000, outageMs: 600_000 }

/** Takes 20 requests a second with bursts of 20, and answers others with 429 and `headers`. */
export function limit(house: PushHouse, headers: () => Record<string, string>) {
  const [perMs, burst] = [0.02, 20]
  let [tokens, filledMs] = [burst, performance.now()]
  house.receiver.answer = (): Answer => {
    const nowMs = performance.now()
    tokens = Math.min(burst, tokens + (nowMs - filledMs) * perMs)
    filledMs = nowMs
    if (tokens < 1) return { status: 429, headers: headers() }
    tokens--
    return 200
  }
}

export const findRate = async (house: PushHouse) => {
  const { rows } = await sql<{ rate: number | null }>`select rate from receivers`.execute(house.db)
  return rows[0]?.rate ?? null
}
