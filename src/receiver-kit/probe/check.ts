/** The shape of a probe's check, and its grades. */
import type { MadeUp } from './made-up.ts'
import type { ProbeSender, SentDelivery } from './sender.ts'

/** `not visible`: the answer does not show whether the receiver did right. */
export type Grade = 'pass' | 'warn' | 'fail' | 'not visible'

export interface ProbeVerdict {
  grade: Grade
  /** The answer in words, or why nothing was sent. */
  received: string
  /** Advice for the receiver's developer; null: nothing is wrong. */
  advice: string | null
}

export interface ProbeContext {
  sender: ProbeSender
  madeUp: MadeUp
  /** Whether the counts in the answers tell an unchanged lead from a changed one; undefined until that was tried. */
  tellsUnchanged: boolean | undefined
}

export interface ProbeCheck {
  name: string
  title: string
  /** The clause of the contract. */
  clause: string
  /** The requests of the check, in words. */
  sends: string
  run(context: ProbeContext): Promise<ProbeVerdict>
}

export const pass = ({ received }: { received: string }): ProbeVerdict => ({ grade: 'pass', received, advice: null })
export const fail = ({ received }: { received: string }, advice: string): ProbeVerdict => ({
  grade: 'fail',
  received,
  advice,
})
export const warn = ({ received }: { received: string }, advice: string): ProbeVerdict => ({
  grade: 'warn',
  received,
  advice,
})
export const notVisible = (received: string, advice: string | null = null): ProbeVerdict => ({
  grade: 'not visible',
  received,
  advice,
})

const isRefusal = ({ status }: SentDelivery) => status !== null && status >= 400 && status < 500

/** A wrong delivery: a 4xx passes, a 2xx is graded `ifTaken`. */
export function judgeRefused(
  sent: SentDelivery,
  ifTaken: (sent: SentDelivery, advice: string) => ProbeVerdict,
  advice: string,
): ProbeVerdict {
  if (isRefusal(sent)) return pass(sent)
  if (sent.ok) return ifTaken(sent, advice)
  if (sent.status === null) return warn(sent, `${advice} The sender should see that answer.`)
  return sent.status >= 500 ? fail(sent, `A 5xx says that the receiver is in trouble. ${advice}`) : warn(sent, advice)
}

/** Joins several answers into a line. */
export const both = (...sent: SentDelivery[]) => ({ received: sent.map(({ received }) => received).join('; ') })

export const untold = ({ received }: { received: string }) =>
  notVisible(
    `${received}, without counts of what was new, changed and unchanged`,
    'See `leadpush probe --help` for these counts.',
  )
