/**
 * What a person is told to do about deliveries that did not arrive, as a value. A push at its end, `status`, `preview`, `explain`,
 * reports and pings say it; `test/e2e/advice.test.ts` does it, and then nothing is left to be told.
 */
import type { PushEnd } from '../../push/push-request.ts'

/** What keeps users from their deliveries, as far as it is known. */
export interface Troubles {
  /** `empty`: its answers do not show that it takes deliveries; `asks`: it takes nothing, and asks for less. */
  receiver?: { is: 'down' | 'asks' | 'empty' } | { is: 'refuses'; status: number } | undefined
  /** What holds back the weekly push: the listings of the week, the time zone, or a look at some of its users. */
  held?: 'week' | 'zone' | 'users' | undefined
  /** Deliveries wait for an attempt, a run left users, or its records were lost. */
  waits?: boolean
  /** Users are owed the weekly delivery, and no run has begun with them. */
  owed?: boolean
  /** Deliveries, or users with some, that ended so. */
  failed?: number
  unknown?: number
  doubtful?: number
  /** The only user, if `push --failed` would not serve them. */
  user?: string | undefined
}

export type Mend = 'mend receiver' | 'mend import' | 'mend users' | 'mend zone' | 'mend cause'
export type Code = 'down' | 'refused' | 'held' | 'lost' | 'stuck' | 'left' | 'two-weeks' | 'no-push' | 'doubtful' | 'not-delivered' // biome-ignore format: short

/** `of`: the alarms that it answers. `or`: another command that does it, `when` that holds. */
export type Step = { why: string; of: readonly Code[] } & (
  | { do: Mend }
  | { run: readonly string[]; or?: { run: readonly string[]; when: string } }
)

function describeReceiver(receiver: NonNullable<Troubles['receiver']>): string {
  switch (receiver.is) {
    case 'down':
      return 'it is down'
    case 'asks':
      return 'it takes nothing, and asks for less'
    case 'empty':
      return 'its answers do not show that it takes deliveries: does LEADPUSH_RECEIVER_URL lead to it?'
    case 'refuses':
      return `everybody gets HTTP ${receiver.status}`
  }
}

const mends = {
  week: { do: 'mend import', why: 'mend what was imported' },
  users: {
    do: 'mend users',
    why: 'ask `leadpush preview` why, and mend what was imported, or the query that takes too long',
  },
  zone: { do: 'mend zone', why: 'give all machines one LEADPUSH_TIME_ZONE' },
} as const

/** The command that goes on with what was begun, or begins with those who are owed. */
function goOn({ receiver, held, waits = false, owed = false }: Troubles): Step | undefined {
  const of = ['down', 'refused', 'held', 'lost', 'stuck', 'left', 'two-weeks', 'no-push'] as const
  const why = 'users are owed deliveries'
  const all = ['push', '--all']
  if (held !== undefined)
    return { run: all, or: { run: [...all, '--accept'], when: 'if it is right as it is' }, why, of }
  if (!waits) return owed ? { run: all, why, of } : undefined
  const run = ['push', '--resume']
  if (receiver?.is === 'refuses')
    return { run, or: { run: [...run, '--accept'], when: 'if the next try would be an hour away' }, why, of }
  if (receiver?.is === 'empty')
    return { run, or: { run: [...all, '--accept'], when: 'if it takes them all the same' }, why, of }
  return { run, why, of }
}

/** The command that makes deliveries anew. */
function makeAnew({ held, failed = 0, unknown = 0, doubtful = 0, user }: Troubles): Step | undefined {
  if (failed + unknown + doubtful === 0) return undefined
  const why = 'users got no delivery for sure'
  const of = ['doubtful', 'not-delivered'] as const
  if (user !== undefined) return { run: ['push', '--user', user], why, of }
  const run = ['push', '--failed', ...(unknown > 0 ? ['--unknown'] : []), ...(doubtful > 0 ? ['--doubtful'] : [])]
  // what holds the push would be accepted too
  if (doubtful === 0 || held !== undefined) return { run, why, of }
  return { run, or: { run: ['push', '--all', '--accept'], when: 'if the receiver took the doubtful ones' }, why, of }
}

/** The steps in their order. None: nothing is to be done. */
export function adviseOn(troubles: Troubles): Step[] {
  const { receiver, held, failed = 0, unknown = 0, doubtful = 0 } = troubles
  const [go, anew] = [goOn(troubles), makeAnew(troubles)]
  // without anything to go on with, deliveries made anew are what shows that the receiver is well
  const again: Step | undefined = anew && !go ? { ...anew, of: [...anew.of, 'down', 'refused', 'held'] } : anew
  // `--accept`, given for what holds the push, would also take the doubtful deliveries for good
  const runs = held !== undefined && doubtful > 0 ? [again, go] : [go, again]
  const steps: (Step | false | undefined)[] = [
    receiver && {
      do: 'mend receiver',
      why: `mend the receiver (${describeReceiver(receiver)})`,
      of: [
        'down',
        'refused',
        'stuck',
        'doubtful',
        'not-delivered',
        ...(receiver.is === 'empty' ? (['held'] as const) : []),
      ],
    },
    held && { ...mends[held], of: ['held'] },
    failed + unknown > 0 && !receiver && { do: 'mend cause', why: 'mend the cause', of: ['not-delivered'] },
    ...runs,
  ]
  return steps.filter((step) => step !== false && step !== undefined)
}

const quote = (command: readonly string[]) => `\`leadpush ${command.join(' ')}\``
const capital = (text: string) => `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`

/** The steps as one sentence; empty without steps. `code`: only those that answer this alarm. */
export function tellSteps(steps: readonly Step[], code?: Code): string {
  const told = steps.filter(({ of }) => code === undefined || of.includes(code))
  const mended = told.flatMap((step) => ('do' in step ? [step.why] : []))
  const runs = told.flatMap((step) => {
    if ('do' in step) return []
    return [`run ${quote(step.run)}${step.or ? ` (or, ${step.or.when}, ${quote(step.or.run)})` : ''}`]
  })
  const parts = [...(mended.length > 0 ? [mended.join(', and ')] : []), ...runs]
  return parts.length === 0 ? '' : capital(`${parts.join(', then ')}.`)
}

/** What the end of a push knows of trouble. */
export function troublesOf(
  { summary, gaveUp, guard, heldUsers, cameToEnd, doubtful }: PushEnd,
  user?: string,
): Troubles {
  const { deliveries, delivered, failed, unknown, owed } = summary
  const isPending = deliveries > delivered + failed + unknown
  return {
    receiver: gaveUp && toReceiver(gaveUp),
    held: guard ?? (heldUsers > 0 ? 'users' : undefined),
    waits: isPending || (!cameToEnd && owed > 0),
    ...{ failed, unknown, doubtful, user },
  }
}

function toReceiver(why: NonNullable<PushEnd['gaveUp']>): Troubles['receiver'] {
  switch (why.by) {
    case 'outage':
      return { is: 'down' }
    case 'asking':
      return { is: 'asks' }
    // the push has said what this machine lacks
    case 'shortage':
      return undefined
    case 'refusal':
      return { is: 'refuses', status: why.status }
    case 'answers':
      return { is: 'empty' }
  }
}

/** The steps as `--json` has them. */
export const toAdvice = (steps: readonly Step[]): object[] => steps.map(({ of: _, ...step }) => step)
