/** Faults on demand, for trying a sender: the next requests are refused or dropped, every answer is late. */

export interface Faults {
  /** One after the other, each for `times` requests: these are read, get this status, and change nothing. */
  fail?: readonly { status: number; times: number }[]
  /** After the failing requests so many are read and get no answer: their connection ends. */
  drop?: number
  /** Every answer waits so long, while its delivery is under way. */
  delayMs?: number
}

/** `503:2`, or `503` for one: a status from 300 to 599, and how often; undefined for anything else. */
export function parseFail(text: string): { status: number; times: number } | undefined {
  const match = /^([345]\d\d)(?::([1-9]\d{0,8}))?$/.exec(text)
  return match ? { status: Number(match[1]), times: Number(match[2] ?? 1) } : undefined
}

export type Fault = { kind: 'fail'; status: number } | { kind: 'drop' }

/** Counts the faults down: returns that of the next request, or undefined. */
export function countFaults({ fail = [], drop = 0 }: Faults): () => Fault | undefined {
  const left = fail.map((one) => ({ ...one }))
  let drops = drop
  return () => {
    const next = left.find(({ times }) => times > 0)
    if (next) {
      next.times--
      return { kind: 'fail', status: next.status }
    }
    return drops-- > 0 ? { kind: 'drop' } : undefined
  }
}
