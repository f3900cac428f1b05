/** Checks whether the receiver and the dead man's switch can be reached. No delivery and no ping is sent. */
import { BlockList, isIPv6 } from 'node:net'
import { sql } from 'kysely'
import type { ClientCertificate } from '../../base/client-certificate.ts'
import { rideOut } from '../../db/away.ts'
import { createHttp } from '../../http/client.ts'
import type { HttpOutcome } from '../../http/exchange.ts'
import { findProxy, type NotReached, type Reached, reach } from '../../http/reach.ts'
import { isCertificateCode, isClientCertificateCode } from '../../http/trouble.ts'
import {
  type Check,
  type CheckContext,
  failure,
  formatMs,
  judge,
  pass,
  skipped,
  type Trouble,
  type Verdict,
  warning,
} from './check.ts'

const stepMsMax = 5_000
const soonDays = 14
const dayMs = 86_400_000

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')
/** Whether an IP address leads to this machine itself. */
export const isLoopback = (address: string) => loopback.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')

const clientRemedy =
  'Put a certificate that the receiver takes, with its key, into LEADPUSH_CLIENT_CERT and LEADPUSH_CLIENT_KEY.'

/** What to do about a host that is not reached; `name` is the setting that holds its URL. */
function adviseOn({ code = '', stage }: NotReached, name: string): string {
  if (code === 'ENOTFOUND') return `Correct the host in ${name}, or this machine's DNS.`
  if (stage === 'name') return "Mend this machine's DNS (/etc/resolv.conf)."
  if (code === 'CERT_HAS_EXPIRED') return 'Its operator has to renew it; if it is new, check the clock of this machine.'
  if (code === 'CERT_NOT_YET_VALID') return 'Check the clock of this machine.'
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') return `Put a host name that the certificate has into ${name}.`
  if (isClientCertificateCode(code)) return clientRemedy
  if (isCertificateCode(code)) {
    return 'Name the file of its certificate authority in NODE_EXTRA_CA_CERTS, or let the server send its whole chain.'
  }
  if (stage === 'certificate') return `Check that ${name} should begin with https:, and the port.`
  if (code === 'ECONNREFUSED') return `Start it, or correct host and port in ${name}.`
  return `Check host and port in ${name}, and firewalls; where only a proxy leads out of this network, set HTTPS_PROXY.`
}

/** The host and port of a URL: what may be shown of a proxy, whose URL may have a password. */
const hostOf = (url: string) => new URL(url).host

type Way = { trouble: Trouble } | { proxy: string } | { direct: Reached }

/** Connects to the host of `url`, or to the proxy that leads there. */
async function findWay(
  url: string,
  name: string,
  what: string,
  { proxies }: CheckContext,
  msMax: number,
  client: ClientCertificate = {},
): Promise<Way> {
  const proxy = findProxy(url, proxies ?? {})
  const reached = proxy === undefined ? await reach(url, msMax, client) : await reach(proxy, msMax)
  if (reached.kind === 'reached') return proxy === undefined ? { direct: reached } : { proxy: hostOf(proxy) }
  const [whom, setting] =
    proxy === undefined ? [`${what} ${hostOf(url)}`, name] : [`The proxy ${hostOf(proxy)}`, 'HTTP_PROXY or HTTPS_PROXY']
  return { trouble: failure(`${whom} is not reached: ${reached.error}.`, adviseOn(reached, setting)) }
}

