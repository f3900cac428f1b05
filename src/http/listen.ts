/** Starts servers on their addresses. */
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { LeadpushError, messageOf } from '../base/errors.ts'

/** Listens; port 0 takes a free one. Throws `usage` where the address or the port cannot be had. */
export async function listenOn(server: Server, host: string, port: number): Promise<{ url: string; port: number }> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(port, host, () => {
        server.off('error', reject)
        resolve()
      })
    })
  } catch (error) {
    throw new LeadpushError('usage', `Cannot listen on ${host}, port ${port}: ${messageOf(error)}`, {
      hint: 'Choose another with --host and --port; port 0 takes a free one.',
      cause: error,
    })
  }
  const taken = (server.address() as AddressInfo).port
  return { url: `http://${host.includes(':') ? `[${host}]` : host}:${taken}`, port: taken }
}

/** The metric in which `serve` counts requests from an untrusted proxy; `validate` reads it. */
export const untrustedProxyMetric = 'leadpush_http_requests_forwarded_untrusted_total'
