/** Decrypts the receiver key of an attempt just before it is sent. */
import type { AttemptOutcome } from '../../deliveries/attempt.ts'
import type { RecordedAttempt } from '../../deliveries/ledger.ts'
import { receiverKeyOf } from '../../secrets/cipher.ts'
import { openIntact, type Vault } from '../../secrets/vault.ts'

/** Undefined if the stored key is damaged. Throws `usage` if this process lacks the key that it is encrypted with. */
export const openReceiverKey = (vault: Vault, { email, receiverKey }: RecordedAttempt): Promise<string | undefined> =>
  openIntact(vault, receiverKey, receiverKeyOf(email))

/** The outcome of an attempt whose key is damaged: nothing was sent. */
export const damagedKey: AttemptOutcome = {
  ok: false,
  maybeArrived: false,
  httpStatus: null,
  error:
    "the stored receiver key cannot be decrypted, since it was changed: bring the user's key in again with `leadpush users import`",
  durationMs: 0,
  retryAfterMs: null,
  acceptsGzip: false,
}
