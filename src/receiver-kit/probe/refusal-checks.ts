/** Checks that a receiver refuses wrong keys, invalid bodies, and a body beyond the limit (contract 4.1, 4.2). */
import { leadsPerQueryMax, neverValidReceiverKey } from '../../base/limits.ts'
import { fail, judgeRefused, type ProbeCheck, type ProbeVerdict, warn } from './check.ts'
import { buildBodyOf, buildMadeUpBody, type MadeUp, query } from './made-up.ts'
import type { SendOptions, SentDelivery } from './sender.ts'

/** More bytes than any reading of `5 MB` allows. */
const tooManyBytes = 8_000_000

/** The one fault of a delivery; the rest of it is right. */
interface Wrong extends Partial<SendOptions> {
  body?: Buffer
}

/** A check that one wrong delivery is refused; `judge` grades the answer. */
const refused = (
  check: Omit<ProbeCheck, 'run'>,
  build: (madeUp: MadeUp) => Wrong,
  judge: (sent: SentDelivery) => ProbeVerdict,
): ProbeCheck => ({
  ...check,
  async run({ sender, madeUp }) {
    const { body = buildMadeUpBody([query], [madeUp.lead(check.name)]), ...options } = build(madeUp)
    return judge(await sender.send(body, { key: madeUp.newKey(), ...options }))
  },
})

const failing = (advice: string) => (sent: SentDelivery) => judgeRefused(sent, fail, advice)
const warning = (advice: string) => (sent: SentDelivery) => judgeRefused(sent, warn, advice)

/** Only a 401 or 403 tells the operator that a user's key is wrong. */
function judgeWrongKey(sent: SentDelivery): ProbeVerdict {
  const advice = 'Answer a key of no user with 401: the operator sees whose key is wrong.'
  const verdict = judgeRefused(sent, fail, advice)
  return verdict.grade === 'pass' && sent.status !== 401 && sent.status !== 403 ? warn(sent, advice) : verdict
}

export const refusalChecks: readonly ProbeCheck[] = [
  refused(
    {
      name: 'wrong-key',
      title: 'A wrong user key is refused',
      clause: '4.1',
      sends: `a delivery with the X-Service-API-Key ${neverValidReceiverKey}, which no receiver may ever give to a user`,
    },
    () => ({ headers: { 'X-Service-API-Key': neverValidReceiverKey } }),
    judgeWrongKey,
  ),
  refused(
    {
      name: 'missing-idempotency-key',
      title: 'A missing idempotency key is refused',
      clause: '4.1',
      sends: 'a delivery without X-Idempotency-Key',
    },
    () => ({ headers: { 'X-Idempotency-Key': null }, key: '' }),
    warning('Answer it with 400: without X-Idempotency-Key a second attempt cannot be told.'),
  ),
  refused(
    {
      name: 'not-json',
      title: 'A body that is not JSON is refused',
      clause: '4.2',
      sends: 'the first half of a delivery, as if it were all of it',
    },
    (madeUp) => {
      const body = buildMadeUpBody([query], [madeUp.lead('not-json')])
      return { body: body.subarray(0, body.length / 2) }
    },
    failing('Answer it with 400, and with a 2xx only to what was read and understood.'),
  ),
  refused(
    {
      name: 'missing-href',
      title: 'A lead without href is refused',
      clause: '4.2',
      sends: 'a lead without href, which is its identity',
    },
    (madeUp) => {
      const { href: _, ...lead } = madeUp.lead('no-href')
      return { body: buildMadeUpBody([query], [lead]) }
    },
    warning('Answer it with 422, and say what is wrong with it.'),
  ),
  refused(
    {
      name: 'body-8-mb',
      title: 'A body far over 5 MB is refused',
      clause: '4.2',
      sends: 'a delivery of 8,000,000 bytes',
    },
    (madeUp) => ({ body: buildBodyOf(tooManyBytes, [query], madeUp.leads('too-large', leadsPerQueryMax)) }),
    failing('Answer it with 413: a body has 5,000,000 bytes at most, and a receiver needs a limit.'),
  ),
]
