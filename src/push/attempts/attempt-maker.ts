/** Makes a recorded attempt: opens its receiver key, builds its body, sends it, and passes on the outcome. */
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import { BodyBuffers, buildBody } from '../../deliveries/body.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import { isAtHand } from '../../leads/lead-store.ts'
import { receiverKeyOf } from '../../secrets/cipher.ts'
import { openIntact, plainVault } from '../../secrets/vault.ts'
import type { AttemptsInHand } from './attempts-in-hand.ts'
import type { LoopContext } from './loop-context.ts'

/** The stored key of the user is damaged: nothing was sent. */
const damagedKey: AttemptOutcome = {
  ok: false,
  maybeArrived: false,
  httpStatus: null,
  error:
    "the stored receiver key cannot be decrypted, since it was changed: bring the user's key in again with `leadpush users import`",
  durationMs: 0,
  retryAfterMs: null,
  acceptsGzip: false,
}

export class AttemptMaker {
  private readonly context: LoopContext
  private readonly attempts: AttemptsInHand
  private readonly buffers = new BodyBuffers()

  constructor(context: LoopContext, attempts: AttemptsInHand) {
    this.context = context
    this.attempts = attempts
  }

  /** Makes one attempt, and notes its outcome; a later statement records that. Throws what no other attempt will escape either. */
  async make(attempt: RecordedAttempt): Promise<void> {
    const { wire, planned, run, reporter } = this.context
    const { contents } = attempt
    const receiverKey = await this.openReceiverKey(attempt)
    if (receiverKey === undefined) return
    const found = isAtHand(contents) ? contents : await planned.readJson(contents)
    if (found === undefined) {
      await this.context.receiver.noteNotMade(attempt)
      return await this.attempts.takeBack([attempt], true)
    }
    const { buffers } = this
    const { queryList, bytes, gzip } = attempt
    const body = gzip
      ? planned.gzipBodies.build(queryList, found, bytes, buffers)
      : buildBody(queryList, found, bytes, buffers.take(bytes))
    const outcome = await wire.send({ body, ...attempt, receiverKey })
    buffers.giveBack(body)
    const { durationMs, httpStatus, error, answer, emptySuccess } = outcome
    const { idempotencyKey, attempt: nth, email } = attempt
    reporter.attempt({ runId: run.id, idempotencyKey, attempt: nth, durationMs, httpStatus, error, answer })
    if (emptySuccess !== undefined) reporter.line({ type: 'warning', user: email, href: null, message: emptySuccess })
    const noted = this.context.receiver.note(attempt, outcome)
    this.attempts.noteOutcome(attempt, outcome)
    await noted
  }

  /** Undefined if no attempt can be made, since the stored key is damaged. Throws if this process lacks the key that encrypts all. */
  private async openReceiverKey(attempt: RecordedAttempt): Promise<string | undefined> {
    const { vault = plainVault, receiver } = this.context
    try {
      const receiverKey = await openIntact(vault, attempt.receiverKey, receiverKeyOf(attempt.email))
      if (receiverKey !== undefined) return receiverKey
    } catch (error) {
      await this.attempts.takeBack([attempt])
      throw error
    }
    await receiver.noteNotMade(attempt)
    this.attempts.noteOutcome(attempt, damagedKey)
    return undefined
  }
}
