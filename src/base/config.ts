/**
 * The only reader of the environment: variables, `.env`, `NAME_FILE` and the flags that win over them, to a frozen object
 * of the settings that a command uses. All problems are reported at once.
 */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { closest, distance } from 'fastest-levenshtein'
import * as z from 'zod'
import { codeOf, LeadpushError, messageOf } from './errors.ts'
import {
  duration,
  durationOrOff,
  httpUrl,
  integer,
  limit,
  number,
  oneOf,
  postgresUrl,
  ranges,
  refuse,
  timeZone,
} from './setting-values.ts'
import { readSmallFile } from './small-file.ts'

/** Every setting: its variable, what it may hold, its default. A secret's value is never shown. */
export const definitions = {
  databaseUrl: { name: 'DATABASE_URL', schema: postgresUrl, secret: true },
  home: {
    name: 'LEADPUSH_HOME',
    // what a shell replaces is left as it is by cron, systemd and `.env`, and would be a second database in a folder of that name
    schema: z
      .string()
      .refine((path) => !path.startsWith('~'), refuse('a folder, written out: nothing stands for ~ here'))
      .transform((path) => resolve(path)),
  },
  receiverUrl: { name: 'LEADPUSH_RECEIVER_URL', schema: httpUrl, secret: true },
  dataSource: {
    name: 'LEADPUSH_DATA_SOURCE',
    schema: z.string().regex(/^[!-~]{1,100}$/, refuse('1 to 100 visible ASCII characters')),
    fallback: 'leadpush',
  },
  automation: {
    name: 'LEADPUSH_AUTOMATION',
    schema: z
      .string()
      .regex(
        /^(?!\.\.?$)[A-Za-z0-9._~-]{1,100}$/,
        refuse('a path segment of letters, digits, hyphen, underscore, dot'),
      ),
    fallback: 'zapier',
  },
  concurrency: { name: 'LEADPUSH_CONCURRENCY', schema: integer(1, 256), fallback: '16' },
  ratePerSecond: {
    name: 'LEADPUSH_RATE',
    schema: number(0.001, 100_000, /^\d+(\.\d+)?$/, 'a number from 0.001 to 100000 (attempts a second)'),
  },
  timeoutMs: { name: 'LEADPUSH_TIMEOUT', schema: duration('100ms', '10m'), fallback: '30s' },
  retryDelayMs: { name: 'LEADPUSH_RETRY_DELAY', schema: duration('0s', '5m'), fallback: '5s' },
  outageMs: { name: 'LEADPUSH_OUTAGE', schema: duration('0s', '1d'), fallback: '10m' },
  leaseMs: { name: 'LEADPUSH_LEASE', schema: duration('1s', '1h'), fallback: '60s' },
  guard: { name: 'LEADPUSH_GUARD', schema: oneOf(['on', 'off']), fallback: 'on' },
  maxLeadAgeMs: { name: 'LEADPUSH_MAX_LEAD_AGE', schema: duration('1s', '3650d'), fallback: '30d' },
  feedMaxAgeMs: { name: 'LEADPUSH_FEED_MAX_AGE', schema: durationOrOff('1h', '365d'), fallback: '8d' },
  timeZone: { name: 'LEADPUSH_TIME_ZONE', schema: timeZone, fallback: 'UTC' },
  host: {
    name: 'LEADPUSH_HOST',
    schema: z.string().regex(/^\S+$/, refuse('an address or host name')),
    fallback: '127.0.0.1',
  },
  port: { name: 'LEADPUSH_PORT', schema: integer(0, 65_535), fallback: '8080' },
  limitAddress: { name: 'LEADPUSH_LIMIT_ADDRESS', schema: limit, fallback: '600' },
  limitKey: { name: 'LEADPUSH_LIMIT_KEY', schema: limit, fallback: '120' },
  trustProxy: { name: 'LEADPUSH_TRUST_PROXY', schema: ranges },
  allowInsecureHooks: { name: 'LEADPUSH_ALLOW_INSECURE_HOOKS', schema: oneOf(['1']) },
  logFormat: { name: 'LEADPUSH_LOG_FORMAT', schema: oneOf(['pretty', 'json']) },
  pingUrl: { name: 'LEADPUSH_PING_URL', schema: httpUrl, secret: true },
} as const satisfies Record<string, { name: string; schema: z.ZodType; fallback?: string; secret?: boolean }>

export type SettingName = keyof typeof definitions

/** Every setting there is, for whoever checks them all. */
export const settingNames = Object.keys(definitions) as SettingName[]

type Definition<K extends SettingName> = (typeof definitions)[K]
type Value<K extends SettingName> = z.output<Definition<K>['schema']>

/** The settings `K`, checked; one without a default is undefined where it is not set. */
export type Settings<K extends SettingName> = Readonly<{
  // whose is missing has a DATABASE_URL, and no use for it
  [P in K]: P extends 'home' ? string : Definition<P> extends { fallback: string } ? Value<P> : Value<P> | undefined
}>

