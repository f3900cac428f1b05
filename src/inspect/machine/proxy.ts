/** Looks for a proxy that `serve` does not trust: in the figures of the running `serve`, or else in the settings. */
import { isIP, isIPv6 } from 'node:net'
import { untrustedProxyMetric } from '../../http/listen.ts'
import { type Check, type CheckContext, judge, pass, skipped, type Verdict, warning } from './check.ts'
import { isLoopback } from './receiver.ts'

const askMsMax = 2_000
/** Another program may answer on that port, and never stop. */
const metricsBytesMax = 1024 * 1024

const remedy =
  'Set LEADPUSH_TRUST_PROXY for `serve` to the address of the proxy, as `serve` sees it; examples/proxy has recipes.'

/** How many requests an untrusted proxy has passed on to the `serve` on `host` and `port`; undefined where none answers. */
async function askServe(host: string, port: number): Promise<number | undefined> {
  const target = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host
  try {
    const url = `http://${isIPv6(target) ? `[${target}]` : target}:${port}/metrics`
    const { body } = await fetch(url, { signal: AbortSignal.timeout(askMsMax), redirect: 'error' })
    let text = ''
    for await (const chunk of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      text += chunk
      if (text.length > metricsBytesMax) break
    }
    const value = new RegExp(`^${untrustedProxyMetric} (\\d+)$`, 'm').exec(text)?.[1]
    return value === undefined ? undefined : Number(value)
  } catch {
    return undefined
  }
}

async function checkProxy({ inspection }: CheckContext): Promise<Verdict> {
  const { host, port, trustProxy } = inspection.settings
  if (host === undefined || port === undefined || inspection.wrong.has('trustProxy')) {
    return skipped('LEADPUSH_HOST, LEADPUSH_PORT or LEADPUSH_TRUST_PROXY is wrong')
  }
  const passedOn = port === 0 ? undefined : await askServe(host, port)
  if (passedOn !== undefined && passedOn > 0) {
    const what = `A proxy that is not trusted has passed ${passedOn} requests on to the \`serve\` on ${host}, port ${port}`
    return judge('', [warning(`${what}: all its callers count as one, and one bad caller locks out all.`, remedy)])
  }
  if (trustProxy !== undefined) return pass(`${trustProxy.join(', ')} may tell whose requests it passes on`)
  // `serve` speaks plain HTTP: callers from elsewhere come through a proxy
  if (host !== 'localhost' && (isIP(host) === 0 || !isLoopback(host))) {
    const what = `\`serve\` listens on ${host}, and LEADPUSH_TRUST_PROXY is not set`
    return judge('', [warning(`${what}: behind a proxy all callers count as one.`, remedy)])
  }
  return passedOn === undefined
    ? skipped(`no \`serve\` answers on ${host}, port ${port}`)
    : pass('`serve` has seen no proxy that it does not trust')
}

export const proxyCheck: Check = { name: 'proxy', title: 'Proxy', run: checkProxy }
