/** Makes a recorded attempt: opens its receiver key, builds its body, sends it, and passes on the outcome. */
import { type AttemptOutcome, unanswered } from '../../deliveries/attempt.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import { isAtHand } from '../../leads/lead-store.ts'
import { receiverKeyOf } from '../../secrets/cipher.ts'
import { openIntact, plainVault } from '../../secrets/vault.ts'
import type { AttemptsInHand } from './attempts-in-hand.ts'
import type { LoopContext } from './loop-context.ts'

/** The stored key of the user is damaged: nothing was sent. */
const damagedKey: AttemptOutcome = {
  ...unanswered,
  maybeArrived: false,
  error:
    "the stored receiver key cannot be decrypted, since it was changed: bring the user's key in again with `leadpush users import`",
  durationMs: 0,
}

/**
 * Makes one attempt, and notes its outcome; a later statement records that. `drawn`: its user was drawn from all who are owed. Returns what
 * this machine lacks, if that kept it from being made. Throws what no other attempt will escape either.
 */
export async function makeAttempt(
  { vault = plainVault, wire, planned, run, reporter, receiver }: LoopContext,
  attempts: AttemptsInHand,
  attempt: RecordedAttempt,
  drawn: boolean,
): Promise<string | undefined> {
  const { contents, idempotencyKey, attempt: nth, email } = attempt
  const receiverKey = await openIntact(vault, attempt.receiverKey, receiverKeyOf(email)).catch(async (error) => {
    // this process lacks the key that encrypts all
    await attempts.takeBack([attempt])
    throw error
  })
  if (receiverKey === undefined) {
    await receiver.noteTakenBack(attempt)
    attempts.noteOutcome(attempt, damagedKey)
    return undefined
  }
  const found = isAtHand(contents) ? contents : await planned.readJson(contents)
  if (found === undefined) {
    await receiver.noteTakenBack(attempt)
    await attempts.takeBack([attempt], true)
    return undefined
  }
  const body = planned.bodies.build(attempt, found)
  const outcome = await wire.send({ body, ...attempt, receiverKey })
  planned.bodies.giveBack(body)
  if (outcome.lacks !== undefined) {
    await receiver.noteTakenBack(attempt)
    await attempts.takeBack([attempt])
    return outcome.lacks
  }
  const { durationMs, httpStatus, error, answer, emptySuccess } = outcome
  reporter.attempt({ runId: run.id, idempotencyKey, attempt: nth, durationMs, httpStatus, error, answer })
  if (emptySuccess !== undefined) reporter.line({ type: 'warning', user: email, href: null, message: emptySuccess })
  const noted = receiver.note(attempt, outcome, drawn)
  attempts.noteOutcome(attempt, outcome)
  await noted
  return undefined
}