export interface SettingsSource {
  env: Readonly<Record<string, string | undefined>>
  /** Where `.env` is looked for. */
  cwd: string
  /** What the command line gives: as strings, named by their flag, they win. */
  flags?: Partial<Record<SettingName, { flag: string; value: string }>>
}

function findWorkingFolder(): string {
  try {
    return process.cwd()
  } catch (error) {
    const hint = 'Change to one that is there (`cd`), and run it again.'
    throw new LeadpushError('usage', 'The working directory was removed.', { hint, cause: error })
  }
}

/** The environment and the working directory of this process. Throws `usage` where that is gone. */
export function processSource(flags: SettingsSource['flags'] = {}): SettingsSource {
  return { env: process.env, cwd: findWorkingFolder(), flags }
}

const known: ReadonlySet<string> = new Set(Object.values(definitions).map(({ name }) => name))
const isOurs = (name: string) => name.startsWith('LEADPUSH_') || name === 'DATABASE_URL' || name === 'DATABASE_URL_FILE'

function nearest(name: string): string {
  const found = closest(name, [...known])
  return distance(name, found) <= 6 ? `; did you mean ${found}?` : ''
}

function readDotEnv(cwd: string, problems: string[]): Record<string, string | undefined> {
  try {
    return parseEnv(readSmallFile(join(cwd, '.env'))) as Record<string, string>
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') problems.push(`.env: cannot be read: ${messageOf(error)}`)
    return {}
  }
}

/** The environment, filled in by `.env` where it says nothing of a name, neither as NAME nor as NAME_FILE. */
function mergeSources(source: SettingsSource, problems: string[]): Map<string, string> {
  const merged = new Map<string, string>()
  const environment = Object.entries(source.env).filter(([name]) => isOurs(name))
  for (const [name, value] of environment) if (value) merged.set(name, value)
  const baseOf = (name: string) => (known.has(name) ? name : name.replace(/_FILE$/, ''))
  const said = new Set([...merged.keys()].map(baseOf))
  const dotEnv = Object.entries(readDotEnv(source.cwd, problems)).filter(([name]) => isOurs(name))
  for (const [name, value] of dotEnv) if (value && !said.has(baseOf(name))) merged.set(name, value)

  for (const name of new Set([...environment, ...dotEnv].map(([name]) => name))) {
    if (!known.has(baseOf(name))) problems.push(`${name}: there is no such setting${nearest(name)}`)
  }
  return merged
}

function readValue(name: string, merged: Map<string, string>, cwd: string, problems: string[]): string | undefined {
  const path = merged.get(`${name}_FILE`)
  if (path === undefined) return merged.get(name)
  if (merged.has(name)) {
    problems.push(`${name}, ${name}_FILE: both are set; set one of them`)
    return undefined
  }
  try {
    return readSmallFile(resolve(cwd, path)).trim() || undefined
  } catch (error) {
    problems.push(
      `${name}_FILE: holds ${JSON.stringify(path)}, which cannot be read (${codeOf(error) ?? messageOf(error)})`,
    )
    return undefined
  }
}

/** Undefined for a user who has none: a container may run with an id that the system does not know. */
export function findUserHome(env: SettingsSource['env']): string | undefined {
  if (env.HOME) return env.HOME
  try {
    return homedir()
  } catch {
    return undefined
  }
}

function defaultHome({ env }: SettingsSource): string | undefined {
  const dataHome = env.XDG_DATA_HOME
  // the XDG rules: a relative path there counts as unset
  if (dataHome?.startsWith('/')) return join(dataHome, 'leadpush')
  if (process.getuid?.() === 0) return '/var/lib/leadpush'
  const home = findUserHome(env)
  return home && join(home, '.local/share/leadpush')
}

const wrongSettings = (problems: readonly string[]) =>
  new LeadpushError('usage', problems.join('\n'), {
    hint: 'Nothing was done. Correct the settings and run it again.',
  })

/** What the settings come to when nothing is thrown. */
export interface Inspection<K extends SettingName> {
  /** What is right of them, defaults included. */
  settings: Partial<Settings<K>>
  /** One line each. */
  problems: string[]
  /** Those that are set, and to nothing that they may hold. */
  wrong: ReadonlySet<K>
  /** Files that a `NAME_FILE` names for one of them. */
  files: { name: string; path: string; isSecret: boolean }[]
}

