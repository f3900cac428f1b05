/** Reads `DATABASE_URL` as libpq does (contract 2), and refuses by name the parameters of libpq that are not honoured. */

/** The place of the database, and the way to it. Undefined values were not given. */
export interface DatabaseAddress {
  /** In the order of the URL; empty if none was given. A host that begins with / is a folder of a Unix socket. */
  hosts: { host: string; port: number | undefined }[]
  user: string | undefined
  password: string | undefined
  database: string | undefined
  /** The other parameters, all of them with a value that is honoured. */
  parameters: ReadonlyMap<string, string>
}

export const sslModes = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'] as const

export const databaseUrlAllowed =
  'a URL like postgresql://user:password@host:5432/database, with / # ? @ in the password as %2F %23 %3F %40'

/** Says what is allowed instead; never holds a part of a password. */
class NotHonoured extends Error {}

const anything = /^/
/** The honoured parameters, with their honoured values. */
const honoured: Record<string, RegExp | readonly string[]> = {
  host: anything,
  port: /^\d*(,\d*)*$/,
  user: anything,
  password: anything,
  dbname: anything,
  application_name: anything,
  fallback_application_name: anything,
  options: anything,
  client_encoding: ['auto', 'UTF8', 'utf8', 'UTF-8', 'utf-8'],
  connect_timeout: /^\d{1,6}$/,
  keepalives: ['0', '1'],
  keepalives_idle: /^\d{1,6}$/,
  sslmode: sslModes,
  // as JDBC has it, and libpq too: sslmode=require
  ssl: ['true'],
  sslrootcert: anything,
  sslcert: anything,
  sslkey: anything,
  sslnegotiation: ['postgres', 'direct'],
  sslcompression: ['0'],
  sslsni: ['1'],
  target_session_attrs: ['any', 'read-write', 'primary'],
  load_balance_hosts: ['disable'],
  channel_binding: ['disable', 'prefer'],
  gssencmode: ['disable', 'prefer'],
}

/** Decodes percent escapes; a lone % stays, as pg takes it. */
function decode(text: string): string {
  return text.replace(/(%[0-9a-f]{2})+/gi, (escapes) => {
    try {
      return decodeURIComponent(escapes)
    } catch {
      return escapes
    }
  })
}

function checkParameter(name: string, value: string, isShown: boolean): void {
  const allowed = Object.hasOwn(honoured, name) ? honoured[name] : undefined
  if (allowed === undefined) {
    // a password with an unescaped ? must not show as the name of a parameter
    if (!isShown || !/^[a-z_]{2,40}$/.test(name)) throw new NotHonoured(databaseUrlAllowed)
    throw new NotHonoured(`a URL without the parameter ${name}, which leadpush does not honour`)
  }
  if (allowed instanceof RegExp ? allowed.test(value) : allowed.includes(value)) return
  const values = allowed instanceof RegExp ? 'numbers' : allowed.slice(0, 6).join(', ')
  throw new NotHonoured(`a URL whose parameter ${name} leadpush honours: ${values}`)
}

function readParameters(query: string): Map<string, string> {
  const parameters = new Map<string, string>()
  for (const [name, value] of new URLSearchParams(query)) {
    checkParameter(name, value, !query.includes('@'))
    parameters.set(name, value)
  }
  if (parameters.delete('ssl') && !parameters.has('sslmode')) parameters.set('sslmode', 'require')
  const mode = parameters.get('sslmode')
  const files = ['sslrootcert', 'sslcert', 'sslkey'].filter((name) => parameters.get(name))
  if (files.length > 0 && mode === undefined) throw new NotHonoured(`a URL with sslmode beside ${files[0]}`)
  if (files.includes('sslcert') !== files.includes('sslkey')) {
    throw new NotHonoured('a URL with both sslcert and sslkey, or none of them')
  }
  const authority = parameters.get('sslrootcert')
  if (mode === 'verify-ca' && !authority) throw new NotHonoured('a URL with sslrootcert beside sslmode=verify-ca')
  if (authority === 'system' && mode !== 'verify-full') {
    throw new NotHonoured('a URL with sslmode=verify-full beside sslrootcert=system')
  }
  if (parameters.get('sslnegotiation') === 'direct' && !/^(require|verify-)/.test(mode ?? '')) {
    throw new NotHonoured('a URL with sslmode=require, verify-ca or verify-full beside sslnegotiation=direct')
  }
  return parameters
}

function readPort(text: string | undefined): number | undefined {
  if (!text) return undefined
  const port = Number(text)
  if (/^\d+$/.test(text) && port >= 1 && port <= 65_535) return port
  throw new NotHonoured(databaseUrlAllowed)
}

/** `a:5432,b` or, in brackets, addresses of IPv6. */
function readHosts(text: string): DatabaseAddress['hosts'] {
  if (text === '') return []
  return text.split(',').map((part) => {
    const found = /^(?:\[([\da-f:.%]+)\]|([^\s:[\]]*))(?::(\d*))?$/i.exec(part)
    if (!found) throw new NotHonoured(databaseUrlAllowed)
    return { host: decode(found[1] ?? found[2] ?? ''), port: readPort(found[3]) }
  })
}

/** Hosts and ports that are parameters: one port holds for all hosts. */
function readListedHosts(hosts: string, ports: string): DatabaseAddress['hosts'] {
  const listed = ports.split(',').map(readPort)
  const names = hosts.split(',')
  if (listed.length > 1 && listed.length !== names.length)
    throw new NotHonoured('a URL with one port, or one for each host')
  return names.map((host, index) => ({ host, port: listed.length === 1 ? listed[0] : listed[index] }))
}

/** Throws an error whose message says what is allowed; it holds nothing secret. */
export function parseDatabaseUrl(text: string): DatabaseAddress {
  const parts = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/.exec(text)
  if (!parts) throw new NotHonoured(databaseUrlAllowed)
  const [, identity = '', authority = '', path = '', query = ''] = parts
  const parameters = readParameters(query)
  const take = (name: string) => {
    const value = parameters.get(name)
    parameters.delete(name)
    return value || undefined
  }
  const colon = identity.indexOf(':')
  const [user, password] = colon < 0 ? [identity, ''] : [identity.slice(0, colon), identity.slice(colon + 1)]
  const ports = take('port')
  const listed = take('host')
  const written = readHosts(authority)
  const hosts = listed === undefined ? written : readListedHosts(listed, ports ?? '')
  const port = listed === undefined ? readPort(ports) : written[0]?.port
  return {
    hosts: hosts.map((each) => ({ ...each, port: each.port ?? port })),
    user: take('user') ?? (decode(user) || undefined),
    password: take('password') ?? (decode(password) || undefined),
    database: take('dbname') ?? (decode(path) || undefined),
    parameters,
  }
}
