/** The kinds of settings: a schema for each, with the words in which an error says what is allowed. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import * as z from 'zod'
import { parseDatabaseUrl } from './database-url.ts'
import { messageOf } from './errors.ts'

const unitMs = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** `250ms`, `1.5s`, `2m`, `1h`, `30d` in milliseconds; undefined for anything else. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text)
  return match ? Number(match[1]) * unitMs[match[2] as keyof typeof unitMs] : undefined
}

export const refuseValue = (allowed: string) => ({ error: allowed })

function describeDuration(min: string, max: string) {
  const [minMs, maxMs] = [parseDuration(min) ?? 0, parseDuration(max) ?? 0]
  return {
    allowed: `a number with a unit (ms, s, m, h, d) from ${min} to ${max}, such as ${min === '0s' ? '5s' : min}`,
    isWithin: (ms: number) => ms >= minMs && ms <= maxMs,
  }
}

const parseOrNaN = (text: string) => parseDuration(text) ?? Number.NaN

export function duration(min: string, max: string) {
  const { allowed, isWithin } = describeDuration(min, max)
  return z.string().transform(parseOrNaN).refine(isWithin, refuseValue(allowed))
}

export function durationOrOff(min: string, max: string) {
  const { allowed, isWithin } = describeDuration(min, max)
  return z
    .string()
    .transform((text) => (text === 'off' ? undefined : parseOrNaN(text)))
    .refine((ms) => ms === undefined || isWithin(ms), refuseValue(`${allowed}, or \`off\``))
}

export function number(min: number, max: number, pattern: RegExp, allowed: string) {
  return z
    .string()
    .refine((text) => pattern.test(text) && Number(text) >= min && Number(text) <= max, refuseValue(allowed))
    .transform(Number)
}

export const integer = (min: number, max: number) => number(min, max, /^\d+$/, `a whole number from ${min} to ${max}`)

export const oneOf = <const T extends readonly [string, ...string[]]>(values: T) =>
  z.enum(values, refuseValue(values.length === 1 ? `\`${values[0]}\`, or unset` : values.join(' or ')))

export const httpUrl = z.string().refine((text) => {
  // a parser takes `https:///leads`, whose host was left empty, for a host of that name
  if (!/^https?:\/\/[^/\\\s]\S*$/i.test(text)) return false
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}, refuseValue('a full http: or https: URL without a user name or password'))

export const postgresUrl = z.string().superRefine((text, { addIssue }) => {
  try {
    parseDatabaseUrl(text)
  } catch (error) {
    addIssue({ code: 'custom', message: messageOf(error) })
  }
})

export const limit = z.union([z.literal('off').transform(() => undefined), integer(1, 1_000_000)], {
  error: 'a whole number from 1 to 1000000, or `off`',
})

function isRange(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  const most = family === 4 ? 32 : 128
  return (
    family > 0 && rest.length === 0 && (bits === undefined || (/^(0|[1-9]\d*)$/.test(bits) && Number(bits) <= most))
  )
}

export const ranges = z
  .string()
  .transform((text) => text.split(',').map((entry) => entry.trim()))
  .refine(
    (entries) => entries.every(isRange),
    refuseValue('IP addresses or ranges, separated by commas: 10.0.0.1,10.1.0.0/16'),
  )

/** As a URL's parser spells it, without a final dot; undefined if it is not a host name or an address. */
function spellHost(text: string): string | undefined {
  if (!/^[^\s/?#@\\:*]+$/.test(text) && isIP(text.replace(/^\[(.*)\]$/, '$1')) !== 6) return undefined
  const url = `https://${isIP(text) === 6 ? `[${text}]` : text}/`
  return URL.canParse(url) ? new URL(url).hostname.replace(/\.$/, '') : undefined
}

/** Host names and addresses, and `*.example.com` for the subdomains of a name alone, as a URL's parser spells them. */
export const hosts = z
  .string()
  .transform((text) =>
    text.split(',').map((entry) => {
      const [, wildcard = '', name = ''] = /^(\*\.)?(.*)$/.exec(entry.trim()) ?? []
      const host = spellHost(name)
      return host === undefined || (wildcard && isIP(host) > 0) ? undefined : wildcard + host
    }),
  )
  .refine(
    (entries): entries is string[] => !entries.includes(undefined),
    refuseValue(
      'host names, addresses or *.example.com for subdomains, separated by commas, without a scheme or a port',
    ),
  )

/** The abbreviations that are names of the IANA list. */
const shortZones = /^(CET|EET|EST|GMT|HST|MET|MST|PRC|ROC|ROK|UCT|UTC|WET)$/i

/**
 * The abbreviations with summer time, and the zones that IANA links them to. To PostgreSQL they are abbreviations, and so offsets that
 * never change.
 */
const linkedZones: Readonly<Record<string, string>> = {
  CET: 'Europe/Brussels',
  EET: 'Europe/Athens',
  MET: 'Europe/Brussels',
  WET: 'Europe/Lisbon',
}

function isTimeZone(text: string): boolean {
  // UTC is the default, and the first use of Intl is slow
  if (text === 'UTC') return true
  if (!/^[A-Za-z]/.test(text)) return false
  // Intl and PostgreSQL take others too, and mean different zones: IST is India to the one and Israel to the other
  if (/^[a-z]{3}$/i.test(text) && !shortZones.test(text)) return false
  try {
    new Intl.DateTimeFormat('en', { timeZone: text })
    return true
  } catch {
    return false
  }
}

/** A name that means the same zone to PostgreSQL and to Intl. */
export const timeZone = z
  .string()
  .refine(isTimeZone, refuseValue('a time zone name of the IANA list, such as UTC or America/Chicago'))
  .transform((text) => linkedZones[text.toUpperCase()] ?? text)

const isTaken = (read: () => unknown): boolean => {
  try {
    read()
    return true
  } catch {
    return false
  }
}

/** One certificate, or a chain that begins with it. */
export const certificatePem = z
  .string()
  .refine(
    (text) => isTaken(() => new X509Certificate(text)),
    refuseValue('a certificate in PEM, from -----BEGIN CERTIFICATE----- on'),
  )

export const privateKeyPem = z
  .string()
  .refine(
    (text) => isTaken(() => createPrivateKey(text)),
    refuseValue('a private key in PEM without a passphrase, from -----BEGIN PRIVATE KEY----- on'),
  )

/** 256 bits, in base64 or base64url. */
export const secretKey = z
  .string()
  .regex(
    /^(?:[A-Za-z0-9+/]{43}=|[A-Za-z0-9_-]{43}=?)$/,
    refuseValue('32 bytes in base64, as `openssl rand -base64 32` prints them'),
  )
  .transform((text) => Buffer.from(text, 'base64'))