function judgeCertificate({ validTo }: Reached, now: Date): Trouble[] {
  const days = validTo ? Math.floor((validTo.getTime() - now.getTime()) / dayMs) : Number.POSITIVE_INFINITY
  if (days >= soonDays) return []
  const message = `Its certificate ends in ${days === 1 ? '1 day' : `${days} days`}.`
  return [warning(message, 'Have it renewed: after that no delivery gets through.')]
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

async function judgeStatus(status: number, host: string, context: CheckContext): Promise<Trouble[]> {
  if (status < 300 || knowsNoHead.includes(status)) return []
  if (status < 400) {
    const remedy = 'Set LEADPUSH_RECEIVER_URL to the address that it leads to.'
    return [warning(`${host} redirects (HTTP ${status}): a push follows no redirect.`, remedy)]
  }
  if (status >= 500) {
    const message = `${host} is in trouble: HTTP ${status} to a HEAD.`
    return [
      failure(
        message,
        'The log of the receiver, or of a proxy before it, says why: until it is mended no delivery arrives.',
      ),
    ]
  }
  // some receivers want a key first, or take a POST alone: then deliveries show whether they work
  if (await doDeliveriesArrive(context)) return []
  const isPath = status === 404 || status === 410
  const check = isPath ? 'Check the path in LEADPUSH_RECEIVER_URL' : 'It may only miss a key'
  const message = `${host} answers HTTP ${status} to a HEAD without a key, and no delivery has arrived lately.`
  return [warning(message, `${check}; \`leadpush probe --user EMAIL\` shows what it says to a POST with a user's key.`)]
}

const proxyRemedy = 'Allow the way in the proxy; a user and password go into HTTP_PROXY or HTTPS_PROXY.'

/** Judges the outcome of the HEAD, once the host or the proxy was reached. */
async function judgeAnswer(
  outcome: HttpOutcome,
  host: string,
  proxy: string | undefined,
  context: CheckContext,
): Promise<Trouble[]> {
  const throughProxy = (why: string, remedy: string) => [
    failure(`${host} is not reached through the proxy ${proxy}: ${why}.`, remedy),
  ]
  if (outcome.kind === 'answer') {
    if (proxy !== undefined && outcome.status === 407)
      return throughProxy('the proxy asks for a user name and password (407)', proxyRemedy)
    return await judgeStatus(outcome.status, host, context)
  }
  const { code, error } = outcome
  if (proxy !== undefined && (outcome.stage === 'connect' || /^the proxy/.test(error))) {
    const remedy =
      isCertificateCode(code) || isClientCertificateCode(code)
        ? adviseOn({ kind: 'not reached', stage: 'certificate', code, error }, 'LEADPUSH_RECEIVER_URL')
        : proxyRemedy
    return throughProxy(error, remedy)
  }
  const remedy = isClientCertificateCode(code)
    ? clientRemedy
    : code === 'TIMEOUT'
      ? 'See what the receiver is busy with.'
      : 'Check that the receiver speaks HTTP there.'
  return [failure(`${host} was reached, but gave no HTTP answer: ${error}.`, remedy)]
}

async function checkReceiver(context: CheckContext): Promise<Verdict> {
  const name = 'LEADPUSH_RECEIVER_URL'
  const { settings, wrong } = context.inspection
  const { receiverUrl, timeoutMs = stepMsMax, clientCert, clientKey } = settings
  if (wrong.has('receiverUrl')) return skipped(`${name} is wrong`)
  if (context.proxies === undefined) return skipped('a setting of the proxy is wrong')
  if (receiverUrl === undefined) return skipped(`${name} is not set`)
  const msMax = Math.min(timeoutMs, stepMsMax)
  const host = hostOf(receiverUrl)
  const way = await findWay(receiverUrl, name, 'The receiver', context, msMax, settings)
  if ('trouble' in way) return judge('', [way.trouble])
  const troubles = 'direct' in way ? judgeCertificate(way.direct, new Date()) : []
  const http = createHttp({ timeoutMs: msMax, concurrency: 1, proxies: context.proxies, clientCert, clientKey })
  try {
    const beganMs = performance.now()
    const outcome = await http.head(receiverUrl, msMax)
    const tookMs = performance.now() - beganMs
    const proxy = 'proxy' in way ? way.proxy : undefined
    troubles.push(...(await judgeAnswer(outcome, host, proxy, context)))
    const status = outcome.kind === 'answer' ? outcome.status : 0
    const through = proxy === undefined ? '' : ` through the proxy ${proxy}`
    return judge(`${host}${through} answers: HTTP ${status} to a HEAD, after ${formatMs(tookMs)}`, troubles)
  } finally {
    void http.close()
  }
}

async function checkPing(context: CheckContext): Promise<Verdict> {
  const name = 'LEADPUSH_PING_URL'
  const { settings, wrong } = context.inspection
  if (wrong.has('pingUrl')) return skipped(`${name} is wrong`)
  if (settings.pingUrl === undefined) return skipped(`${name} is not set`)
  if (context.proxies === undefined) return skipped('a setting of the proxy is wrong')
  const way = await findWay(settings.pingUrl, name, "The dead man's switch", context, stepMsMax)
  // a push goes on without the dead man's switch
  if ('trouble' in way) return judge('', [{ ...way.trouble, status: 'warn' }])
  if ('proxy' in way) return pass(`the proxy ${way.proxy}, which it is reached through, is there`)
  return judge(`${hostOf(settings.pingUrl)} is reached; no ping was sent`, judgeCertificate(way.direct, new Date()))
}

export const receiverChecks: readonly Check[] = [
  { name: 'receiver', title: 'Receiver', limitMs: 2.5 * stepMsMax, run: checkReceiver },
  { name: 'ping', title: 'Ping', limitMs: 1.5 * stepMsMax, run: checkPing },
]
