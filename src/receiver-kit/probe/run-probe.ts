/**
 * A probe of a receiver: made-up deliveries, one check after the other, each graded by its visible effects. It writes nothing; its
 * requests are bounded in number, size and time.
 */
import { milliseconds, secondsSince } from '../../base/amounts.ts'
import { bodyChecks, example } from './body-checks.ts'
import {
  fail,
  type Grade,
  notVisible,
  type ProbeCheck,
  type ProbeContext,
  type ProbeVerdict,
  pass,
  warn,
} from './check.ts'
import { keyChecks } from './key-checks.ts'
import { madeUpKey, makeUp } from './made-up.ts'
import { refusalChecks } from './refusal-checks.ts'
import { ProbeSender, type SenderOptions } from './sender.ts'

export interface CheckLine extends ProbeVerdict {
  type: 'check'
  check: string
  title: string
  clause: string
  sent: string
  seconds: number
}

export interface ProbeSummaryLine {
  type: 'summary'
  /** The worst grade of all checks. */
  grade: Exclude<Grade, 'not visible'>
  checks: number
  passed: number
  warned: number
  failed: number
  notVisible: number
  requests: number
  /** The mark in every href and key that was sent. */
  probe: string
  seconds: number
}

export interface ProbeOptions extends Omit<SenderOptions, 'receiverKey'> {
  /** Undefined: a made-up key. */
  receiverKey: string | undefined
  onBegin?: (title: string) => void
  onCheck(line: CheckLine): void | Promise<void>
}

/** After so many requests in a row without an answer the receiver counts as gone. */
const unansweredMax = 3
/** When this time is over, the probe finishes the requests under way and sends nothing more. */
const probeMsMax = 10 * 60_000

/** The most that all checks send together; the user is asked to agree to it. */
export const planned = { requests: 40, megabytes: 15 } as const

const adviceOnKey = 'The made-up key was refused: name a user of yours with --user EMAIL, whose key the receiver knows.'
const adviceOnSilence = 'Check that the receiver runs, and LEADPUSH_RECEIVER_URL; nothing else was tried.'
const adviceOnThrottle = 'Some answers were 429: set LEADPUSH_RATE, and run the probe again.'

/** The last check, which looks at the answers to all others. */
const inTime: ProbeCheck = {
  name: 'in-time',
  title: 'Every answer was complete in time',
  clause: '4.5',
  sends: 'nothing of its own',
  async run({ sender: { answers, slowestMs, timeouts, requests, timeoutMs } }) {
    const limit = `the limit is LEADPUSH_TIMEOUT, ${milliseconds(timeoutMs)}`
    if (timeouts > 0) {
      const advice = 'Answer sooner: commit the leads first, and do slow work after that.'
      return fail({ received: `${timeouts} of ${requests} answers did not come in time; ${limit}` }, advice)
    }
    if (answers === 0) return notVisible('nothing was answered')
    const received = `the slowest took ${milliseconds(slowestMs)}; ${limit}`
    if (slowestMs <= timeoutMs / 2) return pass({ received })
    return warn({ received }, 'That is more than half of it: on a busy day it will be too much.')
  },
}

export async function runProbe({ receiverKey, onBegin, onCheck, ...options }: ProbeOptions): Promise<ProbeSummaryLine> {
  const startedMs = performance.now()
  const sender = new ProbeSender({ ...options, receiverKey: receiverKey ?? madeUpKey })
  const context: ProbeContext = { sender, madeUp: makeUp(), tellsUnchanged: undefined }
  const grades: Record<Grade, number> = { pass: 0, warn: 0, fail: 0, 'not visible': 0 }
  const checks = [example, ...keyChecks, ...bodyChecks, ...refusalChecks, inTime]
  let over: string | undefined

  const run = async (check: ProbeCheck): Promise<ProbeVerdict> => {
    if (over !== undefined && check !== inTime) return notVisible(`not tried: ${over}`)
    const { throttled } = sender
    const verdict = await check.run(context)
    if (sender.throttled > throttled && verdict.grade !== 'not visible') return warn(verdict, adviceOnThrottle)
    if (check !== example || verdict.grade === 'pass') return verdict
    over = 'an ordinary delivery was not taken'
    if (sender.answers === 0) return { ...verdict, advice: adviceOnSilence }
    const isKey = receiverKey === undefined && /^HTTP 40[13]/.test(verdict.received)
    return isKey ? { ...verdict, advice: adviceOnKey } : verdict
  }

  try {
    for (const check of checks) {
      onBegin?.(check.title)
      const beganMs = performance.now()
      const verdict = await run(check)
      grades[verdict.grade]++
      const { name, title, clause, sends } = check
      const seconds = secondsSince(beganMs)
      await onCheck({ type: 'check', check: name, title, clause, sent: sends, ...verdict, seconds })
      if (sender.unanswered >= unansweredMax) over ??= `${unansweredMax} requests in a row had no answer`
      if (performance.now() - startedMs > probeMsMax) over ??= 'the probe took too long'
    }
  } finally {
    await sender.close()
  }
  return {
    type: 'summary',
    grade: grades.fail > 0 ? 'fail' : grades.warn > 0 ? 'warn' : 'pass',
    checks: checks.length,
    passed: grades.pass,
    warned: grades.warn,
    failed: grades.fail,
    notVisible: grades['not visible'],
    requests: sender.requests,
    probe: context.madeUp.id,
    seconds: secondsSince(startedMs),
  }
}
