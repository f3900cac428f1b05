/** The settings of a push within a test: no delays, and no check for outages. */
import type { PushSettings } from '../../src/push/run-push.ts'

export function testPushSettings(receiverUrl: string, changes: Partial<PushSettings> = {}): PushSettings {
  return {
    receiverUrl,
    dataSource: 'leadpush',
    timeoutMs: 30_000,
    retryDelayMs: 0,
    concurrency: 16,
    ratePerSecond: undefined,
    outageMs: 0,
    compress: 'auto',
    leaseMs: 60_000,
    timeZone: 'UTC',
    maxLeadAgeMs: 30 * 86_400_000,
    guard: 'on',
    sameHouse: 'each',
    ...changes,
  }
}
