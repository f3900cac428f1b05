/**
 * Describes trouble on the wire in plain words for the operator. The words come from error codes alone, so that they hold no
 * secret and no text of the peer.
 */
import { messageOf } from '../base/errors.ts'

/** `connect`: nothing was sent; `request`: no response headers yet; `response`: headers came, the end did not. */
export type TroubleStage = 'connect' | 'request' | 'response'

const connectTexts: Readonly<Record<string, string>> = {
  ENOTFOUND: 'its host name is unknown',
  EAI_AGAIN: 'its host name could not be looked up just now',
  ENOTPUBLIC: 'it leads to an address that is not public',
  ECONNREFUSED: 'the connection was refused: nothing listens there',
  ECONNRESET: 'the connection broke while it was being made',
  EHOSTUNREACH: 'there is no route to it',
  ENETUNREACH: 'there is no route to it',
  ETIMEDOUT: 'there was no connection in time',
  UND_ERR_CONNECT_TIMEOUT: 'there was no connection in time',
  TIMEOUT: 'there was no connection in time',
  UND_ERR_SOCKET: 'the proxy closed the connection',
}

/** What this machine lacks, by the error code of a connection that it could not begin for that. */
const shortages: Readonly<Record<string, string>> = {
  EMFILE: 'file descriptors for this process (ulimit -n)',
  ENFILE: 'file descriptors',
  EADDRNOTAVAIL: 'free ports',
  ENOBUFS: 'network buffers',
  ENOMEM: 'memory',
}

export const findShortage = (code: string | undefined): string | undefined =>
  code === undefined ? undefined : shortages[code]

/** Codes of a connection that was never made: where requests go through a proxy, it is the one to the proxy. */
const proxyCodes: ReadonlySet<string | undefined> = new Set([
  'ENOTFOUND', 'EAI_AGAIN', 'ECONNREFUSED', 'EHOSTUNREACH', 'ENETUNREACH',
]) // biome-ignore format: a list

/** Whether a connection through a proxy failed before it came to the proxy. */
export const isProxyAway = (stage: TroubleStage, code: string | undefined): boolean =>
  stage === 'connect' && proxyCodes.has(code)

const certificateCodes =
  /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH_)/
const certificateTexts: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "its certificate has expired, by this machine's clock",
  CERT_NOT_YET_VALID: "its certificate is not valid yet, by this machine's clock",
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host name',
}

/** Whether the code says that the peer's certificate is not trusted. */
export const isCertificateCode = (code: string | undefined): boolean =>
  code !== undefined && certificateCodes.test(code)

/** Whether trusting another certificate authority would mend it: neither the dates nor the name are wrong. */
export const isAuthorityCode = (code: string | undefined): boolean =>
  code !== undefined && isCertificateCode(code) && certificateTexts[code] === undefined

/** The alert with which a server ends a handshake for want of a client certificate, or for the one that it got. */
const clientCertificateAlert = /^ERR_SSL_.*_ALERT_(?:(CERTIFICATE_REQUIRED)|\w*CERTIFICATE\w*|UNKNOWN_CA)$/

function describeAlert(code: string | undefined): string | undefined {
  const alert = clientCertificateAlert.exec(code ?? '')
  return alert ? (alert[1] ? 'it demands a client certificate' : 'it refused the client certificate') : undefined
}

function describeConnect(code: string | undefined, error: unknown): string {
  if (code !== undefined && connectTexts[code]) return connectTexts[code]
  if (code !== undefined && isCertificateCode(code)) return certificateTexts[code] ?? 'its certificate is not trusted'
  if (code === 'EPROTO' || code?.startsWith('ERR_SSL')) return 'the TLS handshake failed'
  // undici's own text, which holds the status alone
  const refused = /^Proxy response \((\d{3})\)/.exec(messageOf(error))
  if (refused) return `the proxy refused the tunnel with ${refused[1]}`
  return 'the connection could not be made'
}

/** undici asserts that no status is below 100. */
const noStatusCode = 'ERR_ASSERTION'

/** undici gives an error of its parser no code, although it means to. */
const isNoHttp = (code: string | undefined, error: unknown) =>
  code === noStatusCode ||
  code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' ||
  code?.startsWith('HPE_') ||
  (error instanceof Error && error.name === 'HTTPParserError')

function describeSent(stage: 'request' | 'response', code: string | undefined, error: unknown): string {
  const answer = stage === 'request' ? 'an answer' : 'the end of the answer'
  if (code === 'TIMEOUT') return `${answer} did not come in time`
  if (isNoHttp(code, error)) return 'the answer is no valid HTTP'
  if (code === 'UND_ERR_HEADERS_OVERFLOW') return 'the headers of the answer are too long'
  return `the connection broke before ${answer} came`
}

/** One line, such as `the connection was refused: nothing listens there (ECONNREFUSED)`. */
export function describeTrouble(stage: TroubleStage, code: string | undefined, error: unknown): string {
  // with TLS 1.3 the alert comes after the request went out
  const text =
    describeAlert(code) ?? (stage === 'connect' ? describeConnect(code, error) : describeSent(stage, code, error))
  return code === undefined || code === 'TIMEOUT' || code === noStatusCode ? text : `${text} (${code})`
}
