/**
 * What the receiver makes of a delivery whose headers are right: its body is checked, its key claimed, its leads kept, and the
 * answer worded.
 */
import type { Database } from '../db/open.ts'
import { attemptsMax } from '../limits.ts'
import { checkBody, type DeliveryHead, type Problem } from './check-request.ts'
import type { Fault } from './faults.ts'
import { type Applied, applyDelivery, claimDelivery, giveUpClaim } from './receiver-store.ts'

/** How a request is answered, and what is told about it. */
export interface Verdict {
  /** 0: not answered, the connection is dropped. */
  status: number
  msg: string
  problems?: Problem[]
  /** More fields of the answer. */
  body?: Record<string, unknown>
  queries?: number
  leads?: number
  applied?: Applied
  times?: number
  fault?: Fault['kind']
}

/** Longer than applying takes, shorter than anyone waits to try again after a receiver was killed. */
const claimMs = 30_000

/**
 * `delay` is waited for with the delivery under way, and takes `delayMs` at most. Throws what the database throws; the delivery
 * is then as if it had not come.
 */
export async function takeDelivery(
  db: Database,
  head: DeliveryHead,
  bytes: Buffer,
  { delay, delayMs }: { delay: () => Promise<void>; delayMs: number },
): Promise<Verdict> {
  const checked = checkBody(bytes)
  if ('refusal' in checked) {
    await delay()
    return { ...checked.refusal, msg: 'The body is not a valid delivery.' }
  }
  const { queryList, fsbos } = checked.body
  const counts = { queries: queryList.length, leads: fsbos.length }
  const claim = await claimDelivery(db, head, bytes, claimMs + delayMs)
  const tooOften = `came ${claim.times} times: a key is sent at most ${attemptsMax} times`
  const problems: Problem[] =
    claim.times > attemptsMax ? [{ clause: '4.6', path: 'header X-Idempotency-Key', message: tooOften }] : []
  const common = { ...counts, times: claim.times, problems }
  await delay()
  if (claim.kind === 'under-way') return { status: 409, msg: 'This delivery is under way already.', ...common }
  if (claim.kind === 'other-body') return { status: 422, msg: 'This key came before with another body.', ...common }
  if (claim.kind === 'same') {
    return {
      status: 200,
      msg: 'This delivery came before; nothing was applied twice.',
      body: { repeated: true },
      ...common,
    }
  }
  try {
    const applied = await applyDelivery(db, head, fsbos, claim.claim)
    if (!applied) return { status: 409, msg: 'Somebody else took this delivery meanwhile.', ...common }
    return { status: 200, msg: 'Taken.', body: { repeated: false, ...applied }, applied, ...common }
  } catch (error) {
    await giveUpClaim(db, head, claim.claim).catch(() => {})
    throw error
  }
}
