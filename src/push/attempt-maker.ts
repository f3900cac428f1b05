/** Makes a recorded attempt: opens its receiver key, builds its body, sends it, and tells all who learn from the outcome. */
import { rideOut } from '../db/away.ts'
import { sendAttempt } from '../deliveries/attempt.ts'
import { BodyBuffers, buildBody } from '../deliveries/body.ts'
import { GzipBodies } from '../deliveries/gzip-body.ts'
import type { RecordedAttempt } from '../deliveries/ledger.ts'
import { isAtHand } from '../leads/lead-store.ts'
import type { Compression } from './compression.ts'
import type { LoopContext } from './loop-context.ts'
import { damagedKey, openReceiverKey } from './open-receiver-key.ts'
import type { PaceWatch } from './pace-watch.ts'
import type { ReceiverWatch } from './receiver-watch.ts'
import type { RecordedAttempts } from './recorded-attempts.ts'

interface LoopParts {
  attempts: RecordedAttempts
  watch: ReceiverWatch
  pace: PaceWatch
  compression: Compression
}

export class AttemptMaker {
  /** The receiver keys are encrypted with a key that this process lacks: it comes to an end as on a stop, and then throws this. */
  lackOfKey: unknown

  private readonly context: LoopContext
  private readonly parts: LoopParts
  private readonly onLackOfKey: () => void
  private readonly buffers = new BodyBuffers()
  private readonly gzipBodies = new GzipBodies()

  constructor(context: LoopContext, parts: LoopParts, onLackOfKey: () => void) {
    this.context = context
    this.parts = parts
    this.onLackOfKey = onLackOfKey
  }

  /** Listings were erased, or the same ids mean others: drops what compressed bodies were made of. */
  forgetBodies(): void {
    this.gzipBodies.clear()
  }

  /** Makes one attempt, and notes what came of it; a later statement records that. */
  async make(attempt: RecordedAttempt): Promise<void> {
    const { http, planned, settings, run, reporter } = this.context
    const { contents } = attempt
    const receiverKey = await this.openReceiverKey(attempt)
    if (receiverKey === undefined) return
    const found = isAtHand(contents) ? contents : await rideOut(() => planned.leads.readJson(contents))
    if (found === undefined) {
      await this.noteNotMade(attempt)
      return await this.parts.attempts.endErased(attempt)
    }
    const { buffers, gzipBodies } = this
    const { queryList, bytes, gzip } = attempt
    const body = gzip
      ? gzipBodies.build(queryList, found, bytes, buffers)
      : buildBody(queryList, found, bytes, buffers.take(bytes))
    const outcome = await sendAttempt(http, settings, { ...attempt, receiverKey, body })
    buffers.giveBack(body)
    const { durationMs, httpStatus, error, answer, emptySuccess } = outcome
    const { idempotencyKey, attempt: nth, email } = attempt
    reporter.attempt({ runId: run.id, idempotencyKey, attempt: nth, durationMs, httpStatus, error, answer })
    if (emptySuccess !== undefined) reporter.line({ type: 'warning', user: email, href: null, message: emptySuccess })
    this.context.firstAnswers.note(outcome)
    this.parts.pace.note(attempt, outcome)
    // a refused encoding is no refused delivery: the next ones go out plain
    const noted = this.parts.watch.note(nth, outcome, gzip && httpStatus === 415)
    const learnt = this.parts.compression.note(outcome)
    this.parts.attempts.noteOutcome(attempt, outcome)
    await Promise.all([noted, learnt])
  }

  /** Undefined where no attempt can be made: the stored key is damaged, or this process lacks what it is encrypted with. */
  private async openReceiverKey(attempt: RecordedAttempt): Promise<string | undefined> {
    try {
      const receiverKey = await openReceiverKey(this.context.vault, attempt)
      if (receiverKey !== undefined) return receiverKey
    } catch (error) {
      this.lackOfKey ??= error
      this.onLackOfKey()
      await this.parts.attempts.takeBack(attempt)
      return undefined
    }
    await this.noteNotMade(attempt)
    this.parts.attempts.noteOutcome(attempt, damagedKey)
    return undefined
  }

  private async noteNotMade(attempt: RecordedAttempt): Promise<void> {
    this.parts.pace.noteNotMade(attempt)
    await this.parts.watch.noteUnmade()
  }
}
