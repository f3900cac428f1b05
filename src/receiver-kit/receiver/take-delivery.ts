/**
 * Handles a delivery whose headers are right: checks its body, claims its key, stores its leads, and words the answer.
 */

import { attemptsMax } from '../../base/limits.ts'
import type { Database } from '../../db/open.ts'
import { checkRequestBody, type DeliveryHead, describeProblems, type RequestProblem } from './check-request.ts'
import type { Fault } from './faults.ts'
import { type Applied, applyDelivery, claimDelivery, giveUpClaim } from './receiver-store.ts'

/** The answer to a request, and the report on it. */
export interface TakenDelivery {
  /** 0: not answered, the connection is dropped. */
  status: number
  msg: string
  problems?: RequestProblem[]
  /** More fields of the answer. */
  body?: Record<string, unknown>
  queries?: number
  leads?: number
  applied?: Applied
  times?: number
  fault?: Fault['kind']
}

/** Longer than applying takes, shorter than a sender waits before it tries a killed receiver again. */
const claimMs = 30_000

const key = 'header X-Idempotency-Key'

/** The refusals of a repeated key. */
const repeats = {
  'under-way': {
    status: 409,
    problem: { clause: '4.5', path: key, message: 'is under way: its first attempt is not answered yet' },
  },
  'other-body': {
    status: 422,
    problem: { clause: '4.5', path: 'body', message: 'is not the one that came with this key before' },
  },
} as const

/**
 * Waits for `delay`, `delayMs` at most, while the delivery is under way. Throws the database's errors; the delivery then has no effect.
 */
export async function takeDelivery(
  db: Database,
  head: DeliveryHead,
  bytes: Buffer,
  { delay, delayMs }: { delay: () => Promise<void>; delayMs: number },
): Promise<TakenDelivery> {
  const checked = checkRequestBody(bytes)
  if ('refusal' in checked) {
    await delay()
    return { ...checked.refusal, msg: describeProblems('The body is not a valid delivery', checked.refusal.problems) }
  }
  const { queryList, fsbos } = checked.body
  const claim = await claimDelivery(db, head, bytes, claimMs + delayMs)
  const { times } = claim
  const common = { queries: queryList.length, leads: fsbos.length, times }
  const tooOften = {
    clause: '4.6',
    path: key,
    message: `came ${times} times: at most ${attemptsMax} attempts are made`,
  }
  const problems: RequestProblem[] = times > attemptsMax ? [tooOften] : []
  const repeated = (kind: keyof typeof repeats): TakenDelivery => {
    const { status, problem } = repeats[kind]
    problems.unshift(problem)
    return { ...common, status, problems, msg: describeProblems('This key came before', problems) }
  }
  await delay()
  if (claim.kind === 'same') {
    const msg = 'This delivery came before; nothing was applied twice.'
    return { status: 200, msg, body: { repeated: true }, problems, ...common }
  }
  if (claim.kind !== 'mine') return repeated(claim.kind)
  try {
    const applied = await applyDelivery(db, head, fsbos, claim.claim)
    if (!applied) return repeated('under-way')
    return { status: 200, msg: 'Taken.', body: { repeated: false, ...applied }, applied, problems, ...common }
  } catch (error) {
    await giveUpClaim(db, head, claim.claim).catch(() => {})
    throw error
  }
}
