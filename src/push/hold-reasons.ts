/** The reasons of skip lines without a user: why a push begins nothing more because of its receiver (contract 4.5, 4.12). */
import { span } from '../base/amounts.ts'
import { describeStatus } from '../deliveries/attempt.ts'
import type { WhyOver } from './health.ts'

/** `the receiver refuses every delivery alike: HTTP 401: …`: part of a sentence. */
export const describeRefusal = (status: number) =>
  `the receiver refuses every delivery alike: ${describeStatus(status)}`

/** How long to wait, rounded up: who comes then must not come too early. */
function formatWait(ms: number): string {
  const unitMs = ms > 3_600_000 ? 3_600_000 : 60_000
  return span((Math.ceil(ms / unitMs) * unitMs) / 1_000)
}

/** The next attempt is allowed in `untilNextMs`. */
export function reasonToHold(status: number, untilNextMs = 0): string {
  const next = untilNextMs > 0 ? `a push that begins in ${formatWait(untilNextMs)} or later` : 'the next push'
  return `held: ${describeRefusal(status)}. Once that is mended ${next} begins with one attempt; --accept goes on regardless`
}

/** Whether the answers of the receiver are the reason. */
export const isHeldByAnswers = (reason: string) => reason.startsWith('held: none of the last ')

/** Undefined: a receiver that stayed down holds nothing. */
export function describeHold(why: WhyOver): string | undefined {
  switch (why.by) {
    case 'outage':
      return undefined
    case 'refusal':
      return reasonToHold(why.status, why.untilNextMs)
    case 'answers':
      return `held: none of the last ${why.inARow} answers shows that the receiver took a delivery (--accept goes on regardless); the last: ${why.says}`
  }
}
