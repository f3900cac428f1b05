/** Idempotency keys (contract 4.7): a weekly key can be derived again from its delivery, every other key is a random UUID. */
import { hash } from 'node:crypto'

/**
 * The key of one part of a user's weekly delivery. It depends on its arguments alone, so a database that was restored
 * from a backup derives the same key. It has 42 characters and the part's number.
 */
export function weeklyKey(dataSource: string, email: string, period: string, part: number): string {
  const digest = hash('sha256', JSON.stringify([dataSource, email, period, part]), 'base64url')
  return `${period}-${part}-${digest.slice(0, 32)}`
}
