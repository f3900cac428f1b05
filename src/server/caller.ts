/** Checks the caller: the address, the API key, and the rate limits of both (contract 5.1), in the contract's order. */
import { hash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { LeadpushError } from '../base/errors.ts'
import { databaseAnswerMsMax, requestBodyBytesMax } from '../base/limits.ts'
import type { Database } from '../db/open.ts'
import { type FoundIntegration, findIntegrationByKey } from '../integrations/integrations.ts'
import { RateLimit } from './rate-limit.ts'
import { bodyTooLarge, Refusal } from './refusal.ts'

/** The limits of callers, and the listeners of the checks. */
export interface CallerOptions {
  db: Database
  /** Bad requests per minute and address; undefined: no limit. */
  limitAddress: number | undefined
  /** Requests per minute and API key; undefined: no limit. */
  limitKey: number | undefined
  /** Called for each request that a rate limit refuses. */
  onLimited(limit: 'address' | 'key'): void
  /** Called whenever the database has answered. */
  onDatabaseBack(): void
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The caller's integration, set once the API key is checked. */
    integration: FoundIntegration
  }
}

/** An IPv4 address without the IPv6 prefix that a socket of both families puts before it; an IPv6 address without its zone. */
export const plainAddress = (address: string) => address.replace(/%.*$/s, '').replace(/^::ffff:(?=[\d.]+$)/i, '')

/** Drops the ports that some proxies add to the addresses in `X-Forwarded-For`, so that a trusted one is known by its address. */
export function dropForwardedPorts({ headers }: IncomingMessage): void {
  const forwarded = headers['x-forwarded-for']
  if (forwarded === undefined) return
  const entries = [forwarded].flat().join().split(',').map((entry) => entry.trim()).filter(Boolean) // biome-ignore format: short
  const bare = entries.map((entry) => entry.replace(/^\[(.*)\](:\d+)?$/, '$1').replace(/^([\d.]+):\d+$/, '$1'))
  headers['x-forwarded-for'] = bare.join(', ')
}

/** The caller's address; that of the socket if a proxy forwarded no valid one. */
export function addressOf(request: FastifyRequest): string {
  const { ip = '' } = request
  return plainAddress(isIP(ip) > 0 ? ip : (request.raw.socket.remoteAddress ?? ''))
}

/** The network whose requests count together. In IPv6 that is 64 bits, all of which one caller may use. */
function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const parsed = ipaddr.parse(address) as ipaddr.IPv6
  // also an IPv4 address in hexadecimal digits: otherwise all of them would be one network
  if (parsed.isIPv4MappedAddress()) return parsed.toIPv4Address().toString()
  const { parts } = parsed
  return `${parts.slice(0, 4).map((part) => part.toString(16)).join(':')}::/64` // biome-ignore format: short
}

/** A key that was good within this time is not locked out by bad requests from its address. */
const goodKeyMs = 3_600_000
const goodKeysMax = 20_000

/** Fails with `database` if `work` takes longer than `databaseAnswerMsMax`: then the database counts as away. */
export async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, fail) => {
    const message = `The database did not answer within ${databaseAnswerMsMax / 1_000} s.`
    timer = setTimeout(() => fail(new LeadpushError('database', message)), databaseAnswerMsMax)
  })
  return await Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/** The rate limits and the check of API keys; one for all requests of the process. */
export class CallerChecks {
  private readonly options: CallerOptions
  private readonly badRequests: RateLimit<string>
  private readonly requestsOfKeys: RateLimit<number>
  /** Hashes of keys that were good lately. */
  private readonly goodKeys = new LRUCache<string, true>({ max: goodKeysMax, ttl: goodKeyMs })

  constructor(options: CallerOptions) {
    this.options = options
    this.badRequests = new RateLimit(options.limitAddress)
    this.requestsOfKeys = new RateLimit(options.limitKey)
  }

  /** Sets `request.integration`; throws a refusal, or the database's error. */
  readonly check = async (request: FastifyRequest): Promise<void> => {
    const network = networkOf(addressOf(request))
    if (this.badRequests.isReached(network) && !this.isGood(request)) throw this.tooManyOf(network)
    const apiKey = findApiKey(request)
    const integration = await inTime(findIntegrationByKey(this.options.db, apiKey))
    this.options.onDatabaseBack()
    if (!integration) {
      this.goodKeys.delete(hashOf(apiKey))
      throw new Refusal(401, 'The API key is unknown or was revoked.')
    }
    this.goodKeys.set(hashOf(apiKey), true)
    request.integration = integration
    if (!this.requestsOfKeys.take(integration.id)) {
      this.options.onLimited('key')
      throw new Refusal(429, 'Too many requests came with this API key: wait a minute.', {
        retryAfterSeconds: this.requestsOfKeys.secondsLeft(integration.id),
      })
    }
    if (Number(request.headers['content-length']) > requestBodyBytesMax) throw bodyTooLarge
  }

  /** Counts a bad request and returns its refusal, or a 429 if other requests have reached the address's limit meanwhile. */
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
