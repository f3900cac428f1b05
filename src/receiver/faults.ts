/** Faults on request, for trying a sender: the next requests are refused or dropped, every answer is late. */

export interface Faults {
  /** The next `times` requests get this status; they are read, and nothing of them is kept. */
  fail?: { status: number; times: number }
  /** The next `drop` requests, after those that fail, are read, and their connection is ended without an answer. */
  drop?: number
  /** Every answer waits so long, with its delivery under way. */
  delayMs?: number
}

/** `503:2`, or `503` for one: a status from 300 to 599, and how often; undefined for anything else. */
export function parseFail(text: string): NonNullable<Faults['fail']> | undefined {
  const match = /^([345]\d\d)(?::([1-9]\d{0,8}))?$/.exec(text)
  return match ? { status: Number(match[1]), times: Number(match[2] ?? 1) } : undefined
}

export type Fault = { kind: 'fail'; status: number } | { kind: 'drop' }

/** Counts the faults down: what the next request is to suffer, or undefined. */
export function countFaults({ fail, drop = 0 }: Faults): () => Fault | undefined {
  let failures = fail?.times ?? 0
  let drops = drop
  return () => {
    if (fail && failures > 0) {
      failures--
      return { kind: 'fail', status: fail.status }
    }
    if (drops === 0) return undefined
    drops--
    return { kind: 'drop' }
  }
}
