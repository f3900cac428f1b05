/** Starts the real `leadpush serve` on a free port, and asks it as a platform does, byte by byte where that matters. */
import assert from 'node:assert/strict'
import http from 'node:http'
import { createIntegration } from '../../src/integrations/integrations.ts'
import type { House } from './house.ts'
import { type StartedProgram, startProgram } from './program.ts'

export interface Ask {
  method?: string
  /** A path below `/api/extern/zapier/`, or one from the root if it begins with a slash. */
  path?: string
  key?: string | undefined
  headers?: http.OutgoingHttpHeaders
  body?: string | Buffer | object
}

export interface Answered {
  status: number
  headers: http.IncomingHttpHeaders
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: the answer may be anything
  json: any
}

export interface Serve {
  port: number
  program: StartedProgram
  ask(ask?: Ask): Promise<Answered>
  /** Registers a hook with an address where nothing listens. */
  subscribe(key: string, name?: string): Promise<Answered>
  /** The lines of its log. */
  // biome-ignore lint/suspicious/noExplicitAny: lines of a log
  log(): any[]
}

/** Makes an integration for each of the users; returns their keys and ids. */
export async function createKeys(house: House, emails: readonly string[]): Promise<{ id: number; apiKey: string }[]> {
  const opened = await house.database.open()
  const keys = []
  for (const email of emails) keys.push(await createIntegration(opened.db, { email }))
  await opened.close()
  return keys
}

export function pathOf({ path = 'test', key }: Ask): string {
  const whole = path.startsWith('/') ? path : `/api/extern/zapier/${path}`
  return key === undefined ? whole : `${whole}${whole.includes('?') ? '&' : '?'}api_key=${encodeURIComponent(key)}`
}

function ask(port: number, given: Ask): Promise<Answered> {
  const { method = 'GET', headers, body } = given
  const bytes = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const length = bytes === undefined ? {} : { 'Content-Length': Buffer.byteLength(bytes) }
    const request = http.request({
      host: '127.0.0.1',
      port,
      method,
      path: pathOf(given),
      agent: false,
      headers: { ...length, ...headers },
    })
    request.on('error', reject)
    request.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const text = Buffer.concat(chunks).toString()
        const isJson = response.headers['content-type']?.startsWith('application/json') && text !== ''
        const { statusCode: status = 0, headers } = response
        resolve({ status, headers, text, json: isJson ? JSON.parse(text) : undefined })
      })
    })
    request.end(bytes)
  })
}

/** Asserts what every answer of the endpoints must have; returns the status. */
export function assertAnswer({ status, headers, json }: Answered): number {
  assert.equal(headers['content-type'], 'application/json; charset=utf-8')
  assert.equal(json.ok, status === 200)
  assert.match(json.msg, /^[A-Z`].{10,}\.$/s)
  if (status === 429 || status === 503) assert.match(headers['retry-after'] ?? '', /^([1-9]|[1-5]\d|60)$/)
  return status
}

export async function startServe(house: House, env: Record<string, string | undefined> = {}): Promise<Serve> {
  const program = startProgram(['serve', '--port', '0'], {
    env: { ...house.env, ...env },
    timeoutMs: 460_000,
    detached: true,
  })
  const [, port] = await program.waitFor(/^leadpush serve listening on http:\/\/127\.0\.0\.1:(\d+)\n/)
  const serve: Serve = {
    port: Number(port),
    program,
    ask: (given = {}) => ask(serve.port, given),
    subscribe: (key, name = 'hook') =>
      serve.ask({ method: 'POST', path: 'subscribe', key, body: { hookUrl: `https://192.0.2.1/${name}` } }),
    log: () =>
      program
        .stderr()
        .split('\n')
        .slice(0, -1) // the last may be on its way
        .map((line) => JSON.parse(line)),
  }
  return serve
}
