/**
 * Where a hook may lead (contract 5.2): by https: to public addresses alone. Checked when a URL is registered, and again at
 * every connection, which then goes to one of the checked addresses.
 */
import { lookup, Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { codeOf } from '../base/errors.ts'
import { hookLookupMsMax, hookUrlCharsMax } from '../base/limits.ts'

/**
 * Finds the addresses of a host name. Throws an error with the `code` `ENOTFOUND` for a name without any, `EAI_AGAIN` for
 * trouble.
 */
export type FindAddresses = (hostname: string) => Promise<string[]>

/** The rules for URLs. */
export interface HookRules {
  /** For development: allows http: and addresses that are not public, and uses the system's resolver. */
  allowInsecure: boolean
  /** The only hosts that are allowed, `*.example.com` for subdomains alone; undefined: any. */
  hosts?: readonly string[] | undefined
}

export interface HookRuleSettings {
  allowInsecureHooks: string | undefined
  hookHosts?: readonly string[] | undefined
}

/** The rules that the settings make. */
export const hookRulesOf = ({ allowInsecureHooks, hookHosts }: HookRuleSettings): HookRules => ({
  allowInsecure: allowInsecureHooks !== undefined,
  hosts: hookHosts,
})

/** The rules, and the resolver. */
export interface HookAddressOptions extends HookRules {
  findAddresses?: FindAddresses
}

/** Looks public, but leads each machine in Azure to the service that manages it. */
const azureAddress = '168.63.129.16'

/**
 * Whether the address is public, with one owner in the whole internet. In IPv6 that is at most 2000::/3, without addresses that
 * contain an IPv4 address (mapped, NAT64, 6to4, Teredo).
 */
export function isPublicAddress(address: string): boolean {
  if (isIP(address) === 0) return false
  const parsed = ipaddr.parse(address)
  if (parsed.range() !== 'unicast' || parsed.toString() === azureAddress) return false
  return parsed.kind() === 'ipv4' || ((parsed as ipaddr.IPv6).parts[0] ?? 0) >> 13 === 1
}

/** Whether the name only has a meaning inside a network: this machine, another container, a machine of the office. */
export function isInsideName(hostname: string): boolean {
  const name = hostname.replace(/\.$/, '')
  return (
    !name.includes('.') || /\.(localhost|local|internal|intranet|lan|home|corp|localdomain|home\.arpa)$/i.test(name)
  )
}

function failLookup(code: 'ENOTFOUND' | 'EAI_AGAIN' | 'ENOTPUBLIC'): never {
  throw Object.assign(new Error(code), { code })
}

/**
 * Asks DNS alone, for at most `hookLookupMsMax`. The system's resolver has few threads, and one slow name would hold up all
 * others.
 */
const findByDns: FindAddresses = async (hostname) => {
  const resolver = new Resolver({ timeout: hookLookupMsMax / 4, tries: 2 })
  const timer = setTimeout(() => resolver.cancel(), hookLookupMsMax)
  const answers = await Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)])
  clearTimeout(timer)
  const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
  if (addresses.length > 0) return addresses
  const isNone = (answer: (typeof answers)[number]) =>
    answer.status === 'fulfilled' || ['ENOTFOUND', 'ENODATA', 'EBADNAME'].includes(codeOf(answer.reason) ?? '')
  return failLookup(answers.every(isNone) ? 'ENOTFOUND' : 'EAI_AGAIN')
}

const findBySystem: FindAddresses = async (hostname) =>
  (await lookup(hostname, { all: true, verbatim: true })).map(({ address }) => address)

async function inTime<T>(looking: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(Object.assign(new Error('late'), { code: 'EAI_AGAIN' })), hookLookupMsMax)
  })
  return await Promise.race([looking, late]).finally(() => clearTimeout(timer))
}

/**
 * The addresses to which a connection to `hostname` (a name or an IP address) may go. Throws an error with the `code` `ENOTPUBLIC` if one
 * of them is not public, or the error of `FindAddresses`.
 */
