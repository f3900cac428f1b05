/** Who calls: the address, the API key, and how often either may (contract 5.1), in the order in which that is looked at. */
import { hash } from 'node:crypto'
import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { LeadpushError } from '../base/errors.ts'
import { databaseAnswerMsMax, requestBodyBytesMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import { type FoundIntegration, findIntegrationByKey } from '../integrations/integrations.ts'
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

/** IPv4 as such, where a socket of both families shows it as IPv6. */
export const plainAddress = (address: string) => address.replace(/^::ffff:(?=[\d.]+$)/i, '')

/** Some proxies forward an address with its port; what is no address at all says nothing. */
export function addressOf(request: FastifyRequest): string {
  const bare = request.ip?.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1') ?? ''
  const address = isIP(bare) > 0 ? bare : (request.raw.socket.remoteAddress ?? '')
  return plainAddress(address)
}

/** Whose requests count together: an IPv6 network of 64 bits is a caller's own, to take any address of. */
function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const { parts } = ipaddr.parse(address) as ipaddr.IPv6
  return `${parts.slice(0, 4).map((part) => part.toString(16)).join(':')}::/64` // biome-ignore format: short
}

/** A key that was good so lately is not kept out by what others of its address do. */
const goodKeyMs = 3_600_000
const goodKeysMax = 20_000

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
  /** By their hash. */
  private readonly goodKeys = new LRUCache<string, true>({ max: goodKeysMax, ttl: goodKeyMs })

  constructor(options: CallerOptions) {
    this.options = options
    this.badRequests = new RateLimit(options.limitAddress)
    this.requestsOfKeys = new RateLimit(options.limitKey)
  }

  /** Finds the caller's integration; throws a refusal, or what the database threw. */
  readonly check = async (request: FastifyRequest): Promise<void> => {
    const network = networkOf(addressOf(request))
    if (this.badRequests.isReached(network) && !this.isGood(request)) throw this.tooManyOf(network)
    const apiKey = findApiKey(request)
    const integration = await inTime(findIntegrationByKey(this.options.db, apiKey))
    this.options.onDatabaseBack()
    if (!integration) throw new Refusal(401, 'The API key is unknown or was revoked.')
    this.goodKeys.set(hashOf(apiKey), true)
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
    const network = networkOf(addressOf(request))
    return this.badRequests.take(network) || this.isGood(request) ? refusal : this.tooManyOf(network)
  }

  private isGood({ query }: FastifyRequest): boolean {
    const { api_key } = query as Query
    return typeof api_key === 'string' && this.goodKeys.has(hashOf(api_key))
  }

  private tooManyOf(network: string): Refusal {
    this.options.onLimited('address')
    return new Refusal(429, 'Too many bad requests came from this address: wait a minute, and check the API key.', {
      retryAfterSeconds: this.badRequests.secondsLeft(network),
    })
  }
}

type Query = Readonly<Record<string, string | string[] | undefined>>

const hashOf = (apiKey: string) => hash('sha256', apiKey, 'base64')

function findApiKey(request: FastifyRequest): string {
  const apiKey = (request.query as Query).api_key
  if (apiKey === undefined || apiKey === '') {
    throw new Refusal(422, 'The API key is missing: add it to the URL as the query parameter `api_key`.')
  }
  if (Array.isArray(apiKey)) throw new Refusal(422, 'The query parameter `api_key` was given more than once.')
  return apiKey
}
