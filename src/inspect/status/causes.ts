/**
 * Groups the errors of many deliveries into a few causes, each with what to do. Pure: it reads only the one-line errors that the
 * ledger keeps, so that a running push and a later report say the same.
 */
import { formatCount } from '../../base/amounts.ts'
import type { Finding } from '../finding.ts'

/** `what` has the same words for every delivery with this cause: `HTTP 401: …`. */
export type Cause = Pick<Finding, 'what'> & { toDo: string }

/** An answer, and the number of deliveries that got it. */
export interface AnswerCount {
  answer: string
  deliveries: number
}

/** The most answers that are shown for one cause: a receiver that names single listings answers each delivery differently. */
export const answersShown = 3

/** A cause with its deliveries. */
export interface CauseGroup extends Cause {
  deliveries: number
  /** The first few of their users. */
  users: string[]
  /** What the receiver said, the most frequent first. */
  answers: AnswerCount[]
}

/** The outcome of a delivery, which tells its cause; `error` is that of the ledger. */
export interface Undelivered {
  httpStatus: number | null
  error: string | null
}

const keyRemedy = 'Bring the keys of these users up to date: leadpush users import FILE.'
const addressRemedy = 'Check LEADPUSH_RECEIVER_URL: it must be the full URL that takes the deliveries.'
const repeatedRemedy =
  'After the database was restored from a backup it is expected: the receiver has that delivery from before. Otherwise the receiver must take a repeated X-Idempotency-Key as done.'
const laterRemedy = "The receiver's log says why."
const proxyRemedy = 'Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY.'
const certificateRemedy =
  'If a certificate authority of your own signed it, name that in NODE_EXTRA_CA_CERTS; else the receiver needs another certificate.'

const statusRemedies: Readonly<Record<number, string>> = {
  400: "The receiver's log says what it misses. See what is sent: leadpush preview --body; leadpush probe tries the receiver.",
  401: keyRemedy,
  403: keyRemedy,
  404: addressRemedy,
  405: addressRemedy,
  407: 'Put the user name and password of the proxy into HTTP_PROXY or HTTPS_PROXY.',
  408: 'It, or a proxy before it, waited too long for the body: lower LEADPUSH_CONCURRENCY.',
  409: repeatedRemedy,
  410: addressRemedy,
  411: 'A proxy before the receiver drops Content-Length: set it up to keep it.',
  413: 'Let the receiver, and each proxy before it, take bodies of up to 5,000,000 bytes (nginx: client_max_body_size 5m).',
  415: addressRemedy,
  422: `The receiver's log says what it refused; leadpush preview --body shows what is sent. ${repeatedRemedy}`,
  429: 'Send more slowly: set LEADPUSH_RATE, lower LEADPUSH_CONCURRENCY.',
}

/** For a receiver that refuses everybody: new keys for single users would not help. */
const everybodyRemedy =
  'It takes no key at all, so it is not about single users: check LEADPUSH_RECEIVER_URL, and ask the receiver which keys it knows. One is tried with: leadpush probe --user EMAIL.'

/** Remedies by the error in the ledger; the first that fits counts. */
const textRemedies: readonly (readonly [RegExp, string])[] = [
  [/proxy (asks|refused|closed|was not reached)/, proxyRemedy],
  [/host name is unknown/, 'Check the host in LEADPUSH_RECEIVER_URL, and whether this machine can look it up.'],
  [/could not be looked up|was not looked up in time/, 'The name server of this machine did not answer.'],
  [/nothing listens there/, 'Check that the receiver runs, and the host and port in LEADPUSH_RECEIVER_URL.'],
  [/no route|no connection in time/, 'Check LEADPUSH_RECEIVER_URL, and the network and firewall on the way there.'],
  [
    /client certificate/,
    'Put a certificate that the receiver takes, with its key, into LEADPUSH_CLIENT_CERT and LEADPUSH_CLIENT_KEY; leadpush validate checks them.',
  ],
  [
    /certificate has expired|certificate is not valid yet/,
    'The receiver needs a new certificate; check the clock of this machine, too.',
  ],
  [/certificate is for another/, 'Check the host in LEADPUSH_RECEIVER_URL: its certificate must name it.'],
  [/certificate is not trusted/, certificateRemedy],
  [/TLS handshake/, 'Check whether LEADPUSH_RECEIVER_URL must begin with http: or https:, and the port.'],
  [
    /did not come in time/,
    'The receiver is too slow: lower LEADPUSH_CONCURRENCY, or give it more time with LEADPUSH_TIMEOUT.',
  ],
  [/connection broke/, 'The receiver, or a proxy before it, ends connections early: its log may say why.'],
  [/no valid HTTP|headers of the answer/, addressRemedy],
  [/nobody recorded/, 'A process died, or lost its database, during the attempt.'],
  [/a listing was erased/, 'They are made anew without it.'],
  [/user was removed|user unsubscribed/, 'Nothing is to be done.'],
]

