/**
 * The inbound endpoints as a Fastify app: what happens to a request before its endpoint, in the order of contract 5.1, and
 * how refusals and errors are answered. Listening and sending pushes belong to `start-server.ts`.
 */
import type { RequestListener } from 'node:http'
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { requestBodyBytesMax } from '../base/limits.ts'
import { isDatabaseError } from '../db/away.ts'
import { buildHardServer, type HardServer, jsonType } from '../http/hard-server.ts'
import { isPublicAddress } from '../integrations/hook-address.ts'
import type { FoundIntegration } from '../integrations/integrations.ts'
import { addressOf, CallerChecks, type CallerOptions, dropForwardedPorts, plainAddress } from './caller.ts'
import { bodyTooLarge, buildRefusal, buildUnavailable, Refusal, unknownPath } from './refusal.ts'
import { Routes, type RoutesContext } from './routes.ts'

/** One answered request, as the log and the metrics get it. */
export interface RequestEntry {
  method: string
  /** The path of the endpoint, never the requested path; `none` if there is no such endpoint. */
  route: string
  status: number
  durationMs: number
  address: string
  integration: number | undefined
}

/** What the endpoints need, and the listeners for requests and trouble. */
export interface AppOptions extends RoutesContext, CallerOptions {
  /** Addresses and ranges of proxies whose `X-Forwarded-For` counts. */
  trustProxy: readonly string[] | undefined
  onRequest(entry: RequestEntry): void
  /** Called for each request that an untrusted proxy seems to have passed on: all callers behind that proxy count as one. */
  onUntrustedProxy(peer: string): void
  onTrouble(error: unknown): void
  /** Called for each request that the database could not answer. */
  onDatabaseAway(error: unknown): void
}

const requestMsMax = 10_000
const stallMsMax = 20_000

/** The proxy library has no range of all addresses, so `/0` becomes its two halves. */
const halveAll = (range: string) =>
  range.endsWith('/0') ? (range.includes(':') ? ['::/1', '8000::/1'] : ['0.0.0.0/1', '128.0.0.0/1']) : [range]

/** Builds the app and the server beneath it; the server listens later. */
export function buildApp(options: AppOptions): { app: FastifyInstance; hardServer: HardServer } {
  const note = (entry: RequestEntry) => {
    options.metrics.noteRequest(entry)
    options.onRequest(entry)
  }
  let hardServer: HardServer | undefined
  const app = Fastify({
    logger: false,
    bodyLimit: requestBodyBytesMax,
    trustProxy: options.trustProxy ? options.trustProxy.flatMap(halveAll) : false,
    // requests that arrive while the app closes are answered as usual
    return503OnClosing: false,
    // the server beneath answers invalid HTTP
    clientErrorHandler: () => {},
    serverFactory: (handle) => {
      const onRefused = ({ status, address }: { status: number; address: string }) =>
        note({ method: '-', route: 'none', status, durationMs: 0, address, integration: undefined })
      const handleBare: RequestListener = (request, response) => {
        dropForwardedPorts(request)
        handle(request, response)
      }
      hardServer = buildHardServer({ handle: handleBare, requestMsMax, stallMsMax, buildRefusal, onRefused })
      return hardServer.server
    },
    // a path that cannot be decoded is not an endpoint
    frameworkErrors: (_error, request, reply) => {
      void refuse(request, reply as FastifyReply, unknownPath)
      noteAnswer(request, reply as FastifyReply)
    },
  })
  if (!hardServer) throw new Error('Fastify made no server')
  const checks = new CallerChecks(options)
  const routes = new Routes(app, options, checks)

  const refuse = (request: FastifyRequest, reply: FastifyReply, refusal: Refusal) => {
    const { status, message, allow, retryAfterSeconds } = checks.count(request, refusal)
    if (allow !== undefined) reply.header('Allow', allow)
    if (retryAfterSeconds !== undefined) reply.header('Retry-After', retryAfterSeconds)
    return reply.code(status).type(jsonType).send(buildRefusal(message))
  }
  const noteAnswer = (request: FastifyRequest, reply: FastifyReply) =>
    note({
      method: request.method,
      route: request.routeOptions.url ?? routes.nameOf(request),
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
      address: addressOf(request),
      integration: (request.integration as FoundIntegration | undefined)?.id,
    })

  addHooks(app, routes, options)
  app.addHook('onResponse', (request, reply, done) => {
    noteAnswer(request, reply)
    done()
  })
  // the limit of bodies holds for it too, even without a Content-Length
  app.addHttpMethod('GET', { hasBody: true, overrideExisting: true })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
  app.setErrorHandler((error, request, reply) => refuse(request, reply, asRefusal(error, options)))
  return { app, hardServer }
}

/**
 * The address of an untrusted proxy, if one passed the request on. Callers outside may send any X-Forwarded-For; a caller from this
 * machine or a private network that sends it is a proxy.
 */
function findUntrustedProxy({ raw, ips = [] }: FastifyRequest): string | undefined {
  // behind a trusted peer there are at least two addresses; an empty header has none
  if (!raw.headers['x-forwarded-for'] || ips.length > 1) return undefined
  const peer = plainAddress(raw.socket.remoteAddress ?? '')
  return peer === '' || isPublicAddress(peer) ? undefined : peer
}

function addHooks(app: FastifyInstance, routes: Routes, { onUntrustedProxy }: AppOptions): void {
  app.addHook('onRequest', async (request) => {
    const hosts = request.raw.headersDistinct.host?.length ?? 0
    if (hosts > 1) throw new Refusal(400, 'There is more than one Host header.')
    if (request.raw.httpVersion === '1.1' && hosts === 0) throw new Refusal(400, 'The Host header is missing.')
    const proxy = findUntrustedProxy(request)
    if (proxy !== undefined) onUntrustedProxy(proxy)
    if (!request.is404) return
    const allow = routes.findAllowed(request)
    if (allow === undefined) throw unknownPath
    throw new Refusal(405, `The method ${request.method} is not allowed here: use ${allow}.`, { allow })
  })
  app.addHook('preParsing', (request, reply, payload, done) => {
    // every body is read as JSON; its Content-Type does not matter
    delete request.raw.headers['content-type']
    if (request.headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue()
    done(null, payload)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { headers, complete } = request.raw
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    // the rest of an unread body must not be taken for the next request
    if ((hasBody && !complete) || reply.statusCode === 400) reply.header('Connection', 'close')
    done(null, payload)
  })
}

function asRefusal(error: unknown, { onTrouble, onDatabaseAway }: AppOptions): Refusal {
  if (error instanceof Refusal) return error
  const { statusCode = 500, code } = error as FastifyError
  if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return bodyTooLarge
  // includes bodies that broke off
  if (statusCode < 500) return new Refusal(400, 'The request is not valid HTTP.')
  if (!isDatabaseError(error)) {
    onTrouble(error)
    return new Refusal(500, 'Something went wrong inside leadpush: its log has the error.')
  }
  onDatabaseAway(error)
  return buildUnavailable('The database is away for the moment: try again in a few seconds.')
}
