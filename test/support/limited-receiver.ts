/** A receiver that takes 20 requests a second, and what a push makes of it. */
import { sql } from 'kysely'
import { createTokenBucket } from '../../src/receiver-kit/receiver/token-bucket.ts'
import type { PushHouse } from './push-house.ts'
import type { Answer } from './receiver.ts'

export const defaults = { retryDelayMs: 5_000, timeoutMs: 30_000, outageMs: 600_000 }

/** Takes 20 requests a second with bursts of 20, and answers others with 429 and `headers`. */
export function limit(house: PushHouse, headers: () => Record<string, string>) {
  const take = createTokenBucket({ perSecond: 20, burst: 20 })
  house.receiver.answer = (): Answer => (take(performance.now()) === 0 ? 200 : { status: 429, headers: headers() })
}

export const findRate = async (house: PushHouse) => {
  const { rows } = await sql<{ rate: number | null }>`select rate from receivers`.execute(house.db)
  return rows[0]?.rate ?? null
}
