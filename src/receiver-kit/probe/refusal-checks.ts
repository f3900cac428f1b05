/** Checks that a receiver refuses wrong keys, bodies that are no delivery, and bodies beyond the limits (contract 4.1 to 4.3). */
import { leadsPerQueryMax, neverValidReceiverKey } from '../../base/limits.ts'
import { type Check, fail, judgeRefused, type Verdict, warn } from './check.ts'
import { buildBody, buildEndless, query } from './made-up.ts'
import type { Sent } from './sender.ts'

/** More bytes than any reading of `5 MB` allows. */
const tooManyBytes = 8_000_000

function judgeKey(sent: Sent, advice: string): Verdict {
  const verdict = judgeRefused(sent, fail, advice)
  const isOther4xx = verdict.grade === 'pass' && sent.status !== 401 && sent.status !== 403
  return isOther4xx ? warn(sent, advice) : verdict
}

export const refusalChecks: readonly Check[] = [
  {
    name: 'wrong-key',
    title: 'A wrong user key is refused',
    clause: '4.1',
    sends: `a delivery with the X-Service-API-Key ${neverValidReceiverKey}, which no receiver may ever give to a user`,
    async run({ sender, madeUp }) {
      const headers = { 'X-Service-API-Key': neverValidReceiverKey }
      const sent = await sender.send(buildBody([query], [madeUp.lead('wrong-key')]), { key: madeUp.newKey(), headers })
      return judgeKey(sent, 'Answer a key of no user with 401: the operator sees whose key is wrong.')
    },
  },
  {
    name: 'missing-key',
    title: 'A missing user key is refused',
    clause: '4.1',
    sends: 'a delivery without X-Service-API-Key',
    async run({ sender, madeUp }) {
      const headers = { 'X-Service-API-Key': null }
      const sent = await sender.send(buildBody([query], [madeUp.lead('no-key')]), { key: madeUp.newKey(), headers })
      return judgeKey(sent, 'Answer a delivery without X-Service-API-Key with 401.')
    },
  },
  {
    name: 'missing-idempotency-key',
    title: 'A missing idempotency key is refused',
    clause: '4.1',
    sends: 'a delivery without X-Idempotency-Key',
    async run({ sender, madeUp }) {
      const headers = { 'X-Idempotency-Key': null }
      const sent = await sender.send(buildBody([query], [madeUp.lead('no-idempotency')]), { key: '', headers })
      return judgeRefused(sent, warn, 'Answer it with 400: without X-Idempotency-Key a second attempt cannot be told.')
    },
  },
  {
    name: 'not-json',
    title: 'What is no JSON is refused',
    clause: '4.2',
    sends: 'the first half of a delivery, as if it were all of it',
    async run({ sender, madeUp }) {
      const body = buildBody([query], [madeUp.lead('not-json')])
      const sent = await sender.send(body.subarray(0, body.length / 2), { key: madeUp.newKey() })
      return judgeRefused(sent, fail, 'Answer it with 400, and with a 2xx only to what was read and understood.')
    },
  },
  {
    name: 'missing-href',
    title: 'A lead without href is refused',
    clause: '4.2',
    sends: 'a lead without href, which is its identity',
    async run({ sender, madeUp }) {
      const { href: _, ...lead } = madeUp.lead('no-href')
      const sent = await sender.send(buildBody([query], [lead]), { key: madeUp.newKey() })
      return judgeRefused(sent, warn, 'Answer it with 422, and say what is wrong with it.')
    },
  },
  {
    name: 'leads-301',
    title: '301 leads of one query are refused',
    clause: '4.3',
    sends: '301 leads of one query',
    async run({ sender, madeUp }) {
      const body = buildBody([query], madeUp.leads('many', leadsPerQueryMax + 1))
      const sent = await sender.send(body, { key: madeUp.newKey() })
      return judgeRefused(sent, warn, 'Answer it with 422: a query brings 300 leads at most.')
    },
  },
  {
    name: 'body-8-mb',
    title: 'A body far over 5 MB is refused',
    clause: '4.2',
    sends: 'a delivery of 8,000,000 bytes',
    async run({ sender, madeUp }) {
      const body = buildEndless(tooManyBytes, madeUp.lead('too-large'))
      const sent = await sender.send(body, { key: madeUp.newKey(), apart: true })
      return judgeRefused(
        sent,
        fail,
        'Answer it with 413: a body has 5,000,000 bytes at most, and a receiver needs a limit.',
      )
    },
  },
]
