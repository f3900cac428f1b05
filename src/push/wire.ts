/** The interface of a run to its receiver: POST and HEAD. */
import { outageCheckMs } from '../base/limits.ts'
import { type AttemptOutcome, type AttemptRequest, type AttemptTarget, sendAttempt } from '../deliveries/attempt.ts'
import type { Http } from '../http/client.ts'
import type { HttpOutcome } from '../http/exchange.ts'

export interface Wire {
  /** Makes one attempt. Every failure is an outcome. */
  send(request: AttemptRequest): Promise<AttemptOutcome>
  /** Asks for a sign of life. Every failure is an outcome. */
  head(): Promise<HttpOutcome>
}

export const httpWire = (http: Http, target: AttemptTarget): Wire => ({
  send: (request) => sendAttempt(http, target, request),
  head: () => http.head(target.receiverUrl, Math.min(target.timeoutMs, outageCheckMs)),
})