/** All that is wrong, in the names of the environment and in the values of the settings `names`, and what is right of these. */
export function inspectSettings<const K extends SettingName>(
  names: readonly K[],
  source: SettingsSource,
  needed: { readonly [P in K]?: string } = {},
): Inspection<K> {
  const problems: string[] = []
  const merged = mergeSources(source, problems)
  const settings: Partial<Record<SettingName, unknown>> = {}
  const wrong = new Set<K>()
  const files: Inspection<K>['files'] = []
  for (const key of names) {
    const { name, schema, ...rest } = definitions[key] as {
      name: string
      schema: z.ZodType
      fallback?: string
      secret?: boolean
    }
    const path = merged.get(`${name}_FILE`)
    if (path !== undefined) files.push({ name, path: resolve(source.cwd, path), isSecret: rest.secret === true })
    const flag = source.flags?.[key]
    const before = problems.length
    const value = flag?.value ?? readValue(name, merged, source.cwd, problems)
    if (problems.length > before) wrong.add(key)
    const text = value ?? rest.fallback
    if (text === undefined) {
      const why = needed[key]
      if (why !== undefined && path === undefined) problems.push(`${name}: is not set; ${why}`)
      continue
    }
    const parsed = schema.safeParse(text)
    if (parsed.success) settings[key] = parsed.data
    else {
      wrong.add(key)
      const holds = rest.secret ? 'holds a value that is not allowed (and not shown)' : `holds ${JSON.stringify(text)}`
      problems.push(`${flag?.flag ?? name}: ${holds}; allowed: ${parsed.error.issues[0]?.message}`)
    }
  }
  if ((names as readonly SettingName[]).includes('home') && !wrong.has('home' as K)) {
    settings.home ??= defaultHome(source)
    const isNeeded = settings.databaseUrl === undefined && !wrong.has('databaseUrl' as K)
    if (settings.home === undefined && isNeeded) {
      wrong.add('home' as K)
      problems.push('LEADPUSH_HOME: is not set, and this user has no home folder; set it, or DATABASE_URL')
    }
  }
  return { settings: settings as Partial<Settings<K>>, problems, wrong, files }
}

/**
 * The settings that `names` lists. Every name in the environment is checked, the values only of those. `needed` says of
 * settings without a default why the command cannot do without. Throws a `usage` error whose message has one line a problem.
 */
export function readSettings<const K extends SettingName>(
  names: readonly K[],
  source: SettingsSource,
  needed: { readonly [P in K]?: string } = {},
): Settings<K> {
  const { settings, problems } = inspectSettings(names, source, needed)
  if (problems.length > 0) throw wrongSettings(problems)
  return Object.freeze(settings) as Settings<K>
}

/** Through which proxies requests go (contract 2): URLs by the scheme of the target, and the hosts that need none. */
export interface Proxies {
  http?: string
  https?: string
  except?: string
}

/**
 * `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`, in lower case first, as curl has it. Throws `usage`, without the value: it may hold a
 * password.
 */
export function readProxies(source: SettingsSource): Proxies {
  const problems: string[] = []
  const dotEnv = readDotEnv(source.cwd, problems)
  const proxies: Proxies = {}
  for (const [key, name] of [
    ['http', 'HTTP_PROXY'],
    ['https', 'HTTPS_PROXY'],
    ['except', 'NO_PROXY'],
  ] as const) {
    const lower = name.toLowerCase()
    const text = (source.env[lower] || source.env[name] || dotEnv[lower] || dotEnv[name])?.trim()
    if (!text) continue
    if (key === 'except') proxies.except = text
    else {
      // `proxy:3128` is common, and a URL of the scheme `proxy:` to a parser
      const url = text.includes('://') ? text : `http://${text}`
      if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)) proxies[key] = url
      else problems.push(`${name}: holds a value that is not allowed (and not shown); allowed: an http: or https: URL`)
    }
  }
  if (problems.length > 0) throw wrongSettings(problems)
  return proxies
}

/** What a command that is started as a child needs of the environment: its settings, and what libraries and systems look for. */
const inherited =
  /^(DATABASE_URL(_FILE)?|LEADPUSH_\w+|PG[A-Z]+|https?_proxy|no_proxy|NODE_\w+|SSL_CERT_(FILE|DIR)|OPENSSL_CONF|PATH|HOME|USER|TMPDIR|TZ|LANG|LC_\w+|XDG_DATA_HOME)$/i

/** The environment for a child process that runs a command of leadpush, cut to what it needs, with this format for its log. */
export function buildChildEnvironment(env: SettingsSource['env'], logFormat: string): Record<string, string> {
  const entries = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined)
  const needed = Object.fromEntries(entries.filter(([name]) => inherited.test(name)))
  // beside the setting itself its file would be an error
  delete needed.LEADPUSH_LOG_FORMAT_FILE
  return { ...needed, LEADPUSH_LOG_FORMAT: logFormat }
}

/** What both of `reads` return; what is wrong in either is thrown as one `usage` error. */
export function readTogether<A, B>(first: () => A, second: () => B): [A, B] {
  const problems: string[] = []
  const attempt = <T>(read: () => T): T | undefined => {
    try {
      return read()
    } catch (error) {
      if (!(error instanceof LeadpushError)) throw error
      problems.push(error.message)
      return undefined
    }
  }
  const both = [attempt(first), attempt(second)]
  // a .env that cannot be read is a problem of both
  if (problems.length > 0) throw wrongSettings([...new Set(problems.flatMap((problem) => problem.split('\n')))])
  return both as [A, B]
}

/** How diagnostics are wanted, if that is said and can be read: it is needed to report that something else cannot. */
export function readLogFormat(): 'pretty' | 'json' | undefined {
  // a working directory that was removed is for the command to tell
  const source = { env: process.env, cwd: '.' }
  const merged = mergeSources(source, [])
  const parsed = definitions.logFormat.schema.safeParse(readValue('LEADPUSH_LOG_FORMAT', merged, source.cwd, []))
  return parsed.success ? parsed.data : undefined
}
