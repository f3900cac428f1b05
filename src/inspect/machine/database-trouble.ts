/** Tells why the database cannot be reached (host name, port, TLS, password, database name …), and what to do about it. */

import { codeOf, LeadpushError, messageOf } from '../../base/errors.ts'
import { isDatabaseError } from '../../db/away.ts'
import { isCertificateCode } from '../../http/trouble.ts'
import { type Found, problem } from '../finding.ts'

interface Kind {
  is: (code: string, message: string) => boolean
  what: string
  toDo: string
}

const isOneOf = (codes: readonly string[]) => (code: string) => codes.includes(code)

const kinds: readonly Kind[] = [
  {
    is: isOneOf(['ENOTFOUND', 'EAI_AGAIN']),
    what: 'The host name in DATABASE_URL is not known to DNS',
    toDo: "Correct the host in DATABASE_URL, or this machine's DNS (/etc/resolv.conf, /etc/hosts).",
  },
  {
    is: isOneOf(['ECONNREFUSED', 'ENOENT']),
    what: 'The connection was refused: no PostgreSQL listens there',
    toDo: 'Start PostgreSQL, let it listen on that address (listen_addresses), or correct host and port in DATABASE_URL.',
  },
  {
    is: (code, message) =>
      /^(ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/.test(code) ||
      /timeout exceeded|timeout expired|connection timeout/i.test(message),
    what: 'There was no answer in time',
    toDo: 'Check the host and the port in DATABASE_URL, and whether a firewall lets this machine through.',
  },
  {
    is: (code, message) => code === 'CERT_HAS_EXPIRED' || /certificate has expired/i.test(message),
    what: "TLS: the server's certificate has expired",
    toDo: 'Renew it on the server; if it is new, check the clock of this machine.',
  },
  {
    is: (code, message) => code === 'ERR_TLS_CERT_ALTNAME_INVALID' || /does not match certificate/i.test(message),
    what: "TLS: the server's certificate is for another host name",
    toDo: 'Put a name that the certificate has into DATABASE_URL.',
  },
  {
    is: (code, message) => isCertificateCode(code) || /certificate/i.test(message),
    what: "TLS: the server's certificate is not trusted",
    toDo: 'Name the file of its certificate authority as sslrootcert in DATABASE_URL, or in NODE_EXTRA_CA_CERTS.',
  },
  {
    is: (code, message) => /does not support SSL/i.test(message) || /^(EPROTO|ERR_SSL|ERR_TLS)/.test(code),
    what: 'TLS: the server does not offer what DATABASE_URL asks for',
    toDo: 'Turn ssl on in PostgreSQL, or take sslmode out of DATABASE_URL where the network to it is private.',
  },
  {
    is: (code, message) => code === '28P01' || /password/i.test(message),
    what: 'The password is wrong or missing',
    toDo: 'Correct user and password in DATABASE_URL, or set the password (alter role NAME password …).',
  },
  {
    is: (code) => code.startsWith('28'),
    what: 'The server does not let this user in from here',
    toDo: 'Correct the user in DATABASE_URL, or allow it in pg_hba.conf of the server.',
  },
  {
    is: isOneOf(['3D000']),
    what: 'There is no such database',
    toDo: 'Create it (createdb NAME), then run `leadpush migrate`; or correct its name in DATABASE_URL.',
  },
  {
    is: isOneOf(['53300']),
    what: 'The server has no connection left',
    toDo: 'Raise max_connections, end idle sessions, or put a PgBouncer in transaction mode before it.',
  },
  {
    is: isOneOf(['57P03']),
    what: 'The server is starting, stopping or recovering',
    toDo: 'Wait until it is ready, and run `leadpush validate` again.',
  },
]

/** Words an error of opening the database; one of no known kind keeps its own message. */
export function judgeDatabaseError(error: unknown): Found {
  const cause = error instanceof LeadpushError ? error.cause : error
  const hint = error instanceof LeadpushError ? error.hint : undefined
  if (cause !== undefined && isDatabaseError(cause)) {
    const [code, message] = [codeOf(cause) ?? '', messageOf(cause)]
    const kind = kinds.find(({ is }) => is(code, message))
    if (kind) return problem(`${kind.what} (${message || code})`, kind.toDo)
  }
  return problem(messageOf(error), hint ?? 'Check that PostgreSQL runs and that DATABASE_URL is right.')
}
