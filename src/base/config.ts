/**
 * Reads the settings that a command uses into a frozen object: flags first, then the environment, `.env` and the files of
 * `NAME_FILE`. All problems are reported at once.
 */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import * as z from 'zod'
import { type ClientCertificate, findClientTrouble } from './client-certificate.ts'
import { LeadpushError } from './errors.ts'
import { mergeSources, readDotEnv, readSettingValue } from './setting-sources.ts'
import {
  certificatePem,
  duration,
  durationOrOff,
  hosts,
  httpUrl,
  integer,
  limit,
  number,
  oneOf,
  postgresUrl,
  privateKeyPem,
  ranges,
  refuseValue,
  secretKey,
  timeZone,
} from './setting-values.ts'

interface Definition {
  name: string
  schema: z.ZodType
  fallback?: string
  /** Its value is never shown. `value alone`: the file that holds it may be open to all. */
  secret?: true | 'value alone'
}

/** Every setting: its variable, its allowed values, its default. */
export const definitions = {
  databaseUrl: { name: 'DATABASE_URL', schema: postgresUrl, secret: true },
  home: {
    name: 'LEADPUSH_HOME',
    // cron, systemd and `.env` leave ~ as it is: a second database would begin in a folder of that name
    schema: z
      .string()
      .refine((path) => !path.startsWith('~'), refuseValue('a folder, written out: nothing stands for ~ here')),
  },
  receiverUrl: { name: 'LEADPUSH_RECEIVER_URL', schema: httpUrl, secret: true },
  // no secret, but its value is never shown: the key may stand here by mistake
  clientCert: { name: 'LEADPUSH_CLIENT_CERT', schema: certificatePem, secret: 'value alone' },
  clientKey: { name: 'LEADPUSH_CLIENT_KEY', schema: privateKeyPem, secret: true },
  dataSource: {
    name: 'LEADPUSH_DATA_SOURCE',
    schema: z.string().regex(/^[!-~]{1,100}$/, refuseValue('1 to 100 visible ASCII characters')),
    fallback: 'leadpush',
  },
  automation: {
    name: 'LEADPUSH_AUTOMATION',
    schema: z
      .string()
      .regex(
        /^(?!\.\.?$)[A-Za-z0-9._~-]{1,100}$/,
        refuseValue('a path segment of letters, digits, hyphen, underscore, dot'),
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
  keepAnswers: { name: 'LEADPUSH_KEEP_ANSWERS', schema: oneOf(['on', 'off']), fallback: 'on' },
  compress: { name: 'LEADPUSH_COMPRESS', schema: oneOf(['auto', 'gzip', 'off']), fallback: 'auto' },
  leaseMs: { name: 'LEADPUSH_LEASE', schema: duration('1s', '1h'), fallback: '60s' },
  guard: { name: 'LEADPUSH_GUARD', schema: oneOf(['on', 'off']), fallback: 'on' },
  maxLeadAgeMs: { name: 'LEADPUSH_MAX_LEAD_AGE', schema: duration('1s', '3650d'), fallback: '30d' },
  sameHouse: { name: 'LEADPUSH_SAME_HOUSE', schema: oneOf(['each', 'once']), fallback: 'each' },
  feedMaxAgeMs: { name: 'LEADPUSH_FEED_MAX_AGE', schema: durationOrOff('1h', '365d'), fallback: '8d' },
  databaseAwayMs: { name: 'LEADPUSH_DATABASE_AWAY', schema: duration('0s', '1h'), fallback: '2m' },
  timeZone: { name: 'LEADPUSH_TIME_ZONE', schema: timeZone, fallback: 'UTC' },
  host: {
    name: 'LEADPUSH_HOST',
    schema: z.string().regex(/^\S+$/, refuseValue('an address or host name')),
    fallback: '127.0.0.1',
  },
  port: { name: 'LEADPUSH_PORT', schema: integer(0, 65_535), fallback: '8080' },
  limitAddress: { name: 'LEADPUSH_LIMIT_ADDRESS', schema: limit, fallback: '600' },
  limitKey: { name: 'LEADPUSH_LIMIT_KEY', schema: limit, fallback: '120' },
  trustProxy: { name: 'LEADPUSH_TRUST_PROXY', schema: ranges },
  hookHosts: { name: 'LEADPUSH_HOOK_HOSTS', schema: hosts },
  secretKey: { name: 'LEADPUSH_SECRET_KEY', schema: secretKey, secret: true },
  allowInsecureHooks: { name: 'LEADPUSH_ALLOW_INSECURE_HOOKS', schema: oneOf(['1']) },
  logFormat: { name: 'LEADPUSH_LOG_FORMAT', schema: oneOf(['pretty', 'json']) },
  pingUrl: { name: 'LEADPUSH_PING_URL', schema: httpUrl, secret: true },
  pingBody: { name: 'LEADPUSH_PING_BODY', schema: oneOf(['on', 'off']), fallback: 'off' },
} as const satisfies Record<string, Definition>

export type SettingName = keyof typeof definitions

/** All settings, for commands that check every one. */
export const settingNames = Object.keys(definitions) as SettingName[]

type Value<K extends SettingName> = z.output<(typeof definitions)[K]['schema']>

/** The settings `K`, checked; one without a default is undefined if it is not set. */
export type Settings<K extends SettingName> = Readonly<{
  // without a home folder there is a DATABASE_URL, and nothing reads `home`
  [P in K]: P extends 'home'
    ? string
    : (typeof definitions)[P] extends { fallback: string }
      ? Value<P>
      : Value<P> | undefined
}>

export interface SettingsSource {
  env: Readonly<Record<string, string | undefined>>
  /** Where `.env` is looked for. */
  cwd: string
  /** Values from the command line, which win, each with its flag. */
  flags?: Partial<Record<SettingName, { flag: string; value: string }>>
}

const known: ReadonlySet<string> = new Set(Object.values(definitions).map(({ name }) => name))

/** The home folder; undefined for a user without one: a container may run with an id that the system does not know. */
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

/** A setting in force, and its source. */
export interface SettingInForce {
  name: string
  /** The text as written, or the default; undefined for a secret, and if nothing is set. */
  value: string | undefined
  /** The host and port of a secret that is a URL. */
  host: string | undefined
  from: 'environment' | '.env' | 'default'
  /** The file that NAME_FILE names. */
  by: string | undefined
  isSecret: boolean
  isSet: boolean
}

/** The settings with all their faults; nothing is thrown. */
export interface Inspection<K extends SettingName> {
  /** The valid ones, defaults included. */
  settings: Partial<Settings<K>>
  /** One line each. */
  problems: string[]
  /** Settings with a value that is not allowed. */
  wrong: ReadonlySet<K>
  /** Files that a `NAME_FILE` names for one of them. */
  files: { name: string; path: string; isSecret: boolean }[]
  /** For a source without flags. */
  inForce: SettingInForce[]
}

/** Checks every name in the environment and the values of the settings `names`. */
export function inspectSettings<const K extends SettingName>(
  names: readonly K[],
  source: SettingsSource,
  needed: { readonly [P in K]?: string } = {},
): Inspection<K> {
  const problems: string[] = []
  const merged = mergeSources(source, known, problems)
  const settings: Partial<Record<SettingName, unknown>> = {}
  const wrong = new Set<K>()
  const files: Inspection<K>['files'] = []
  const inForce: SettingInForce[] = []
  for (const key of names) {
    const { name, schema, ...rest }: Definition = definitions[key]
    const file = merged.get(`${name}_FILE`)
    const path = file && resolve(source.cwd, file.text)
    if (path !== undefined) files.push({ name, path, isSecret: rest.secret === true })
    const flag = source.flags?.[key]
    const before = problems.length
    const value =
      flag?.value ?? readSettingValue(name, merged, { cwd: source.cwd, isSecret: rest.secret !== undefined }, problems)
    if (problems.length > before) wrong.add(key)
    const text = value ?? rest.fallback ?? (key === 'home' ? defaultHome(source) : undefined)
    inForce.push({
      name,
      value: rest.secret ? undefined : text,
      host: schema === httpUrl && text !== undefined && URL.canParse(text) ? new URL(text).host : undefined,
      from: value === undefined ? 'default' : ((file ?? merged.get(name))?.from ?? 'default'),
      by: value === undefined ? undefined : path,
      isSecret: rest.secret !== undefined,
      isSet: text !== undefined,
    })
    if (text === undefined) {
      const why = needed[key]
      // a file that cannot be read is reported already; an empty one has no value
      if (why !== undefined && !wrong.has(key))
        problems.push(
          file
            ? `${name}_FILE: holds ${JSON.stringify(file.text)}, which is empty; ${why}`
            : `${name}: is not set; ${why}`,
        )
      continue
    }
    const parsed = schema.safeParse(text)
    if (parsed.success) settings[key] = key === 'home' ? resolve(source.cwd, text) : parsed.data
    else {
      wrong.add(key)
      const holds = rest.secret ? 'holds a value that is not allowed (and not shown)' : `holds ${JSON.stringify(text)}`
      problems.push(`${flag?.flag ?? name}: ${holds}; allowed: ${parsed.error.issues[0]?.message}`)
    }
  }
  if ((names as readonly SettingName[]).includes('home') && !wrong.has('home' as K)) {
    const isNeeded = settings.databaseUrl === undefined && !wrong.has('databaseUrl' as K)
    if (settings.home === undefined && isNeeded) {
      wrong.add('home' as K)
      problems.push('LEADPUSH_HOME: is not set, and this user has no home folder; set it, or DATABASE_URL')
    }
  }
  if (!wrong.has('clientCert' as K) && !wrong.has('clientKey' as K)) {
    const trouble = findClientTrouble(settings as ClientCertificate)
    if (trouble !== undefined) {
      problems.push(trouble)
      for (const key of ['clientCert', 'clientKey'] as K[]) wrong.add(key)
    }
  }
  return { settings: settings as Partial<Settings<K>>, problems, wrong, files, inForce }
}

/**
 * The settings that `names` lists. Every name in the environment is checked, the values only of those. `needed` says why the command
 * needs settings without a default. Throws a `usage` error whose message has one line a problem.
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

/** The proxies for requests (contract 2): URLs by the scheme of the target, and the hosts that need none. */
export interface Proxies {
  http?: string
  https?: string
  except?: string
}

const proxyNames = { http: 'HTTP_PROXY', https: 'HTTPS_PROXY', except: 'NO_PROXY' } as const

/** The proxies in force, and where each comes from: in lower case first, as curl has it. Throws `usage` as `readProxies` does. */
export function findProxiesInForce(source: SettingsSource): (SettingInForce & { key: keyof Proxies; url: string })[] {
  const problems: string[] = []
  const dotEnv = readDotEnv(source, problems)
  const inForce: ReturnType<typeof findProxiesInForce> = []
  for (const key of Object.keys(proxyNames) as (keyof Proxies)[]) {
    const upper = proxyNames[key]
    const names = [upper.toLowerCase(), upper]
    const [name = upper, from] =
      names.flatMap((each) => (source.env[each] ? [[each, 'environment'] as const] : []))[0] ??
      names.flatMap((each) => (dotEnv[each] ? [[each, '.env'] as const] : []))[0] ??
      []
    const text = (from === '.env' ? dotEnv : source.env)[name]?.trim()
    if (from === undefined || !text) continue
    // `proxy:3128` is common, and a URL of the scheme `proxy:` to a parser
    const url = key === 'except' || text.includes('://') ? text : `http://${text}`
    const shared = { key, name, from, by: undefined, isSet: true, url }
    if (key === 'except') inForce.push({ ...shared, value: text, host: undefined, isSecret: false })
    else if (URL.canParse(url) && /^https?:$/.test(new URL(url).protocol))
      inForce.push({ ...shared, value: undefined, host: new URL(url).host, isSecret: true })
    else problems.push(`${upper}: holds a value that is not allowed (and not shown); allowed: an http: or https: URL`)
  }
  if (problems.length > 0) throw wrongSettings(problems)
  return inForce
}

/** `HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`. Throws `usage`, without the value: it may hold a password. */
export function readProxies(source: SettingsSource): Proxies {
  return Object.fromEntries(findProxiesInForce(source).map(({ key, url }) => [key, url]))
}

/** The variables that a child process of leadpush inherits: settings, and those of libraries and systems. */
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

/** Returns both results; the problems of both are thrown as one `usage` error. */
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

/** Like `readSettings`, with the proxies if `names` has `proxies`: the problems of both are one error. */
export function readNamed(
  names: readonly (SettingName | 'proxies')[],
  source: SettingsSource,
  needed: { readonly [P in SettingName]?: string } = {},
): Settings<SettingName> & { proxies: Proxies } {
  const own = names.filter((name) => name !== 'proxies')
  const [settings, proxies] = readTogether(
    () => readSettings<SettingName>(own, source, needed),
    () => (own.length < names.length ? readProxies(source) : {}),
  )
  return { ...settings, proxies }
}

/** Every setting in force, those of proxies too. Throws `usage` as `readSettings` does. */
export function findInForce(source: Omit<SettingsSource, 'flags'>): SettingInForce[] {
  const findOwn = () => {
    const { problems, inForce } = inspectSettings(settingNames, source)
    if (problems.length > 0) throw wrongSettings(problems)
    return inForce
  }
  return readTogether(findOwn, () => findProxiesInForce(source)).flat()
}

/** The values of libpq's own variables, for parts that `DATABASE_URL` leaves out. */
export function readPostgresVariables({ PGHOST, PGPORT, PGSSLMODE }: SettingsSource['env']): {
  host: string
  port: number
  sslMode: string | undefined
} {
  return { host: PGHOST || 'localhost', port: Number(PGPORT || 5432), sslMode: PGSSLMODE || undefined }
}

/** The format of diagnostics, if it is set and valid. Needed before the settings, to report what is wrong with them. */
export function readLogFormat(source: SettingsSource): 'pretty' | 'json' | undefined {
  const merged = mergeSources(source, known, [])
  const value = readSettingValue('LEADPUSH_LOG_FORMAT', merged, { cwd: source.cwd, isSecret: false }, [])
  const parsed = definitions.logFormat.schema.safeParse(value)
  return parsed.success ? parsed.data : undefined
}
