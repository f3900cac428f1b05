/** The client certificate for a receiver behind mutual TLS (contract 2): its certificate and its key, and whether they go together. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { codeOf } from './errors.ts'

/** As settings have it: both in PEM, or neither. */
export interface ClientCertificate {
  clientCert?: string | undefined
  clientKey?: string | undefined
}

/** The certificate for connections to the receiver; undefined: none. Read once: a push makes many connections. */
export function buildSecureContext({ clientCert, clientKey }: ClientCertificate): SecureContext | undefined {
  if (clientCert === undefined || clientKey === undefined) return undefined
  return createSecureContext({ cert: clientCert, key: clientKey })
}

/** The fault of a readable certificate and key together, without a value; undefined: none. */
export function findClientTrouble({ clientCert, clientKey }: ClientCertificate): string | undefined {
  if (clientCert === undefined && clientKey === undefined) return undefined
  if (clientCert === undefined || clientKey === undefined) {
    const [missing, other] = clientCert === undefined ? ['CERT', 'KEY'] : ['KEY', 'CERT']
    return `LEADPUSH_CLIENT_${missing}: is not set, but LEADPUSH_CLIENT_${other} is; set both or none`
  }
  if (!new X509Certificate(clientCert).checkPrivateKey(createPrivateKey(clientKey))) {
    return 'LEADPUSH_CLIENT_KEY: does not belong to the certificate in LEADPUSH_CLIENT_CERT'
  }
  try {
    buildSecureContext({ clientCert, clientKey })
    return undefined
  } catch (error) {
    // a chain whose end is broken, or a key that is too short for the rules of this machine
    return `LEADPUSH_CLIENT_CERT, LEADPUSH_CLIENT_KEY: TLS does not take them (${codeOf(error) ?? 'no reason given'})`
  }
}
