/** Checks whether the receiver can be reached, directly or through a proxy, and its certificate. No delivery is sent. */
import { plural } from '../../base/amounts.ts'
import { isPage } from '../../deliveries/answer.ts'
import { createHttp } from '../../http/client.ts'
import type { HttpAnswer, HttpOutcome } from '../../http/exchange.ts'
import { findProxy, type Reached, reach } from '../../http/reach.ts'
import { type Found, note, problem } from '../finding.ts'
import { causeOf } from '../status/causes.ts'
import type { Check, CheckContext } from './check.ts'

const stepMsMax = 5_000
const soonDays = 14
const dayMs = 86_400_000

/** The host and port of a URL: the rest of a proxy's URL is not shown, since it may have a password. */
const hostOf = (url: string) => new URL(url).host

/** The advice is that of a push for a delivery with this outcome. */
const notReached = (what: string, error: string, inPush = error): Found =>
  problem(`${what}: ${error}`, causeOf({ httpStatus: null, error: inPush }).toDo)

function judgeCertificate({ validTo }: Reached, now: Date): Found[] {
  const days = validTo ? Math.floor((validTo.getTime() - now.getTime()) / dayMs) : Number.POSITIVE_INFINITY
  if (days >= soonDays) return []
  const toDo = 'Have it renewed: after that no delivery gets through.'
  return [note(`Its certificate ends in ${plural(days, 'day')}`, toDo)]
}

/** Judges the answer to a HEAD without a key. Other refusals than these may only miss a body. */
function judgeStatus({ status, contentType }: HttpAnswer, host: string): Found[] {
  const { toDo } = causeOf({ httpStatus: status, error: null })
  if (status >= 300 && status < 400)
    return [note(`${host} redirects (HTTP ${status}): a push follows no redirect`, toDo)]
  if (status === 404 || status === 410) {
    const advice =
      "Check the path in LEADPUSH_RECEIVER_URL; `leadpush probe --user EMAIL` shows what it says to a POST with a user's key."
    return [note(`${host} answers HTTP ${status} to a HEAD`, advice)]
  }
  const whatAPostGets = "`leadpush probe --user EMAIL` shows what it says to a POST with a user's key."
  if (status === 401 || status === 403) {
    const advice = `That is well where it only misses a user's key; a proxy before the receiver would refuse every delivery: ${whatAPostGets}`
    return [note(`${host} answers HTTP ${status} to a HEAD without a key`, advice)]
  }
  if (status < 300 && isPage(contentType)) {
    const advice = `Check that LEADPUSH_RECEIVER_URL is that of the receiver, not of a login: ${whatAPostGets}`
    return [note(`${host} answers a HEAD with a page (text/html)`, advice)]
  }
  // a server with 501 knows the path, but not the method HEAD
  if (status < 500 || status === 501) return []
  return [
    problem(`${host} is in trouble: HTTP ${status} to a HEAD, and until that is mended no delivery arrives`, toDo),
  ]
}

/** Judges the outcome of the HEAD, once the host or the proxy was reached. */
function judgeAnswer(outcome: HttpOutcome, host: string, proxy: string | undefined): Found[] {
  const isAnswer = outcome.kind === 'answer'
  if (isAnswer && (proxy === undefined || outcome.status !== 407)) return judgeStatus(outcome, host)
  const error = isAnswer ? 'the proxy asks for a user name and password (407)' : outcome.error
  const isOfProxy = proxy !== undefined && (isAnswer || outcome.stage === 'connect' || /^the proxy/.test(error))
  return [
    isOfProxy
      ? notReached(`${host} is not reached through the proxy ${hostOf(proxy)}`, error)
      : notReached(`${host} was reached, but gave no HTTP answer`, error),
  ]
}

async function checkReceiver({ inspection, proxies }: CheckContext): Promise<Found[]> {
  const { receiverUrl, timeoutMs = stepMsMax, clientCert, clientKey } = inspection.settings
  if (receiverUrl === undefined || proxies === undefined) return []
  const msMax = Math.min(timeoutMs, stepMsMax)
  const host = hostOf(receiverUrl)
  const proxy = findProxy(receiverUrl, proxies)
  const reached =
    proxy === undefined ? await reach(receiverUrl, msMax, { clientCert, clientKey }) : await reach(proxy, msMax)
  if (reached.kind !== 'reached') {
    if (proxy === undefined) return [notReached(`The receiver ${host} is not reached`, reached.error)]
    const inPush = `the proxy was not reached: ${reached.error}`
    return [notReached(`The proxy ${hostOf(proxy)} is not reached`, reached.error, inPush)]
  }
  const http = createHttp({ timeoutMs: msMax, concurrency: 1, proxies, clientCert, clientKey })
  try {
    const outcome = await http.head(receiverUrl, msMax)
    const found = proxy === undefined ? judgeCertificate(reached, new Date()) : []
    return [...found, ...judgeAnswer(outcome, host, proxy)]
  } finally {
    void http.close()
  }
}

export const receiverCheck: Check = {
  code: 'receiver',
  title: 'receiver',
  limitMs: 2.5 * stepMsMax,
  run: checkReceiver,
}
