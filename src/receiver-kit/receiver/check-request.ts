/**
 * Checks a request against the rules of a delivery, one by one (contract 4). Pure: it returns a list of problems, each with its clause
 * and place, and the status that fits the gravest.
 */
import type { IncomingMessage } from 'node:http'
import { bodyBytesMax, receiverKeyCharsMax } from '../../base/limits.ts'
import type { DeliveryBody } from '../../index.ts'
import { findBodyProblems, parseBody } from '../body/body-problems.ts'

export interface RequestProblem {
  clause: string
  /** Where it is: `method`, `header X-Data-Source`, `fsbos[3].price`. */
  path: string
  message: string
}

export interface RefusedRequest {
  status: number
  problems: RequestProblem[]
}

export interface DeliveryHead {
  receiverKey: string
  dataSource: string
  idempotencyKey: string
  /** Bytes of the body, as it comes. */
  length: number
  /** The body is compressed. */
  gzip: boolean
}

const problemsMax = 20
const moreMessage = 'has more wrong with it, which is not listed'

const visible = (charsMax: number) => ({
  pattern: new RegExp(`^[!-~]{1,${charsMax}}$`),
  allowed: `must have 1 to ${charsMax} visible ASCII characters`,
})

/** The headers of a delivery, the gravest fault first. */
const rules = [
  {
    name: 'Content-Length',
    pattern: /^\d{1,15}$/,
    allowed: 'must be there, as a number: the body may not be chunked',
    status: 411,
  },
  { name: 'Content-Type', pattern: /^application\/json$/i, allowed: 'must be application/json', status: 415 },
  { name: 'X-Service-API-Key', ...visible(receiverKeyCharsMax), status: 401 },
  { name: 'X-Data-Source', ...visible(100), status: 400 },
  { name: 'X-Idempotency-Key', ...visible(64), status: 400 },
] as const

function valuesOf(request: IncomingMessage, name: string): string[] {
  const found: string[] = []
  const { rawHeaders } = request
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() === name) found.push(rawHeaders[at + 1] ?? '')
  }
  return found
}

export type CheckedHead = { head: DeliveryHead } | { refusal: RefusedRequest }

/** Reads the headers, or lists all their faults. Never quotes a value, which may be a key. */
export function checkHead(request: IncomingMessage): CheckedHead {
  const problems: RequestProblem[] = []
  let status = 0
  const add = (itsStatus: number, path: string, message: string, clause = '4.1') => {
    status ||= itsStatus
    problems.push({ clause, path, message })
  }
  if (request.method !== 'POST') add(405, 'method', 'must be POST')
  if (request.httpVersion === '1.1' && !request.headers.host) add(400, 'header Host', 'is missing')
  if (request.url?.includes('?')) add(400, 'URL', 'must have no query parameters')
  if (request.headers['transfer-encoding'] !== undefined) {
    add(411, 'header Transfer-Encoding', 'must not be there: the body is sent with its length')
  }
  const encoding = request.headers['content-encoding']?.toLowerCase()
  if (encoding !== undefined && encoding !== 'gzip') {
    add(415, 'header Content-Encoding', 'must be gzip, or not be there', '4.17')
  }
  const given: string[] = []
  for (const { name, pattern, allowed, status: itsStatus } of rules) {
    const values = valuesOf(request, name.toLowerCase())
    given.push(values[0] ?? '')
    if (values.length === 0) add(itsStatus, `header ${name}`, `is missing: ${allowed}`)
    else if (values.length > 1) add(itsStatus, `header ${name}`, 'is there more than once')
    else if (!pattern.test(values[0] ?? '')) add(itsStatus, `header ${name}`, allowed)
  }
  const [length, , receiverKey = '', dataSource = '', idempotencyKey = ''] = given
  const bytes = Number(length)
  if (bytes > bodyBytesMax) {
    status = status === 405 ? status : 413
    problems.push({ clause: '4.2', path: 'body', message: `has ${bytes} bytes: at most ${bodyBytesMax}` })
  }
  if (status > 0) return { refusal: { status, problems } }
  return { head: { receiverKey, dataSource, idempotencyKey, length: bytes, gzip: encoding === 'gzip' } }
}

/** Reads the body, or lists its faults: 400 for a body that is not JSON in UTF-8, 422 for JSON that is not a delivery. */
export function checkRequestBody(bytes: Buffer): { body: DeliveryBody } | { refusal: RefusedRequest } {
  const parsed = parseBody(bytes)
  const found = 'value' in parsed ? findBodyProblems(parsed.value) : [parsed.problem]
  const problems: RequestProblem[] = []
  for (const { clause, path, message } of found) {
    const isLast = problems.length === problemsMax
    problems.push(isLast ? { clause, path: 'body', message: moreMessage } : { clause, path: path || 'body', message })
    if (isLast) break
  }
  if ('value' in parsed && problems.length === 0) return { body: parsed.value as DeliveryBody }
  return { refusal: { status: 'value' in parsed ? 422 : 400, problems } }
}

/** The sentence for a person: the first problem, and how many more there are. */
export function describeProblems(what: string, [first, ...more]: readonly RequestProblem[]): string {
  if (!first) return `${what}.`
  const rest = more.length > 0 ? `, and ${more.length} more` : ''
  return `${what}: ${first.path} ${first.message} (docs/contract-delivery.md ${first.clause})${rest}.`
}