const elseRemedy = 'See the attempts: leadpush status --user EMAIL.'

function remedyFor(status: number | undefined, error: string): string {
  if (status === undefined) return textRemedies.find(([text]) => text.test(error))?.[1] ?? elseRemedy
  if (status >= 300 && status < 400) return 'Set LEADPUSH_RECEIVER_URL to the address that the redirect leads to.'
  return statusRemedies[status] ?? (status >= 500 ? laterRemedy : "The receiver's log says why it refused them.")
}

/** The cause of one delivery that ended failed or unknown. */
export function causeOf({ httpStatus, error }: Undelivered): Cause {
  if (error === null) {
    const what = httpStatus === null ? 'the reason is not known' : `HTTP ${httpStatus}`
    return { what, toDo: remedyFor(httpStatus ?? undefined, '') }
  }
  // a delivery may end for another reason than its last answer, so its error decides
  const answer = /^HTTP (\d{3})(?:: [^:;]+)?/.exec(error)
  if (answer) return { what: answer[0], toDo: remedyFor(Number(answer[1]), error) }
  const what = error.replace(/; .*$/, '').replaceAll(/ \([^)]*\)/g, '')
  return { what, toDo: remedyFor(undefined, error) }
}

/** The receiver's words, with their number if it is more than one. */
export const formatAnswer = ({ answer, deliveries }: AnswerCount): string =>
  deliveries > 1 ? `${answer} (${formatCount(deliveries)} times)` : answer

/** Changes the advice on keys if that is the only cause, several users have it, and no delivery arrived. */
export function forEverybody<C extends Cause>(
  causes: readonly C[],
  { arrived, users }: { arrived: number; users: number },
): readonly C[] {
  const [cause] = causes
  if (!cause || causes.length > 1 || arrived > 0 || users < 2) return causes
  return cause.toDo === keyRemedy ? [{ ...cause, toDo: everybodyRemedy }] : causes
}

/** More causes than the program can produce; memory is bounded all the same. */
const causesMax = 100
/** The most different answers that are counted for one cause. */
const answersMax = 50

/** Counts deliveries that did not arrive by cause, one after the other. */
export class CauseTally {
  private readonly groups = new Map<string, CauseGroup>()
  private readonly answers = new Map<string, Map<string, number>>()
  private readonly usersMax: number

  /** Keeps up to `usersMax` users of each cause. */
  constructor(usersMax: number) {
    this.usersMax = usersMax
  }

  add(delivery: Undelivered & { user: string | null; answer?: string | undefined }): void {
    const found = causeOf(delivery)
    const { what, toDo } =
      this.groups.has(found.what) || this.groups.size < causesMax ? found : { what: 'other causes', toDo: elseRemedy }
    const group = this.groups.get(what) ?? { what, toDo, deliveries: 0, users: [], answers: [] }
    this.groups.set(what, group)
    group.deliveries++
    const { user, answer } = delivery
    if (answer !== undefined) this.addAnswer(what, answer)
    if (user !== null && group.users.length < this.usersMax && !group.users.includes(user)) group.users.push(user)
  }

  /** The most frequent causes first, `limit` of them at most. */
  top(limit = Number.POSITIVE_INFINITY): CauseGroup[] {
    const groups = [...this.groups.values()].sort((a, b) => b.deliveries - a.deliveries).slice(0, limit)
    return groups.map((group) => ({ ...group, answers: this.topAnswers(group.what) }))
  }

  /** A receiver that names single listings answers differently each time: only the first answers are counted. */
  private addAnswer(cause: string, answer: string): void {
    const counts = this.answers.get(cause) ?? new Map<string, number>()
    this.answers.set(cause, counts)
    const before = counts.get(answer)
    if (before !== undefined || counts.size < answersMax) counts.set(answer, (before ?? 0) + 1)
  }

  private topAnswers(cause: string): AnswerCount[] {
    const counts = [...(this.answers.get(cause) ?? [])].map(([answer, deliveries]) => ({ answer, deliveries }))
    return counts.sort((a, b) => b.deliveries - a.deliveries).slice(0, answersShown)
  }
}
