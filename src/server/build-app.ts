/**
 * The inbound endpoints as a Fastify app: what is checked, in the order of contract 5.1, and what is answered. It knows nothing
 * of listening, nor of how a push is sent.
 */
import { isIP } from 'node:net'
import Fastify, { type FastifyError, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { isDatabaseError } from '../db/away.ts'
import { schemaState } from '../db/migrate.ts'
import type { Database } from '../db/open.ts'
import { LeadpushError } from '../errors.ts'
import { type FoundIntegration, findIntegrationByKey } from '../integrations/integrations.ts'
import { databaseAnswerMsMax, requestBodyBytesMax } from '../limits.ts'
import { buildHardServer, buildRefusal, type HardServer, jsonType } from './connections.ts'
import { answerSample, answerSubscribe, answerTest, answerUnsubscribe, type EndpointContext } from './endpoints.ts'
import type { Metrics } from './metrics.ts'
import { buildOpenapi } from './openapi.ts'
import { RateLimit } from './rate-limit.ts'
import { Refusal } from './refusal.ts'

export interface RequestEntry {
  method: string
  /** The path of the endpoint, never what was asked for: `none` where there is no such path. */
  route: string
  status: number
  durationMs: number
  address: string
  integration: number | undefined
}

export interface AppOptions extends EndpointContext {
  db: Database
  automation: string
  limitAddress: number | undefined
  limitKey: number | undefined
  /** Addresses and ranges of proxies whose `X-Forwarded-For` counts. */
  trustProxy: readonly string[] | undefined
  metrics: Metrics
  onRequest(entry: RequestEntry): void
  onTrouble(error: unknown): void
  /** Called for every request that meets it so, or otherwise. */
  onDatabaseAway(error: unknown): void
  onDatabaseBack(): void
}

declare module 'fastify' {
  interface FastifyRequest {
    integration: FoundIntegration
  }
}

const retryDatabaseSeconds = 5

/** The proxy library knows no range of all addresses. */
const halveAll = (range: string) =>
  range.endsWith('/0') ? (range.includes(':') ? ['::/1', '8000::/1'] : ['0.0.0.0/1', '128.0.0.0/1']) : [range]

/** Some proxies forward an address with its port; what is no address at all says nothing. */
function addressOf(request: FastifyRequest): string {
  const bare = request.ip?.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1') ?? ''
  const address = isIP(bare) > 0 ? bare : (request.raw.socket.remoteAddress ?? '')
  return address.replace(/^::ffff:(?=[\d.]+$)/i, '')
}

/** The database has this long to answer; later it counts as away. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, fail) => {
    const message = `The database did not answer within ${databaseAnswerMsMax / 1_000} s.`
    timer = setTimeout(() => fail(new LeadpushError('database', message)), databaseAnswerMsMax)
  })
  return await Promise.race([work, late]).finally(() => clearTimeout(timer))
}

export function buildApp(options: AppOptions): { app: FastifyInstance; hardServer: HardServer } {
  let hardServer: HardServer | undefined
  const app = Fastify({
    logger: false,
    bodyLimit: requestBodyBytesMax,
    trustProxy: options.trustProxy ? options.trustProxy.flatMap(halveAll) : false,
    // what comes while it closes is answered as ever
    return503OnClosing: false,
    // the server beneath answers what is no HTTP
    clientErrorHandler: () => {},
    serverFactory: (handle) => {
      hardServer = buildHardServer({
        handle,
        onRefused: ({ status, address }) =>
          note({ method: '-', route: 'none', status, durationMs: 0, address, integration: undefined }),
      })
      return hardServer.server
    },
    // a path that cannot be decoded is none of ours
    frameworkErrors: (_error, request, reply) => {
      void refuse(request, reply as FastifyReply, unknownPath)
      noteAnswer(request, reply as FastifyReply)
    },
  })
  const badRequests = new RateLimit<string>(options.limitAddress)
  const requestsOfKeys = new RateLimit<number>(options.limitKey)
  const methodsOf = new Map<string, string[]>()

  const note = (entry: RequestEntry) => {
    options.metrics.noteRequest(entry)
    options.onRequest(entry)
  }
  const noteAnswer = (request: FastifyRequest, reply: FastifyReply) =>
    note({
      method: request.method,
      route: request.routeOptions.url ?? findRoute(request),
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
      address: addressOf(request),
      integration: (request.integration as FoundIntegration | undefined)?.id,
    })

  /** Of a method that is not allowed. */
  const findRoute = ({ url }: FastifyRequest) => (methodsOf.has(pathOf(url)) ? pathOf(url) : 'none')

  const tooMany = (address: string) =>
    new Refusal(429, 'Too many bad requests came from this address: wait a minute, and check the API key.', {
      retryAfterSeconds: badRequests.secondsLeft(address),
    })

  const refuse = (request: FastifyRequest, reply: FastifyReply, given: Refusal) => {
    let refusal = given
    if (refusal.status === 401 || refusal.status === 422) {
      const address = addressOf(request)
      // others of the address may have been refused while this one was looked at
      if (!badRequests.take(address)) refusal = tooMany(address)
    }
    const { status, message, allow, retryAfterSeconds } = refusal
    if (allow !== undefined) reply.header('Allow', allow)
    if (retryAfterSeconds !== undefined) reply.header('Retry-After', retryAfterSeconds)
    return reply.code(status).type(jsonType).send(buildRefusal(message))
  }

  const checkCaller = async (request: FastifyRequest) => {
    const address = addressOf(request)
    if (badRequests.isReached(address)) throw tooMany(address)
    const apiKey = (request.query as Record<string, string | string[] | undefined>).api_key
    if (apiKey === undefined || apiKey === '') {
      throw new Refusal(422, 'The API key is missing: add it to the URL as the query parameter `api_key`.')
    }
    if (Array.isArray(apiKey)) throw new Refusal(422, 'The query parameter `api_key` was given more than once.')
    const integration = await inTime(findIntegrationByKey(options.db, apiKey))
    options.onDatabaseBack()
    if (!integration) throw new Refusal(401, 'The API key is unknown or was revoked.')
    request.integration = integration
    if (!requestsOfKeys.take(integration.id)) {
      throw new Refusal(429, 'Too many requests came with this API key: wait a minute.', {
        retryAfterSeconds: requestsOfKeys.secondsLeft(integration.id),
      })
    }
    if (Number(request.headers['content-length']) > requestBodyBytesMax) throw tooLarge
  }

  app.addHook('onRequest', async (request) => {
    if (request.raw.httpVersion === '1.1' && request.headers.host === undefined) {
      throw new Refusal(400, 'The Host header is missing.')
    }
    if (!request.is404) return
    const methods = methodsOf.get(pathOf(request.url))
    if (!methods) throw unknownPath
    const allow = methods.join(', ')
    throw new Refusal(405, `The method ${request.method} is not allowed here: use ${allow}.`, { allow })
  })
  app.addHook('preParsing', (request, reply, payload, done) => {
    // whatever it says to be, it has to be JSON
    delete request.raw.headers['content-type']
    if (request.headers.expect?.toLowerCase() === '100-continue') reply.raw.writeContinue()
    done(null, payload)
  })
  app.addHook('onSend', (request, reply, payload, done) => {
    const { headers, complete } = request.raw
    const hasBody = headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
    if ((hasBody && !complete) || reply.statusCode === 400) reply.header('Connection', 'close')
    done(null, payload)
  })
  app.addHook('onResponse', (request, reply, done) => {
    noteAnswer(request, reply)
    done()
  })
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', { parseAs: 'string' }, (_request, body, done) => done(null, body))
  app.setErrorHandler((error, request, reply) => {
    return refuse(request, reply, asRefusal(error))
  })

  const asRefusal = (error: unknown): Refusal => {
    if (error instanceof Refusal) return error
    const { statusCode = 500, code } = error as FastifyError
    if (code === 'FST_ERR_CTP_BODY_TOO_LARGE') return tooLarge
    // a body that broke off, too
    if (statusCode < 500) return new Refusal(400, 'The request is not valid HTTP.')
    if (!isDatabaseError(error)) {
      options.onTrouble(error)
      return new Refusal(500, 'Something went wrong inside leadpush: its log says what.')
    }
    options.onDatabaseAway(error)
    return new Refusal(503, 'The database is away for the moment: try again in a few seconds.', {
      retryAfterSeconds: retryDatabaseSeconds,
    })
  }

  const prefix = `/api/extern/${options.automation}`
  type Handler = (request: FastifyRequest) => Promise<object>
  const endpoint = (method: 'GET' | 'POST' | 'PUT', name: string, handler: Handler) => {
    methodsOf.set(`${prefix}/${name}`, [method])
    app.route({ method, url: `${prefix}/${name}`, exposeHeadRoute: false, onRequest: checkCaller, handler })
  }
  endpoint('GET', 'test', async (request) => answerTest(request))
  endpoint('GET', 'sample', (request) => answerSample(options, request))
  endpoint('POST', 'subscribe', (request) => answerSubscribe(options, request))
  endpoint('PUT', 'unsubscribe', (request) => answerUnsubscribe(options, request))

  const open = (url: string, handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>) => {
    methodsOf.set(url, ['GET', 'HEAD'])
    app.get(url, handler)
  }
  const document = buildOpenapi(options)
  open('/healthz', async () => ({ ok: true, msg: 'Leadpush is alive.' }))
  open('/readyz', async () => {
    const state = await inTime(schemaState(options.db))
    if (state === 'current') return { ok: true, msg: 'The database is there, and its schema is current.' }
    throw new Refusal(
      503,
      `The schema of the database is ${state === 'behind' ? 'behind' : 'newer than'} this program.`,
      {
        retryAfterSeconds: retryDatabaseSeconds,
      },
    )
  })
  open('/metrics', async (_request, reply) =>
    reply.type(options.metrics.contentType).send(await options.metrics.render()),
  )
  open('/openapi.json', async () => document)
  if (!hardServer) throw new Error('Fastify made no server')
  return { app, hardServer }
}

const unknownPath = new Refusal(
  404,
  'There is nothing at this path: check the address, /openapi.json lists what there is.',
)
const tooLarge = new Refusal(413, `The body is too large: at most ${requestBodyBytesMax} bytes.`)

/** As the router sees it: without query, host and needless encoding. */
function pathOf(url: string): string {
  const path = url.replace(/^https?:\/\/[^/?]*/i, '').replace(/[?#].*$/s, '')
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}
