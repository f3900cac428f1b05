/** The settings of tests: the program's defaults, which a test overrides. */
import { readSettings } from '../../src/base/config.ts'
import type { PushSettings } from '../../src/push/run-push.ts'

export const defaults = readSettings(
  [
    ...(['dataSource', 'timeoutMs', 'retryDelayMs', 'concurrency', 'ratePerSecond', 'outageMs', 'compress'] as const),
    ...(['leaseMs', 'timeZone', 'maxLeadAgeMs', 'guard', 'sameHouse', 'feedMaxAgeMs', 'keepAnswers'] as const),
  ],
  { env: {}, cwd: '/nowhere' },
)

/** Of what looks at a period whose listings no import brought. */
export const withoutFeed = { ...defaults, feedMaxAgeMs: undefined }

/** Of a push: no delays, and no check for outages. */
export function testPushSettings(receiverUrl: string, changes: Partial<PushSettings> = {}): PushSettings {
  return { ...defaults, receiverUrl, retryDelayMs: 0, outageMs: 0, ...changes }
}
