/** Who calls: the address, the API key, and how often either may (contract 5.1), in the order in which that is looked at. */
import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Database } from '../db/open.ts'
import { LeadpushError } from '../errors.ts'
import { type FoundIntegration, findIntegrationByKey } from '../integrations/integrations.ts'
import { databaseAnswerMsMax, requestBodyBytesMax } from '../limits.ts'
import { RateLimit } from './rate-limit.ts'
import { Refusal, tooLarge } from './refusal.ts'

export interface CallerOptions {
  db: Database
  /** A minute; undefined: no limit. */
  limitAddress: number | undefined
  limitKey: number | undefined
  /** Called for each request that is refused because there were too many. */
  onLimited(limit: 'address' | 'key'): void
  /** Called whenever the database has answered. */
  onDatabaseBack(): void
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Of the caller, once it is known. */
    integration: FoundIntegration
  }
}

/** Some proxies forward an address with its port; what is no address at all says nothing. */
export function addressOf(request: FastifyRequest): string {
  const bare = request.ip?.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1') ?? ''
  const address = isIP(bare) > 0 ? bare : (request.raw.socket.remoteAddress ?? '')
  return address.replace(/^::ffff:(?=[\d.]+$)/i, '')
}

/** The database has a moment to answer; later it counts as away. */
export async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, fail) => {
    const message = `The database did not answer within ${databaseAnswerMsMax / 1_000} s.`
    timer = setTimeout(() => fail(new LeadpushError('database', message)), databaseAnswerMsMax)
  })
  return await Promise.race([work, late]).finally(() => clearTimeout(timer))
}

export class CallerChecks {
  private readonly options: CallerOptions
  private readonly badRequests: RateLimit<string>
  private readonly requestsOfKeys: RateLimit<number>

  constructor(options: CallerOptions) {
    this.options = options
    this.badRequests = new RateLimit(options.limitAddress)
    this.requestsOfKeys = new RateLimit(options.limitKey)
  }

  /** Finds the caller's integration; throws a refusal, or what the database threw. */
  readonly check = async (request: FastifyRequest): Promise<void> => {
    const address = addressOf(request)
    if (this.badRequests.isReached(address)) throw this.tooManyOf(address)
    const integration = await inTime(findIntegrationByKey(this.options.db, findApiKey(request)))
    this.options.onDatabaseBack()
    if (!integration) throw new Refusal(401, 'The API key is unknown or was revoked.')
    request.integration = integration
    if (!this.requestsOfKeys.take(integration.id)) {
      this.options.onLimited('key')
      throw new Refusal(429, 'Too many requests came with this API key: wait a minute.', {
        retryAfterSeconds: this.requestsOfKeys.secondsLeft(integration.id),
      })
    }
    if (Number(request.headers['content-length']) > requestBodyBytesMax) throw tooLarge
  }

  /** Counts a bad request. Others of the address may have been counted while this one was looked at: then it is one too many. */
  count(request: FastifyRequest, refusal: Refusal): Refusal {
    if (refusal.status !== 401 && refusal.status !== 422) return refusal
    const address = addressOf(request)
    return this.badRequests.take(address) ? refusal : this.tooManyOf(address)
  }

  private tooManyOf(address: string): Refusal {
    this.options.onLimited('address')
    return new Refusal(429, 'Too many bad requests came from this address: wait a minute, and check the API key.', {
      retryAfterSeconds: this.badRequests.secondsLeft(address),
    })
  }
}

function findApiKey(request: FastifyRequest): string {
  const apiKey = (request.query as Record<string, string | string[] | undefined>).api_key
  if (apiKey === undefined || apiKey === '') {
    throw new Refusal(422, 'The API key is missing: add it to the URL as the query parameter `api_key`.')
  }
  if (Array.isArray(apiKey)) throw new Refusal(422, 'The query parameter `api_key` was given more than once.')
  return apiKey
}