export async function findHookAddresses(
  hostname: string,
  { allowInsecure, findAddresses = allowInsecure ? findBySystem : findByDns }: HookAddressOptions,
): Promise<string[]> {
  const host = hostname.replace(/^\[|\]$/g, '')
  if (!allowInsecure && isIP(host) === 0 && isInsideName(host)) failLookup('ENOTPUBLIC')
  const addresses = isIP(host) > 0 ? [host] : await inTime(findAddresses(host))
  if (addresses.length === 0) failLookup('ENOTFOUND')
  if (!allowInsecure && !addresses.every(isPublicAddress)) failLookup('ENOTPUBLIC')
  return addresses
}

/**
 * The fault of the URL itself, as a sentence; undefined if there is none. Stricter than the parser: a URL that the parser would repair is
 * refused, so that everybody reads the same URL.
 */
export function findUrlProblem(url: string, { allowInsecure, hosts }: HookRules): string | undefined {
  if (url.length > 2 * hookUrlCharsMax || [...url].length > hookUrlCharsMax) {
    return `The hook URL must have at most ${hookUrlCharsMax} characters.`
  }
  // a parser skips further slashes, and finds a host or a password behind them
  const scheme = allowInsecure ? /^https?:\/\/(?!\/)/ : /^https:\/\/(?!\/)/
  if (!scheme.test(url.toLowerCase())) {
    return `The hook URL must begin with https://${allowInsecure ? ' or http://' : ''}.`
  }
  // U+FFFD stands for bytes of the body that were not UTF-8
  if (/[\s\\\p{Cc}\p{Cs}\ufffd]/u.test(url))
    return 'The hook URL must have no spaces, control characters or backslashes in it.'
  if (!URL.canParse(url)) return 'The hook URL is not a valid URL.'
  if (/^[^/]*\/\/[^/?#]*@/.test(url)) return 'The hook URL must have no user name and no password in it.'
  const { port, hostname } = new URL(url)
  if (port === '0') return 'The hook URL has a port that does not exist.'
  return hosts && !isAmong(hosts, hostname) ? 'The hook URL has a host that is not allowed here.' : undefined
}

function isAmong(hosts: readonly string[], hostname: string): boolean {
  const name = hostname.replace(/\.$/, '')
  return hosts.some((host) => (host.startsWith('*.') ? name.endsWith(host.slice(1)) : name === host))
}

/**
 * The one spelling of all URLs with the same meaning (contract 5.3): no fragment, no final dot of the host, no needless
 * escapes.
 */
export function spellHookUrl(url: string): string {
  if (!URL.canParse(url)) return url
  const parsed = new URL(url)
  parsed.hash = ''
  parsed.hostname = parsed.hostname.replace(/\.$/, '')
  return parsed.href.replace(/%[0-9a-f]{2}/gi, (octet) => {
    const character = String.fromCharCode(Number.parseInt(octet.slice(1), 16))
    return /[\w.~-]/.test(character) ? character : octet.toUpperCase()
  })
}

const lookupProblems: Partial<Record<string, string>> = {
  ENOTPUBLIC: 'The hook URL must lead to public addresses alone, not into a private network or to this machine.',
  ENOTFOUND: 'The host name of the hook URL is unknown.',
}

/**
 * The fault of a hook URL, as a sentence; undefined if it may be registered now. Looks its host name up. `isRegistered`: its name need
 * not resolve now.
 */
export async function checkHookUrl(
  url: string,
  options: HookAddressOptions,
  { isRegistered = false }: { isRegistered?: boolean } = {},
): Promise<string | undefined> {
  const problem = findUrlProblem(url, options)
  if (problem !== undefined) return problem
  try {
    await findHookAddresses(new URL(url).hostname, options)
    return undefined
  } catch (error) {
    if (isRegistered && codeOf(error) !== 'ENOTPUBLIC') return undefined
    return (
      lookupProblems[codeOf(error) ?? ''] ?? 'The host name of the hook URL could not be looked up: try again later.'
    )
  }
}
