/**
 * Tests how far a URL can be reached without a request: host name, port and certificate fail apart. Also finds the proxy that
 * requests to a URL go through.
 */
import net from 'node:net'
import tls from 'node:tls'
import { buildSecureContext, type ClientCertificate } from '../base/client-certificate.ts'
import type { Proxies } from '../base/config.ts'
import { codeOf } from '../base/errors.ts'
import { describeTrouble } from './trouble.ts'

export type ReachStage = 'name' | 'port' | 'certificate'

export interface Reached {
  kind: 'reached'
  /** Connecting, with the TLS handshake where there is one. */
  ms: number
  /** The peer's address. */
  address: string
  /** The end of its certificate; undefined without TLS. */
  validTo: Date | undefined
}

export interface NotReached {
  kind: 'not reached'
  stage: ReachStage
  code: string | undefined
  /** One line in plain words, without secrets and without text from the peer. */
  error: string
}

const lateTexts = {
  name: 'its host name was not looked up in time',
  port: 'there was no connection in time',
  certificate: 'the TLS handshake did not end in time',
} as const

const bare = (hostname: string) => hostname.replace(/^\[|\]$/g, '')

/** Connects to the host of `url` and hangs up. Never throws. Give `client` for the receiver alone. */
export function reach(url: string, timeoutMs: number, client: ClientCertificate = {}): Promise<Reached | NotReached> {
  const { protocol, hostname, port } = new URL(url)
  const isTls = protocol === 'https:'
  const host = bare(hostname)
  const isAddress = net.isIP(host) > 0
  const options = { host, port: Number(port) || (isTls ? 443 : 80), autoSelectFamily: true }
  const secureContext = isTls ? buildSecureContext(client) : undefined
  let stage: ReachStage = isAddress ? 'port' : 'name'
  return new Promise((resolve) => {
    const beganMs = performance.now()
    const socket = isTls
      ? tls.connect({
          ...options,
          ...(secureContext && { secureContext }),
          ...(isAddress ? {} : { servername: host }),
          ALPNProtocols: ['http/1.1'],
        })
      : net.connect(options)
    const fail = (code: string | undefined, error: unknown) => {
      const text = code === 'TIMEOUT' ? lateTexts[stage] : describeTrouble('connect', code, error)
      end({ kind: 'not reached', stage, code, error: text })
    }
    const timer = setTimeout(() => fail('TIMEOUT', undefined), timeoutMs)
    const end = (outcome: Reached | NotReached) => {
      clearTimeout(timer)
      socket.destroy()
      resolve(outcome)
    }
    const succeed = () => {
      const certificate = socket instanceof tls.TLSSocket ? socket.getPeerCertificate().valid_to : undefined
      const validTo = certificate ? new Date(certificate) : undefined
      end({ kind: 'reached', ms: performance.now() - beganMs, address: socket.remoteAddress ?? '', validTo })
    }
    socket.once('lookup', (error) => {
      if (!error) stage = 'port'
    })
    socket.once('connect', () => {
      stage = 'certificate'
      if (!isTls) succeed()
    })
    socket.once('secureConnect', succeed)
    socket.on('error', (error) => fail(codeOf(error), error))
  })
}

/** The proxy that requests to `url` go through, as undici reads NO_PROXY; undefined where they go directly. */
export function findProxy(url: string, { http, https, except = '' }: Proxies): string | undefined {
  const { protocol, hostname, port } = new URL(url)
  const proxy = protocol === 'https:' ? https : http
  if (proxy === undefined || except === '*') return undefined
  const targetPort = Number(port) || (protocol === 'https:' ? 443 : 80)
  const isExcepted = except.split(/[,\s]+/).some((entry) => {
    const [, host = '', only] = /^\*?\.?(.*?)(?::(\d+))?$/.exec(entry.toLowerCase()) ?? []
    if (host === '' || (only !== undefined && Number(only) !== targetPort)) return false
    return hostname === host || hostname.endsWith(`.${host}`)
  })
  return isExcepted ? undefined : proxy
}
