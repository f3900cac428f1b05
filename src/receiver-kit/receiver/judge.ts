/** Judges a request, in this order: faults on demand, the rules of its headers, its user's key, its delivery. */
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { codeOf } from '../../base/errors.ts'
import { bodyBytesMax, neverValidReceiverKey } from '../../base/limits.ts'
import type { OpenDatabase } from '../../db/open.ts'
import { type CheckedHead, describeProblems, type RequestProblem } from './check-request.ts'
import { countFaults, type Faults } from './faults.ts'
import type { ReadBody } from './read-body.ts'
import { type TakenDelivery, takeDelivery } from './take-delivery.ts'

export interface JudgeOptions {
  db: OpenDatabase
  faults?: Faults
  /** Whether a user has this key; without it every well-formed one is taken. */
  knowsKey?: (key: string) => boolean | Promise<boolean>
}

const full: TakenDelivery = { status: 503, msg: 'Too many deliveries at once; try again later.' }
const unknownKey: RequestProblem = {
  clause: '4.1',
  path: 'header X-Service-API-Key',
  message: 'is not the key of a user of this receiver',
}

/** The returned function throws the database's errors. `closing` ends the delays. */
export function createJudge({ db, faults = {}, knowsKey }: JudgeOptions, closing: AbortSignal) {
  const { delayMs = 0 } = faults
  const nextFault = countFaults(faults)
  const delay = async () => {
    if (delayMs > 0) await wait(delayMs, undefined, { signal: closing }).catch(() => {})
  }
  const judgeFault = (): TakenDelivery | undefined => {
    const fault = nextFault()
    if (fault?.kind === 'fail') return { status: fault.status, msg: 'A fault that was asked for.', fault: 'fail' }
    if (fault) return { status: 0, msg: 'Dropped, as was asked for.', fault: 'drop' }
    return undefined
  }
  const refuse = async (status: number, problems: RequestProblem[]): Promise<TakenDelivery> => {
    await delay()
    return { status, problems, msg: describeProblems('This is not a valid delivery', problems) }
  }
  return async (checked: CheckedHead, { bytes, length, isWhole }: ReadBody): Promise<TakenDelivery> => {
    if (!isWhole) return { status: 0, msg: `The sender broke off after ${length} bytes of the body.` }
    // a HEAD, by which a sender looks for a sign of life, is no delivery and uses up no fault
    const isDelivery = !('refusal' in checked) || checked.refusal.status !== 405
    const fault = isDelivery ? judgeFault() : undefined
    if (fault) {
      await delay()
      return fault
    }
    if ('refusal' in checked) return await refuse(checked.refusal.status, checked.refusal.problems)
    const { head } = checked
    if (bytes.length < head.length) return full
    const isKnown = head.receiverKey !== neverValidReceiverKey && (await (knowsKey?.(head.receiverKey) ?? true))
    if (!isKnown) return await refuse(401, [unknownKey])
    const plain = head.gzip ? await gunzipBody(bytes) : { body: bytes }
    if ('problem' in plain) return await refuse(plain.status, [plain.problem])
    return await takeDelivery(db.db, head, plain.body, { delay, delayMs })
  }
}

const gunzipWithin = promisify(gunzip)

/** Decodes a compressed body (contract 4.17), and stops at the limit of a body. */
async function gunzipBody(bytes: Buffer): Promise<{ body: Buffer } | { status: number; problem: RequestProblem }> {
  try {
    return { body: await gunzipWithin(bytes, { maxOutputLength: bodyBytesMax }) }
  } catch (error) {
    const isTooLarge = codeOf(error) === 'ERR_BUFFER_TOO_LARGE'
    const message = isTooLarge ? `has more than ${bodyBytesMax} bytes, decoded` : 'is not whole gzip'
    return { status: isTooLarge ? 413 : 400, problem: { clause: '4.17', path: 'body', message } }
  }
}
