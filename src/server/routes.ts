/** The paths, the methods allowed on each, and the handler of each. Every path is fixed, so there is nothing to parse. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { expositionType } from '../base/exposition.ts'
import { schemaState, schemaTroubles } from '../db/migrate.ts'
import { findReadOnly } from '../db/open.ts'
import { type CallerChecks, inTime } from './caller.ts'
import { answerSample, answerSubscribe, answerTest, answerUnsubscribe, type EndpointContext } from './endpoints.ts'
import type { Metrics } from './metrics.ts'
import { buildOpenapi } from './openapi.ts'
import { buildUnavailable } from './refusal.ts'
import { Turns } from './turns.ts'

/** The dependencies of the handlers. */
export interface RoutesContext extends EndpointContext {
  automation: string
  metrics: Metrics
}

/** Registers all paths with the app when it is made. */
export class Routes {
  private readonly methods = new Map<string, string>()

  constructor(app: FastifyInstance, context: RoutesContext, checks: CallerChecks) {
    const prefix = `/api/extern/${context.automation}`
    type Answer = (request: FastifyRequest) => Promise<object>
    const endpoint = (method: 'GET' | 'POST' | 'PUT', name: string, handler: Answer) => {
      const url = `${prefix}/${name}`
      this.methods.set(url, method)
      app.route({ method, url, exposeHeadRoute: false, onRequest: checks.check, handler })
    }
    // three listings may have many megabytes
    const samples = new Turns<number>()
    endpoint('GET', 'test', async (request) => answerTest(request))
    endpoint('GET', 'sample', (request) => samples.take(request.integration.id, () => answerSample(context, request)))
    endpoint('POST', 'subscribe', (request) => answerSubscribe(context, request))
    endpoint('PUT', 'unsubscribe', (request) => answerUnsubscribe(context, request))

    const open = (url: string, handler: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>) => {
      this.methods.set(url, 'GET, HEAD')
      app.get(url, handler)
    }
    const { metrics } = context
    const document = buildOpenapi(context)
    open('/healthz', async () => ({ ok: true, msg: 'Leadpush is alive.' }))
    open('/readyz', () => answerReady(context))
    open('/metrics', async (_, reply) => reply.type(expositionType).send(await metrics.render()))
    open('/openapi.json', async () => document)
  }

  /** The methods of the path, as `Allow` names them; undefined if there is no such path. */
  findAllowed({ url }: FastifyRequest): string | undefined {
    return this.methods.get(pathOf(url))
  }

  /** The path if there is such an endpoint, else `none`. */
  nameOf({ url }: FastifyRequest): string {
    const path = pathOf(url)
    return this.methods.has(path) ? path : 'none'
  }
}

async function answerReady({ db }: RoutesContext): Promise<object> {
  const state = await inTime(schemaState(db))
  const readOnly = await inTime(findReadOnly(db))
  if (readOnly) throw buildUnavailable(`The database cannot be written to: ${readOnly.message}.`)
  if (state === 'current') return { ok: true, msg: 'The database is there, and its schema is current.' }
  throw buildUnavailable(schemaTroubles[state][0])
}

/** The path as the router sees it: without query, host and needless encoding. */
function pathOf(url: string): string {
  const path = url.replace(/^https?:\/\/[^/?]*/i, '').replace(/[?#].*$/s, '')
  try {
    return decodeURI(path)
  } catch {
    return path
  }
}
