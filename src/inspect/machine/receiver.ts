/** Checks whether the receiver and the dead man's switch can be reached. No delivery and no ping is sent. */
import { sql } from 'kysely'
import { plural } from '../../base/amounts.ts'
import type { ClientCertificate } from '../../base/client-certificate.ts'
import { rideOut } from '../../db/away.ts'
import { createHttp } from '../../http/client.ts'
import type { HttpOutcome } from '../../http/exchange.ts'
import { findProxy, type Reached, reach } from '../../http/reach.ts'
import { type Found, note, problem } from '../finding.ts'
import { causeOf } from '../status/causes.ts'
import type { Check, CheckContext } from './check.ts'

const stepMsMax = 5_000
const soonDays = 14
const dayMs = 86_400_000

/** The host and port of a URL: the rest of a proxy's URL is not shown, since it may have a password. */
const hostOf = (url: string) => new URL(url).host

type Way = { trouble: Found } | { proxy: string } | { direct: Reached }

/** Connects to the host of `url`, or to the proxy that leads there. */
async function findWay(
  url: string,
  what: string,
  { proxies }: CheckContext,
  msMax: number,
  client: ClientCertificate = {},
): Promise<Way> {
  const proxy = findProxy(url, proxies ?? {})
  const reached = proxy === undefined ? await reach(url, msMax, client) : await reach(proxy, msMax)
  if (reached.kind === 'reached') return proxy === undefined ? { direct: reached } : { proxy: hostOf(proxy) }
  if (proxy === undefined) return { trouble: notReached(`${what} ${hostOf(url)} is not reached`, reached.error) }
  const error = `the proxy was not reached: ${reached.error}`
  return { trouble: { ...notReached('', error), what: `The proxy ${hostOf(proxy)} is not reached: ${reached.error}` } }
}

/** The advice is that of a push for a delivery with this outcome. */
const notReached = (what: string, error: string): Found =>
  problem(`${what}: ${error}`, causeOf({ httpStatus: null, error }).toDo)

function judgeCertificate({ validTo }: Reached, now: Date): Found[] {
  const days = validTo ? Math.floor((validTo.getTime() - now.getTime()) / dayMs) : Number.POSITIVE_INFINITY
  if (days >= soonDays) return []
  const toDo = 'Have it renewed: after that no delivery gets through.'
  return [note(`Its certificate ends in ${plural(days, 'day')}`, toDo)]
}

/** Whether deliveries arrive: this week, or the week before as long as none has ended this week. */
async function doDeliveriesArrive({ opened, noDatabase, noTables }: CheckContext): Promise<boolean> {
  if (opened === undefined || noDatabase !== undefined || noTables !== undefined) return false
  const ended = (weeksAgo: number, statuses: string[]) => sql`exists (
    select from deliveries d where d.status in ('delivered', 'failed', 'unknown') and d.status = any (${statuses})
      and d.period = to_char(now() at time zone 'UTC' - ${weeksAgo} * interval '7 days', 'IYYY-"W"IW'))`
  const { rows } = await rideOut(() =>
    sql<{ arrive: boolean }>`
      select case when ${ended(0, ['delivered'])} then true when ${ended(0, ['failed', 'unknown'])} then false
        else ${ended(1, ['delivered'])} end as arrive
    `.execute(opened.db),
  )
  return rows[0]?.arrive ?? false
}

/** Statuses of servers that know the path, but not the method HEAD. */
const knowsNoHead: readonly number[] = [405, 501]

async function judgeStatus(status: number, host: string, context: CheckContext): Promise<Found[]> {
  if (status < 300 || knowsNoHead.includes(status)) return []
  const { toDo } = causeOf({ httpStatus: status, error: null })
  if (status < 400) return [note(`${host} redirects (HTTP ${status}): a push follows no redirect`, toDo)]
  if (status >= 500) {
    return [
      problem(`${host} is in trouble: HTTP ${status} to a HEAD, and until that is mended no delivery arrives`, toDo),
    ]
  }
  // some receivers want a key first, or take a POST alone: then deliveries show whether they work
  if (await doDeliveriesArrive(context)) return []
  const isPath = status === 404 || status === 410
  const check = isPath ? 'Check the path in LEADPUSH_RECEIVER_URL' : 'It may only miss a key'
  const what = `${host} answers HTTP ${status} to a HEAD without a key, and no delivery has arrived lately`
  return [note(what, `${check}; \`leadpush probe --user EMAIL\` shows what it says to a POST with a user's key.`)]
}

/** Judges the outcome of the HEAD, once the host or the proxy was reached. */
async function judgeAnswer(
  outcome: HttpOutcome,
  host: string,
  proxy: string | undefined,
  context: CheckContext,
): Promise<Found[]> {
  const isAnswer = outcome.kind === 'answer'
  if (isAnswer && (proxy === undefined || outcome.status !== 407))
    return await judgeStatus(outcome.status, host, context)
  const error = isAnswer ? 'the proxy asks for a user name and password (407)' : outcome.error
  const isOfProxy = proxy !== undefined && (isAnswer || outcome.stage === 'connect' || /^the proxy/.test(error))
  return [
    isOfProxy
      ? notReached(`${host} is not reached through the proxy ${proxy}`, error)
      : notReached(`${host} was reached, but gave no HTTP answer`, error),
  ]
}

async function checkReceiver(context: CheckContext): Promise<Found[]> {
  const { receiverUrl, timeoutMs = stepMsMax, clientCert, clientKey } = context.inspection.settings
  if (receiverUrl === undefined || context.proxies === undefined) return []
  const msMax = Math.min(timeoutMs, stepMsMax)
  const way = await findWay(receiverUrl, 'The receiver', context, msMax, { clientCert, clientKey })
  if ('trouble' in way) return [way.trouble]
  const found = 'direct' in way ? judgeCertificate(way.direct, new Date()) : []
  const http = createHttp({ timeoutMs: msMax, concurrency: 1, proxies: context.proxies, clientCert, clientKey })
  try {
    const outcome = await http.head(receiverUrl, msMax)
    const proxy = 'proxy' in way ? way.proxy : undefined
    return [...found, ...(await judgeAnswer(outcome, hostOf(receiverUrl), proxy, context))]
  } finally {
    void http.close()
  }
}

/** A push goes on without the dead man's switch. */
async function checkPing(context: CheckContext): Promise<Found[]> {
  const { pingUrl } = context.inspection.settings
  if (pingUrl === undefined || context.proxies === undefined) return []
  const way = await findWay(pingUrl, "The dead man's switch", context, stepMsMax)
  if ('direct' in way) return judgeCertificate(way.direct, new Date())
  const toDo = 'Check LEADPUSH_PING_URL, the proxy settings, and the network on the way there.'
  return 'trouble' in way ? [{ ...way.trouble, level: 'note', toDo }] : []
}

export const receiverChecks: readonly Check[] = [
  { code: 'receiver', title: 'receiver', limitMs: 2.5 * stepMsMax, run: checkReceiver },
  { code: 'ping', title: 'ping', limitMs: 1.5 * stepMsMax, run: checkPing },
]
